"""A run -> doubts: figures of it that cannot both be right. A run whose figures agree has none.

To those of its log it adds what was measured: FLOPs against the peak, power against its limit, the number of GPUs,
log and readings that share no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.doubts import Doubt
from gputel.analysis.logs.patterns import lazy_regex
from gputel.analysis.runs.cross_checks import Figure, cross_checks, figure
from gputel.analysis.runs.log_doubts import log_doubts
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.facts import Fact
    from gputel.analysis.runs.mfu import MfuFigures

_NAMED_SIZE = lazy_regex(r"\b(\d{1,3}) ?GB\b")  # `A100-SXM4-40GB`
BUSY = 20.0  # % utilization of a GPU that takes part
MOST_SHARED_S = 60.0  # of two segments of a node, for which the clocks of two machines may be the reason


@dataclass(frozen=True)
class Findings:
    """Results of a report on a run: the overlap of log and readings, sums by kind of span, GPUs, and its MFU."""

    shared: Mapping[str, Any] | None
    totals: pl.DataFrame
    gpus: pl.DataFrame
    mfu: MfuFigures


def report_doubts(subject: RunData, findings: Findings) -> tuple[Doubt, ...]:
    """Returns the doubts about a run, most severe first: files that do not belong together, then its figures."""
    return (
        *_apart(subject, findings.shared),
        *_at_once(subject),
        *log_doubts(subject, findings.mfu),
        *cross_checks(_measured(subject, findings)),
    )


def _apart(subject: RunData, shared: Mapping[str, Any] | None) -> Iterator[Doubt]:
    if shared is None or shared["shared_s"] or subject.recording is not None:
        return
    offset_s = shared["offset_s"]
    likely = "one of them is of another run" if offset_s is None else "one of them is in another time zone"
    hint = "name the shift by --offset" if offset_s is None else f"add --offset={offset_s / 3600:g}h"
    yield Doubt(
        "run",
        "overlap",
        f"the log is of {from_to(shared['log'])}, the readings of {from_to(shared['gpu'])}: they share no time",
        f"{likely}; {hint}",
        {"shared_s": 0.0, "offset_s": offset_s},
    )


def _at_once(subject: RunData) -> Iterator[Doubt]:
    """Segments of one node that overlap in time: a replaced machine went on, so the work of both is counted."""
    recording = subject.recording
    if recording is None:
        return
    before: dict[str | None, tuple[int, int]] = {}  # of each node the number and the end of a segment
    for segment, facts in zip(recording.folder.segments, recording.descriptions, strict=True):
        began, ended = (run_folder.wall_ns(facts, edge) for edge in ("started", "ended"))
        number, last = before.get(segment.node, (0, 0))
        shared_s = (min(last, ended or last) - began) / SECOND if began is not None else 0.0
        if shared_s > MOST_SHARED_S:
            of_node = f" of node {segment.node}" if segment.node is not None else ""
            yield Doubt(
                "run",
                "segments",
                f"segments {number} and {segment.number}{of_node} were recorded at the same time for "
                f"{text.duration(shared_s)}",
                "two machines ran as one node, and the steps, tokens and energy of both are counted",
                {"shared_s": shared_s},
            )
        if ended is not None and ended > last:
            before[segment.node] = segment.number, ended


def from_to(edges: Sequence[str]) -> str:
    """Begin and end, in UTC."""
    return " to ".join(map(text.to_the_second, edges))


def _measured(subject: RunData, findings: Findings) -> dict[str, Figure | None]:
    """Returns the figures of `cross_checks` that readings of GPUs tell, and those of the log beside them."""
    train = next(findings.totals.filter(pl.col("kind") == "train").iter_rows(named=True), {})
    limit, joules = subject.facts.power_limit_w, train.get("energy_counter_j")
    apart = train.get("energy_difference")  # None unless both cover the same time
    simulated = subject.recording is not None and subject.recording.simulated
    printed = None if simulated else subject.log.summary.get("peak_memory_mib")
    return {
        "power_mean_w": figure(train.get("power_mean_w")),
        "power_limit_w": figure(limit and limit.value),
        "integral_j": None if apart is None or joules is None else Figure((1 + apart) * joules),
        "counter_j": figure(joules),
        "printed_mib": figure(printed),
        "measured_mib": figure(_highest(findings.gpus, "mem_peak_mib")),
        "memory_total_mib": figure(_memory_of_each(subject)),
        "mfu_percent": figure(findings.mfu.computed),
        "power_percent": _share(train.get("power_mean_w"), limit),
        "ranks": figure(subject.log.config.get("world_size")),
        "measured": figure(findings.gpus.height or None),
        "busy": figure(_busy(findings.gpus)),
    }


def _share(power_w: Any, limit: Fact | None) -> Figure | None:
    """Returns power in % of its limit."""
    if not isinstance(power_w, float) or limit is None or not limit.value:
        return None
    return Figure(100 * power_w / float(limit.value))


def _memory_of_each(subject: RunData) -> float | None:
    """Returns the memory of a GPU in MiB, as recorded or read, else as its name says; None of several sizes."""
    sizes = {gpu.get("memory_total_mib") for facts in _described(subject) for gpu in facts.get("gpus") or ()}
    if subject.readings is not None and "mem_total_mib" in subject.readings.columns:
        sizes = set(subject.readings["mem_total_mib"].drop_nulls().unique())
    sizes.discard(None)
    if sizes:
        return float(sizes.pop()) if len(sizes) == 1 else None
    named = _NAMED_SIZE.search(str(subject.facts.gpu.value)) if subject.facts.gpu else None
    return 1024 * float(named[1]) if named else None


def _described(subject: RunData) -> Sequence[Mapping[str, Any]]:
    return subject.recording.descriptions if subject.recording else ()


def _highest(gpus: pl.DataFrame, name: str) -> Any:
    return gpus[name].max() if name in gpus.columns else None


def _busy(gpus: pl.DataFrame) -> int | None:
    if "util" not in gpus.columns or gpus["util"].null_count():
        return None
    return gpus.filter(pl.col("util") > BUSY).height
