"""Measured steps -> the time of a step of a phase, with its error, and the usual one near each record.

The estimate with the smallest error counts. Timestamps of whole seconds say little of one step and much of two
hundred: the time from the first to the last line of a stretch without other lines, divided by its steps. The log's
own step times are finer, but may leave out part of a step; what they differ from the timestamps counts as their
error. Near a record the time of the phase holds too, unless finer stamps, or the gaps there, tell another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis.runs.printed_times import AROUND, LONG, contains_others, usual_near
from gputel.analysis.runs.record_gaps import (
    SURE,
    StepTime,
    half_digit,
    record_gaps,
    rounding_error,
    step_with_error,
    time_by_gaps,
)

if TYPE_CHECKING:
    from gputel.analysis.align.timed_log import TimedLog
    from gputel.analysis.align.windows import Numbers

__all__ = [
    "SURE",
    "StepTime",
    "logged_step_time",
    "numbered",
    "step_ns_near",
    "step_time",
    "step_times",
]

COARSE = 0.02  # share of a gap: times coarser than this say little about it


def step_time(
    gaps: pl.DataFrame, dt_ms: pl.Series | None, resolution_s: float, digit_ms: float = 0.0
) -> StepTime | None:
    """Returns the time of one step of a phase.

    `gaps` are those between its records, `dt_ms` the printed step times of the phase, and `resolution_s` the
    smallest difference between two timestamps, 0 if there are none. `digit_ms` is as in TimedLog.
    """
    printed, stamped = _by_dt(dt_ms, digit_ms), time_by_gaps(gaps, resolution_s)
    if printed is None or stamped is None:
        return printed or stamped
    off = max(0.0, abs(printed.seconds - stamped.seconds) - stamped.error_s)
    printed = StepTime(printed.seconds, printed.error_s + off, printed.origin)
    return min(stamped, printed, key=lambda estimate: estimate.error_s)


def step_times(placed: TimedLog, steps: pl.DataFrame | None = None) -> dict[str, StepTime]:
    """Returns the time of a step of each phase; `steps` as in `logged_step_time`."""
    times = {}
    for (phase,), records in placed.records.group_by("phase", maintain_order=True):
        rows = None if steps is None else steps.filter(pl.col("phase") == phase)
        if time := logged_step_time(records, rows, placed):
            times[str(phase)] = time
    return times


def logged_step_time(records: pl.DataFrame, steps: pl.DataFrame | None, placed: TimedLog) -> StepTime | None:
    """Returns the time of a step by the gaps between records and by the step times that they print, if they do.

    None of records that print neither a step nor its time: nothing says how many steps lie between two of them.
    `steps` are their rows as `align.per_step` returns them: used where no two records follow each other and no step
    time is printed.
    """
    dt_ms = None
    if not numbered(records):
        return None
    if "dt_ms" in records.columns:
        phase = placed.records.filter(pl.col("phase").is_in(records["phase"].implode()))
        with_others = phase.filter(contains_others(phase, placed))["line"]  # the first record, too, may tell
        alone = records.filter(~pl.col("line").is_in(with_others.implode()))
        compiled = pl.int_range(pl.len()).over("attempt") == 0
        dt_ms = alone["dt_ms"] if alone.height == records.height else alone.filter(~compiled)["dt_ms"]
    timed = placed.records.filter(pl.col("line").is_in(records["line"].implode()))
    saved = placed.events.filter(pl.col("kind") == "checkpoint")
    gaps = record_gaps(timed, placed.evals, saved)
    if dt_ms is not None and dt_ms.count() and not (placed.stamped or placed.resolution_s):
        gaps = gaps.clear()  # a printed time that covers five steps is one measurement, not five
    if gaps.is_empty() and dt_ms is None and steps is not None:
        gaps = steps.select(
            pl.int_range(pl.len()).alias("chain"), "steps", pl.col("duration_s") * pl.col("steps")
        )
        gaps = gaps.rename({"duration_s": "seconds"})
    return step_time(gaps, dt_ms, placed.resolution_s, placed.dt_digit_ms)


def numbered(records: pl.DataFrame) -> bool:
    """Returns whether records say how many steps they cover: by a step, or by the time of one."""
    return "dt_ms" in records.columns or records["step"].null_count() < records.height


def step_ns_near(gaps: pl.DataFrame, resolution_ns: int, times: Mapping[str, StepTime]) -> Numbers:
    """Returns ns per step near each record: the median of the gaps around it, else the printed step time.

    `gaps` have a row for each record: `width` in ns, null where another line lies in the gap; `steps`, `phase`,
    whether it is the `first` of its attempt, and its `printed` ns. A median of coarse times is as coarse as they
    are: then it is that of `times` by phase, unless the gaps around contradict it by more than their ends may.
    """
    width, steps = pl.col("width"), pl.col("steps")
    median = usual_near(width / steps)
    steady = width <= LONG * median * steps + 2 * resolution_ns

    def around(value: pl.Expr) -> pl.Expr:
        return pl.when(steady).then(value).rolling_sum(AROUND, min_samples=1, center=True)

    mean = around(width) / around(steps)
    stretches = around((width.is_not_null() & width.shift().is_null()).cast(pl.Int64)) + 1
    phase, error = (
        pl.col("phase").replace_strict(
            {name: 1e9 * getattr(time, field) for name, time in times.items()},
            default=None,
            return_dtype=pl.Float64,
        )
        for field in ("seconds", "error_s")
    )
    agree = (phase - mean).abs() <= error + resolution_ns * stretches / around(steps)
    near = (
        pl.when(resolution_ns <= COARSE * median * steps).then(median).when(agree).then(phase).otherwise(mean)
    )
    near = near.fill_null(strategy="forward").fill_null(strategy="backward")
    usual = pl.coalesce(near.over(pl.col("first").cum_sum()), "printed").fill_null(np.nan)
    usual_ns: Numbers = gaps.select(usual.alias("usual"))["usual"].to_numpy()
    return usual_ns


def _by_dt(dt_ms: pl.Series | None, digit_ms: float) -> StepTime | None:
    known = dt_ms.filter(dt_ms.is_finite() & (dt_ms > 0)) if dt_ms is not None else None
    if known is None or known.is_empty():
        return None
    known, digit_ms = known.cast(pl.Float64), 2 * half_digit(known, digit_ms)
    median_ms, error_ms = step_with_error(known.to_numpy(), len(known), digit_ms)
    error_ms = math.hypot(error_ms, rounding_error(known, digit_ms))
    return StepTime(median_ms / 1000, error_ms / 1000, "printed step times")
