"""What a recording comes to, per GPU: power, energy in two ways, each sensor's refresh, memory, throttling.

Sums run over whole seconds; refresh is judged on at most four stretches of ten minutes. GPU by GPU, so that the
account of ten days takes seconds, and no more memory than that of an hour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gputel.analysis.align.samples import hold_seconds
from gputel.analysis.runs import sensors
from gputel.analysis.runs.sensors import Numbers, Refresh
from gputel.telemetry.clock import SECOND
from gputel.telemetry.run_folder import Segment
from gputel.telemetry.sampling.status import SLOWED_DOWN
from gputel.telemetry.store import frames
from gputel.telemetry.store.wide import Journals

READINGS = ("power_w", "energy_j", "mem_used_mib", "temp_c", "throttle")
STRETCHES = 4


@dataclass
class _Sums:
    """Of one GPU, added up table by table."""

    joules: float = 0.0
    measured_s: float = 0.0
    counter_j: float = 0.0
    counted: bool = False
    counter: float | None = None
    peaks: dict[str, float] = field(default_factory=dict)
    throttle_s: dict[str, int] = field(default_factory=dict)


def gpu_totals(segments: Sequence[Segment]) -> list[dict[str, Any]]:
    """A row per node and GPU, ready for JSON; what was not measured is None. Segments of one GPU are added."""
    rows: dict[tuple[str | None, str], list[dict[str, Any]]] = {}
    for segment in segments:
        for row in folder_totals(segment.gpu):
            rows.setdefault((segment.node, row["gpu"]), []).append(row)
    return [{"node": node, **_together(parts)} for (node, _), parts in rows.items()]


def folder_totals(folder: Path) -> list[dict[str, Any]]:
    """One segment's account; see `of`."""
    gpus = dict.fromkeys(gpu for gpu, name in frames.columns(folder) if name in READINGS)
    journals = Journals()
    summed = {gpu: sums for gpu in gpus if (sums := _summed(folder, gpu, journals))}
    return [_row(gpu, sums, *_looked_at_closely(folder, gpu, journals)) for gpu, sums in summed.items()]


def _row(gpu: str, held: _Sums, refresh: dict[str, Refresh | None], edge_j: float) -> dict[str, Any]:
    counter = held.counter_j + edge_j if held.counted else None
    joules = held.joules if held.measured_s else None
    return {
        "gpu": gpu,
        "measured_s": held.measured_s,
        "power_mean_w": held.joules / held.measured_s if held.measured_s else None,
        "power_peak_w": held.peaks.get("power_w"),
        "energy_counter_j": counter,
        "energy_integral_j": joules,
        "energy_difference": sensors.difference(counter, joules),
        "mem_peak_mib": held.peaks.get("mem_used_mib"),
        "temp_peak_c": held.peaks.get("temp_c"),
        "refresh_hz": {name: found and found.hz for name, found in refresh.items()},
        "every_poll": [name for name, found in refresh.items() if found and found.every_poll],
        "throttle_s": held.throttle_s,
    }


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Segments add up; refresh is the last segment's, for the driver may have changed."""
    counter, joules = (_total(parts, name) for name in ("energy_counter_j", "energy_integral_j"))
    measured = sum(part["measured_s"] for part in parts)
    reasons = {reason for part in parts for reason in part["throttle_s"]}
    return {
        **parts[-1],
        **{name: _highest(parts, name) for name in ("power_peak_w", "mem_peak_mib", "temp_peak_c")},
        "measured_s": measured,
        "power_mean_w": joules / measured if joules is not None and measured else None,
        "energy_counter_j": counter,
        "energy_integral_j": joules,
        "energy_difference": sensors.difference(counter, joules),
        "throttle_s": {
            reason: sum(part["throttle_s"].get(reason, 0) for part in parts) for reason in sorted(reasons)
        },
    }


