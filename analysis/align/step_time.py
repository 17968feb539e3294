"""Measured steps -> the time of a step with its error, by the estimate whose error is smallest.

Timestamps of whole seconds say little of one step and much of two hundred: the time from the first to the last line
of a stretch without other lines, divided by its steps. The log's own step times are finer, but may leave out part
of a step; what they differ from the timestamps counts as their error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.align.spans import LONG
from gputel.analysis.align.timestamps import usual_near
from gputel.analysis.runs.log_doubts import BLOCK

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log

STALLED = 1.5  # times the usual: a block with a stall
SURE = 1.64  # standard deviations on both sides that hold 90 %
MEDIAN = 1.25  # standard error of a median, times that of a mean
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step; the true value is within `error_s` in nine of ten cases."""

    seconds: float
    error_s: float
    origin: str


def step_time(steps: pl.DataFrame, dt_ms: pl.Series | None, resolution_s: float) -> StepTime | None:
    """Returns the time of one step of a phase.

    `steps` are rows per record as `align.per_step` returns them, `dt_ms` the printed step times of the phase, and
    `resolution_s` the smallest difference between two timestamps, 0 if there are none.
    """
    printed, stamped = _by_dt(dt_ms), _by_clock(steps, resolution_s)
    if printed is None or stamped is None:
        return printed or stamped
    off = max(0.0, abs(printed.seconds - stamped.seconds) - stamped.error_s)
    printed = StepTime(printed.seconds, printed.error_s + off, printed.origin)
    return min(stamped, printed, key=lambda estimate: estimate.error_s)


def logged_step_time(records: pl.DataFrame, steps: pl.DataFrame, resolution_s: float) -> StepTime | None:
    """Returns the time of a step by its spans and by the step times that its records print, if they do."""
    dt_ms = records["dt_ms"] if "dt_ms" in records.columns else None
    return step_time(steps, dt_ms, resolution_s)


def contains_others(records: pl.DataFrame, log: Log) -> pl.Series:
    """Marks records whose step time contains the evaluation or checkpoint printed before them: it is long.

    Marks none behind evaluations if most records behind one are not long: then the printed time leaves them out.
    The same holds of checkpoints.
    """
    if "dt_ms" not in records.columns or "line" not in records.columns or records.is_empty():
        return pl.repeat(False, records.height, eager=True)
    is_long = records.select(
        (pl.col("dt_ms") > LONG * usual_near(pl.col("dt_ms"))).fill_null(False)
    ).to_series()
    saved = log.events.filter(pl.col("kind") == "checkpoint")["line"]
    marked = pl.repeat(False, records.height, eager=True)
    for others in (log.evals["line"], saved):
        behind = _behind(records["line"].to_numpy(), np.unique(others.to_numpy()))
        if 2 * (is_long & behind).sum() > behind.sum():
            marked = marked | (is_long & behind)
    return marked


def _behind(lines: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> pl.Series:
    """Marks the lines with one of the others between them and the line before."""
    return pl.Series(np.searchsorted(others, lines) > np.searchsorted(others, np.append(-1, lines[:-1])))


def _by_dt(dt_ms: pl.Series | None) -> StepTime | None:
    values = dt_ms.filter(dt_ms.is_finite() & (dt_ms > 0)).to_numpy() / 1000 if dt_ms is not None else []
    if not len(values):
        return None
    return StepTime(*_median(np.asarray(values, dtype=np.float64)), "printed step times")


def _by_clock(steps: pl.DataFrame, resolution_s: float) -> StepTime | None:
    """Averages over blocks of records that follow each other without another line between them."""
    if steps.is_empty():
        return None
    follows = (pl.col("start") == pl.col("end").shift(1)).fill_null(False)
    rows = steps.with_columns(chain=(~follows).cum_sum()).with_columns(
        place=pl.col("steps").cum_sum().over("chain") - pl.col("steps"),
        first=pl.int_range(pl.len()).over("chain") == 0,
    )
    clean = rows.filter(~pl.col("first"))  # the first of a chain begins where an evaluation is thought to end
    if clean.is_empty():
        clean = rows
    median: Any = steps["duration_s"].median()
    if resolution_s < float(median or 0) / 100:
        return StepTime(
            *_median(clean["duration_s"].to_numpy()), "timestamps" if resolution_s else "the log's clock"
        )
    return _by_coarse_clock(clean, resolution_s)


def _by_coarse_clock(rows: pl.DataFrame, resolution_s: float) -> StepTime:
    """Returns the time from the first to the last line of each stretch by its steps, without blocks that stalled.

    Only the two ends of a stretch have the clock's error; how much blocks scatter beyond it is that of the steps.
    """
    blocks = rows.group_by("chain", pl.col("place") // BLOCK, maintain_order=True).agg(
        (pl.col("duration_s") * pl.col("steps")).sum().alias("seconds"), pl.col("steps").sum()
    )
    each = pl.col("seconds") / pl.col("steps")
    stalled = pl.col("seconds") > STALLED * each.median() * pl.col("steps") + 2 * resolution_s
    steady = blocks.with_columns(
        stretch=(pl.col("chain").diff().fill_null(1) != 0) | stalled.shift(1, fill_value=False)
    )
    steady = steady.filter(~stalled)
    count, stretches = float(steady["steps"].sum()), max(1, int(steady["stretch"].sum()))
    mean = float(steady["seconds"].sum()) / count
    cut_s = resolution_s * math.sqrt(stretches / 6)
    off = (steady["seconds"] - mean * steady["steps"]).to_numpy()
    scatter_s = math.sqrt(max(0.0, float((off**2).mean()) - resolution_s**2 / 6) * len(off))
    return StepTime(mean, SURE * math.hypot(cut_s, scatter_s) / count, "timestamps")


def _median(values: Numbers) -> tuple[float, float]:
    """Returns the median and its error, by the middle half of the values."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    deviation = (high - low) / 1.349
    return float(middle), float(SURE * MEDIAN * deviation / math.sqrt(len(values)))
