"""Phases of runs -> the tables of a comparison: summary, milestones, validations, equal cost, cost of a target.

Every frame has a column `run`; null is unknown. Milestones are values as printed, at round points of an axis; a
value between two records is interpolated and marked. Differences are from the first run, of unrounded values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis import columns
from gputel.analysis.align.timestamps import timed_log
from gputel.analysis.compare import curves
from gputel.analysis.compare.axes import AXES, Numbers, amount, floats
from gputel.analysis.compare.curves import RunPhase, interpolated, metric_curve
from gputel.analysis.compare.uncertainty import ERRORS, step_time, with_uncertainty
from gputel.analysis.text import MIB_PER_GIB

if TYPE_CHECKING:
    from gputel.analysis.columns import Direction
    from gputel.analysis.compare.curves import MetricCurve

WHOLE = ("parameters", "gpus", "interruptions")
TEXT = ("run", "phase", "status")
COLUMNS = (
    "run", "phase", "status", "depth", "parameters", "gpus", "steps", "tokens", "tokens_per_parameter", "time_s",
    "flops", "energy_j", "cost", "tok_per_sec", "mfu", "j_per_token", "power_mean_w", "power_peak_w",
    "mem_peak_mib", "mem_printed_mib", "interruptions", *ERRORS.values(),
)  # fmt: skip
VALIDATIONS = {
    "name": pl.String, "run": pl.String, "best": pl.Float64, "best_step": pl.Float64, "last": pl.Float64,
    "last_step": pl.Float64,
}  # fmt: skip
EQUAL = {"axis": pl.String, "x": pl.Float64, "run": pl.String, "value": pl.Float64, "difference": pl.Float64}
COSTS = {axis.column: pl.Float64 for axis in AXES.values()}
TARGETS = {"metric": pl.String, "target": pl.Float64, "run": pl.String, **COSTS}

FULL = 1000
EXACT = 1e-9
MINUTE = 60.0
SCHEMA = {
    "x": pl.Float64,
    "run": pl.String,
    "value": pl.Float64,
    "difference": pl.Float64,
    "interpolated": pl.Boolean,
}


def summarize_runs(tracks: Sequence[RunPhase]) -> pl.DataFrame:
    """Returns one row of totals per run."""
    rows = [with_uncertainty(track, _row(track)) for track in tracks]
    schema = {name: pl.String if name in TEXT else pl.Float64 for name in COLUMNS}
    return pl.DataFrame(rows, schema=schema).with_columns(pl.col(WHOLE).cast(pl.Int64))


def validations(tracks: Sequence[RunPhase], metric: str, asked: Mapping[str, Direction]) -> pl.DataFrame:
    """Returns best and last value of every validation metric of a run, and their steps.

    The best is null if its better direction is unknown.
    """
    rows = []
    for track in tracks:
        for name in curves.evaluated(track):
            curve = metric_curve(track, name) if name.startswith("val_") or name == metric else None
            if curve is not None and len(curve.y):
                rows.append((name, track.name, *_best(curve, asked), curve.y[-1], curve.step[-1]))
    return pl.DataFrame(rows, schema=VALIDATIONS, orient="row")


def equal(lines: Sequence[MetricCurve], window: float | None) -> pl.DataFrame:
    """Returns the metric where the shortest run ends, on each axis that all runs have."""
    rows = []
    for axis in curves.comparable_axes(lines):
        xs = [curve.x(axis) for curve in lines]
        x = common_end(xs)
        if math.isnan(x):  # the records of a run that have a time have no value of this metric
            continue
        values = [
            curves.finite(curves.interpolated(x_of_run, curve.smoothed(window), np.array([x]))[0])
            for x_of_run, curve in zip(xs, lines, strict=True)
        ]
        rows += [
            (axis, x, curve.track.name, value, _less(value, values[0]) if i else None)
            for i, (curve, value) in enumerate(zip(lines, values, strict=True))
        ]
    return pl.DataFrame(rows, schema=EQUAL, orient="row")


def targets(
    tracks: Sequence[RunPhase],
    wanted: Mapping[str, float],
    window: float | None,
    asked: Mapping[str, Direction],
) -> pl.DataFrame:
    """Returns the cost at which each run first reached each target; null if it never did."""
    rows = []
    for metric, target in wanted.items():
        better = columns.better_or_refuse(metric, asked)
        for track in tracks:
            curve = metric_curve(track, metric)
            y = curve.smoothed(window)
            spent = {
                axis.column: curves.reached(curve.x(axis.name), y, target, better)
                for axis in AXES.values()
                if len(y) and (axis.name == "step" or axis.name in track.costs)
            }
            rows.append({"metric": metric, "target": target, "run": track.name, **spent})
    return pl.DataFrame(rows, schema=TARGETS)


def interruptions(track: RunPhase) -> float:
    """Counts interruptions: restarts of steps or recordings, and an early end."""
    log, recording = track.subject.log, track.subject.recording
    again = max((attempt for phase, attempt in log.places if phase == track.phase), default=1) - 1
    segments: Any = recording.segments.group_by("node").len()["len"].max() if recording else 1
    resumed = sum(kind in ("resume", "restart") for kind in log.events["kind"].to_list())
    return float(max(again, int(segments or 1) - 1, resumed) + (log.status in ("interrupted", "failed")))


def milestone_table(lines: Sequence[MetricCurve], axis: str) -> pl.DataFrame:
    """Returns `x`, `run`, `value`, `difference` from the first run, and whether the value is `interpolated`.

    Without rows where a step is an epoch in some runs only.
    """
    xs = [curve.x(axis) for curve in lines]
    points = np.array(_points(axis, common_end(xs)) if axis in curves.comparable_axes(lines) else [])
    values = [interpolated(x, curve.y, points) for x, curve in zip(xs, lines, strict=True)]
    wanted = np.isfinite(values).any(axis=0) if len(points) else np.zeros(0, dtype=bool)
    points, values = points[wanted], [values_of_run[wanted] for values_of_run in values]
    parts = [
        pl.DataFrame(
            {
                "x": points,
                "run": [curve.track.name] * len(points),
                "value": values_of_run,
                "difference": values_of_run - values[0] if i else np.full(len(points), np.nan),
                "interpolated": ~np.isin(points, x) & np.isfinite(values_of_run),
            },
            schema=SCHEMA,
        )
        for i, (x, curve, values_of_run) in enumerate(zip(xs, lines, values, strict=True))
    ]
    return pl.concat(parts).with_columns(pl.col("value", "difference").fill_nan(None))


def steps(end: float) -> list[float]:
    """Returns 0, then 1 and 5 times each power of ten from 1,000 on, then the last full thousand.

    Below 1,000 the unit is 10, below 100 it is 1.
    """
    if not end >= 0:
        return []
    full = _unit(end)
    last = float(math.floor(end / full) * full)
    points = [0.0, *_ones_and_fives(full, last)]
    return points if last in points else [*points, last]


def rounds(end: float) -> list[float]:
    """Returns 1 and 5 times each of the last powers of ten, then the end to two digits."""
    if not (math.isfinite(end) and end > 0):
        return []
    ten = 10.0 ** math.floor(math.log10(end))
    last = math.floor(end / ten * 10 * (1 + EXACT)) * ten / 10
    points = _ones_and_fives(ten / 1000, last)
    return points if math.isclose(last, points[-1], rel_tol=EXACT) else [*points, last]


def common_end(xs: Sequence[Numbers]) -> float:
    """Returns the end of the shortest run; NaN if a run has no finite x."""
    ends = [np.nanmax(x) if np.isfinite(x).any() else np.nan for x in xs]
    return float(np.min(ends)) if ends else math.nan


def _best(curve: MetricCurve, asked: Mapping[str, Direction]) -> tuple[float | None, float | None]:
    better = columns.better(curve.metric, asked)
    if better is None:
        return None, None
    best = int(np.argmin(curve.y) if better == "lower" else np.argmax(curve.y))
    return float(curve.y[best]), float(curve.step[best])


def _row(track: RunPhase) -> dict[str, Any]:
    facts, log = track.subject.facts, track.subject.log
    tokens, flops, seconds, energy, cost = (
        track.total(axis) for axis in ("tokens", "flops", "time", "energy", "cost")
    )
    parameters = amount(facts.parameters)
    rows = track.rows
    rate = _printed_rate(track) or _trained_rate(track) or _rate(tokens, seconds)
    return {
        "run": track.name,
        "phase": track.phase,
        "status": log.status,
        "depth": amount(facts.depth),
        "parameters": parameters,
        "gpus": amount(facts.gpus),
        "steps": float(track.done[-1]) if len(track.done) else None,
        "tokens": tokens,
        "tokens_per_parameter": tokens / parameters if tokens and parameters else None,
        "time_s": seconds,
        "flops": flops,
        "energy_j": energy,
        "cost": cost,
        "tok_per_sec": rate,
        "mfu": _mean(rows, "mfu") or _mfu(flops, tokens, rate, amount(facts.peak_flops)),
        "mem_printed_mib": _memory(track),
        "interruptions": interruptions(track),
        **track.measured.figures(amount(facts.tokens_per_step)),
    }


def _memory(track: RunPhase) -> float | None:
    """Returns the memory of a GPU as printed in the log."""
    log = track.subject.log
    printed = log.summary.get("peak_memory_mib")
    if isinstance(printed, float):
        return printed
    peak: Any = log.records["memory_gib"].max() if "memory_gib" in log.records.columns else None
    return None if peak is None else float(peak) * MIB_PER_GIB


def _mean(rows: pl.DataFrame, name: str) -> float | None:
    """Returns the mean of all printed values, as in `gputel parse`."""
    if name not in rows.columns:
        return None
    values = floats(rows[name])
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else None


def _printed_rate(track: RunPhase) -> float | None:
    """Returns the mean printed throughput, in the unit that fits tokens and step times."""
    rate = _mean(track.rated, "tok_per_sec")
    return None if rate is None else rate * track.subject.step_tokens.rate_scale


def _rate(tokens: float | None, seconds: float | None) -> float | None:
    return tokens / seconds if tokens and seconds else None


def _trained_rate(track: RunPhase) -> float | None:
    """Returns the throughput of training alone, as printed ones mostly are, by the time of a step."""
    batch = amount(track.subject.facts.tokens_per_step)
    step = step_time(track, timed_log(track.subject)) if batch else None
    return batch / step.seconds if batch and step else None


def _mfu(flops: float | None, tokens: float | None, rate: float | None, peak: float | None) -> float | None:
    return 100 * flops / tokens * rate / peak if flops and tokens and rate and peak else None


def _less(value: float | None, first: float | None) -> float | None:
    return None if value is None or first is None else value - first


def _points(axis: str, end: float) -> list[float]:
    if axis == "step":
        return steps(end)
    unit = MINUTE if axis == "time" else 1.0
    return [point * unit for point in rounds(end / unit)]


def _unit(end: float) -> int:
    if end >= FULL:
        return FULL
    return 10 if end >= 100 else 1


def _ones_and_fives(start: float, last: float) -> list[float]:
    tens = (
        [start * 10**n for n in range(math.floor(math.log10(last / start) + EXACT) + 1)]
        if last >= start
        else []
    )
    return [point for ten in tens for point in (ten, 5 * ten) if point <= last * (1 + EXACT)]