def _total(parts: list[dict[str, Any]], name: str) -> float | None:
    known = [part[name] for part in parts if part[name] is not None]
    return math.fsum(known) if known else None


def _highest(parts: list[dict[str, Any]], name: str) -> float | None:
    return max((part[name] for part in parts if part[name] is not None), default=None)


def _summed(folder: Path, gpu: str, journals: Journals) -> _Sums | None:
    """None where nothing was sampled."""
    sums = None
    for seconds in frames.seconds_in_turn(folder, READINGS, ("mean", "max"), gpu, journals):
        if len(seconds):
            sums = sums or _Sums()
            _add(sums, seconds)
    return sums


def _add(held: _Sums, seconds: pl.DataFrame) -> None:
    if "power_w_mean" in seconds.columns:
        known = seconds["power_w_mean"].is_not_null()
        covered = pl.Series(_sampled_s(seconds)).filter(known)
        held.joules += float((seconds["power_w_mean"].filter(known) * covered).sum())
        held.measured_s += float(covered.sum())
    if "energy_j_last" in seconds.columns:
        _add_counter(held, seconds)
    for name in ("power_w", "mem_used_mib", "temp_c"):
        peak: Any = seconds[f"{name}_max"].max() if f"{name}_max" in seconds.columns else None
        if peak is not None:
            held.peaks[name] = max(peak, held.peaks.get(name, peak))
    if "throttle_any" in seconds.columns:
        for bit, reason in SLOWED_DOWN.items():
            if within := int(((seconds["throttle_any"] & bit) != 0).sum()):
                held.throttle_s[reason] = held.throttle_s.get(reason, 0) + within


def _sampled_s(seconds: pl.DataFrame) -> Numbers:
    """How long the value of each second held: less where the sampling begins, ends or has a gap."""
    ticks = seconds["ticks"].fill_null(0).to_numpy()
    return hold_seconds(seconds["time"].dt.epoch("ns").to_numpy(), ticks).widths / SECOND


def _add_counter(held: _Sums, seconds: pl.DataFrame) -> None:
    """Holes count too; where the driver began to count anew, what went before is lost."""
    last = seconds["energy_j_last"].drop_nulls().to_numpy()
    if len(last) == 0:
        return
    if held.counter is None:
        first = seconds["energy_j_last"][0], seconds["energy_j"][0]
        held.counter = last[0] if None in first else first[0] - first[1]
    steps = np.diff(np.insert(last, 0, held.counter))
    held.counter_j += float(steps[steps >= 0].sum())
    held.counter, held.counted = float(last[-1]), True


def _looked_at_closely(folder: Path, gpu: str, journals: Journals) -> tuple[dict[str, Refresh | None], float]:
    """The refresh of each reading; and the joules that the counter had not told yet at the edges."""
    refresh: dict[str, Refresh | None] = {}
    untold: list[tuple[float, float]] = []
    for chunk in frames.chunks(folder, most=STRETCHES, gpu=gpu, journals=journals):
        if len(chunk):
            known = {name for name, found in refresh.items() if found}
            refresh.update(sensors.refresh_of_one(chunk, known))
            untold.append(_untold(chunk))
    return refresh, untold[-1][1] - untold[0][0] if untold else 0.0


def _untold(ticks: pl.DataFrame) -> tuple[float, float]:
    """What the counter lacked at the first and at the last tick: it is up to a refresh behind."""
    if not {"power_w", "energy_j"} <= set(ticks.columns):
        return 0.0, 0.0
    times = ticks["time"].dt.epoch("ns").to_numpy()
    counter, power = (ticks[name].cast(pl.Float64).to_numpy() for name in ("energy_j", "power_w"))
    lacking = []
    for edge in (0, -1):
        true = sensors.counter_at(times, counter, power, int(times[edge]))
        lacking.append(0.0 if true is None or np.isnan(counter[edge]) else true - float(counter[edge]))
    return lacking[0], lacking[1]
