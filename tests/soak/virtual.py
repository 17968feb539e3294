"""A soak on virtual time: its processes one after the other, and what each of them reports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputel.telemetry.clock import SECOND
from gputel.telemetry.nvml.counters import PRECISION
from gputel.telemetry.sampling import watchdog
from gputel.telemetry.store import parquet
from tests.conftest import ROOT
from tests.fake_nvml import H100, MS, FakeNvml, build
from tests.soak.check import WARM_UP, Excuses, Soaked, Span, check
from tests.soak.life import ORIGIN, lives
from tests.soak.plan import SoakPlan
from tests.soak.truth import NVLINK_BYTES_S, NVLINK_REFRESH, PCIE_BYTES_S, PCIE_REFRESH, steps_mw

HANDOVER = watchdog.LIMIT + 100 * MS
BACK = 3 * SECOND // 2
"""The loop looks for GPUs that are back once a second."""


@dataclass(frozen=True)
class VirtualSoak:
    """The result: what was found in the store, and in the reports of the processes."""

    soaked: Soaked
    lives: int
    stalls: int
    missed: int
    """Ticks that the sampler itself counted as missed."""
    uncounted: list[str]
    """Processes whose ticks and missed ticks do not add up to their time."""


def run(folder: Path, soak: SoakPlan) -> VirtualSoak:
    """Soak in a folder: kill each process of the sampler but the last, then compact and check."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(soak.as_json()))
    (folder / "run" / "gpu").mkdir(parents=True)
    make_driver(folder, soak.gpus)
    count = len(lives(soak))
    for number in range(count):
        command = [sys.executable, "-m", "tests.soak.life", str(folder), str(number)]
        ended = subprocess.run(command, cwd=ROOT, check=False).returncode
        assert ended == (0 if number == count - 1 else -signal.SIGKILL), ended
    reports = [json.loads((folder / f"life-{number}.json").read_text()) for number in range(count)]
    parquet.compact(folder / "run" / "gpu", everything=True)
    return VirtualSoak(
        check(folder / "run" / "gpu", ORIGIN, soak.hz, excuses(reports, soak)),
        count,
        sum(len(report["stalls"]) for report in reports),
        sum(report["missed"] for report in reports),
        [text for report in reports if (text := uncounted(report, soak.hz))],
    )


def make_driver(folder: Path, gpus: int) -> FakeNvml:
    """The driver whose truth is in truth.py."""
    fake = FakeNvml(folder / "driver", build(folder / "build"), [H100] * gpus)
    for number, gpu in enumerate(fake.gpus):
        fake.power(steps_mw(number), number)
        gpu.pcie_rx_rate, gpu.pcie_tx_rate = PCIE_BYTES_S
        gpu.nvlink_rx_rate, gpu.nvlink_tx_rate = NVLINK_BYTES_S
        gpu.pcie_refresh_ns, gpu.nvlink_refresh_ns = PCIE_REFRESH, NVLINK_REFRESH
    return fake


def uncounted(report: dict[str, Any], hz: float) -> str | None:
    """Says if a life has more time than ticks; one tick of each handover has no row, and counts as a tick."""
    whole = round((report["last"] - report["first"]) / SECOND * hz) + 1
    counted = report["ticks"] + report["missed"]
    hangs = sum(event["kind"] == "gpu_lost" and event.get("cause") == "hang" for event in report["events"])
    if abs(whole - counted) <= hangs:
        return None
    return f"{whole} ticks of time, {report['ticks']} fired, {report['missed']} counted as missed"


def excuses(reports: list[dict[str, Any]], soak: SoakPlan) -> Excuses:
    """What each process of the sampler was kept from, by its own events and by the plan."""
    begins = [report["begins"] for report in reports]
    events = [event for report in reports for event in report["events"]]
    stalls = [stall for report in reports for stall in report["stalls"]]
    gaps = [(at, at + min(ns, HANDOVER) + 50 * MS) for at, ns in stalls if ns > watchdog.LIMIT - 20 * MS]
    gaps += [
        (report["ends"] - SECOND, begin + SECOND) for report, begin in zip(reports, begins[1:], strict=False)
    ]
    gaps += [_span(fault.at_s - 1, fault.at_s + fault.lasts_s + 1) for fault in soak.of_kind("full")]
    begun = [*begins, *(event["at"] for event in events if event.get("cause") == "hang")]
    gone: dict[str, list[Span]] = {str(gpu): [] for gpu in range(soak.gpus)}
    for fault in soak.of_kind("gone"):  # of one that is gone when a process begins there is no event here
        gone[str(fault.gpu)].append(_span(fault.at_s, fault.at_s + fault.lasts_s + BACK / SECOND))
    lost = {
        gpu: _shifted([*spans, *(span for report in reports for span in _lost(report, gpu))])
        for gpu, spans in gone.items()
    }
    return Excuses(
        _shifted(gaps),
        lost,
        _shifted([*((at - SECOND, at + WARM_UP) for at in begun), *_slow_starts(events, begun, stalls)]),
        _shifted((at - MS, at + ns + SECOND) for at, ns in stalls),
    )


def _slow_starts(
    events: Sequence[dict[str, Any]], begun: Sequence[int], stalls: Sequence[Span]
) -> Iterator[Span]:
    """When rates may be unknown because a call took long just after they began.

    The first change that was seen is as uncertain as that call was long, and a rate is known within PRECISION, at
    a change of its counter.
    """
    begins = [*begun, *(event["at"] for event in events if event["kind"] == "gpu_back")]
    for at, ns in stalls:
        if any(begin <= at <= begin + WARM_UP for begin in begins):
            yield at, at + ns + round(ns / PRECISION) + 2 * NVLINK_REFRESH


def _shifted(spans: Iterable[Span]) -> list[Span]:
    """Spans of the recorder's clock on the driver's."""
    return [(begin + ORIGIN, end + ORIGIN) for begin, end in spans]


def _lost(report: dict[str, Any], gpu: str) -> Iterator[Span]:
    """When a GPU was left out. Of one that was silent at the start only its return is an event here."""
    first = next((event["kind"] for event in report["events"] if event.get("gpu") == gpu), None)
    since = report["begins"] if first == "gpu_back" else None
    for event in report["events"]:
        if event.get("gpu") != gpu:
            continue
        if event["kind"] == "gpu_lost" and since is None:
            since = event["at"] - BACK
        elif event["kind"] == "gpu_back" and since is not None:
            yield since, event["at"] + 20 * MS
            since = None
    if since is not None:
        yield since, report["ends"]


def _span(begin_s: float, end_s: float) -> Span:
    return round(begin_s * SECOND), round(end_s * SECOND)
