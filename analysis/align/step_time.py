"""Measured steps -> the time of a step with its error, by the estimate whose error is smallest.

Timestamps of whole seconds say little of one step and much of two hundred: the time from the first to the last line
of a stretch without other lines, divided by its steps. The log's own step times are finer, but may leave out part
of a step; what they differ from the timestamps counts as their error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


def contains_others(records: pl.DataFrame, log: Log) -> pl.Series:
    """Marks records whose step time contains the evaluation or checkpoint printed before them: it is long.

    Marks none if most records behind one are not long: then the printed time leaves it out.
    """
    if "dt_ms" not in records.columns or "line" not in records.columns or records.is_empty():
        return pl.repeat(False, records.height, eager=True)
    saved = log.events.filter(pl.col("kind") == "checkpoint")["line"]
    others = np.unique(np.concatenate([log.evals["line"].to_numpy(), saved.to_numpy()]))
    lines = records["line"].to_numpy()
    before = np.searchsorted(others, lines) - np.searchsorted(others, np.append(-1, lines[:-1]))
    is_long = pl.col("dt_ms") > LONG * usual_near(pl.col("dt_ms"))
    marked = records.select(is_long.fill_null(False)).to_series() & pl.Series(before > 0)
    return marked if 2 * marked.sum() > (before > 0).sum() else marked & False


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
    size = 1 if resolution_s < float(steps["duration_s"].median() or 0) / 100 else BLOCK  # type: ignore[arg-type]
    blocks = clean.group_by("chain", pl.col("place") // size, maintain_order=True).agg(
        (pl.col("duration_s") * pl.col("steps")).sum().alias("seconds"), pl.col("steps").sum()
    )
    whole = blocks.filter(pl.col("steps") >= pl.min_horizontal(pl.lit(size), pl.col("steps").max()))
    each = (whole["seconds"] / whole["steps"]).to_numpy()
    if size == 1:
        return StepTime(*_median(each), "timestamps" if resolution_s else "the log's clock")
    mean, error_s = _steady_mean(each)  # a median of coarse values is as coarse as they are
    coarse = resolution_s / math.sqrt(6 * len(each)) / float(whole["steps"].mean())  # type: ignore[arg-type]
    return StepTime(mean, max(error_s, SURE * coarse), "timestamps")


def _median(values: Numbers) -> tuple[float, float]:
    """Returns the median and its error, by the middle half of the values."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    deviation = (high - low) / 1.349
    return float(middle), float(SURE * MEDIAN * deviation / math.sqrt(len(values)))


def _steady_mean(values: Numbers) -> tuple[float, float]:
    """Returns the mean without stalls, and its error."""
    steady = values[values <= STALLED * np.median(values)]
    return float(steady.mean()), float(SURE * steady.std() / math.sqrt(len(steady)))


def digits(seconds: float, error_s: float) -> str:
    """Formats a step time in ms, with its error where that is seen in the printed digits."""
    value, error = 1000 * seconds, 1000 * error_s
    if error < 0.005 * max(1.0, value / 1000):
        return f"{value:,.2f}"
    places = max(0, min(2, -math.floor(math.log10(error))))
    return f"{value:,.{places}f} ±{error:,.{places}f}"
