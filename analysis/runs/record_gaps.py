"""A log's records -> the time between two of them, and the time of a step by it, with its error.

Timestamps of whole seconds say little of one step and much of two hundred: the time from the first to the last
record of a stretch without other lines, divided by its steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.telemetry.clock import SECOND

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log

BLOCK = 20  # steps of a block of records, over which a coarse clock is good enough
FINE = 0.01  # share of a gap: a clock that is finer than this tells the time of one gap
FEWEST = 4  # step times that tell how much they scatter
UNSEEN = 0.05  # the scatter of fewer, as a share of a step
SCARCE = 3.0  # values: the middle half of so few is too narrow, by a factor of two in nine of ten cases
STALLED = 1.5  # times the usual: a block with a stall
SURE = 1.64  # standard deviations on both sides that hold 90 %
DITHERED = 4  # different values, from which on most of the errors of their rounding cancel
DECIMALS = range(-6, 7)  # to which figures are rounded
MEDIAN = 1.25  # standard error of a median, times that of a mean
FEW = 64  # values by which most units are ruled out before all are looked at
FEWEST_GAPS = 3  # between records, that tell the time of a step
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step; the true value is within `error_s` in nine of ten cases."""

    seconds: float
    error_s: float
    origin: str


def record_gaps(records: pl.DataFrame, *others: pl.DataFrame) -> pl.DataFrame:
    """Returns the gaps between records that follow each other, with `steps`, `seconds` and the `chain` they are of.

    `others` have the lines of evaluations and checkpoints; a gap with one of them is no gap of training alone.
    """
    place = [name for name in ("node", "phase", "attempt") if name in records.columns]
    timed = records.filter(pl.col("time").is_not_null())
    numbered = timed.filter(pl.col("step").is_not_null()).unique(
        [*place, "step"], keep="first", maintain_order=True
    )
    rows = pl.concat([numbered, timed.filter(pl.col("step").is_null())]).sort(*place[:-2], "line")
    lines = np.unique(
        np.concatenate([np.empty(0, dtype=np.int64), *(frame["line"].to_numpy() for frame in others)])
    )
    passed = np.searchsorted(lines, rows["line"].to_numpy())
    gaps = rows.select(
        steps=pl.col("step").diff().over(place).fill_null(1),
        seconds=pl.col("time").diff().over(place).dt.total_nanoseconds() / 1e9,
        alone=pl.Series(np.diff(passed, prepend=passed[:1]) == 0, dtype=pl.Boolean),
    ).with_columns(
        clean=pl.col("alone")
        & pl.col("seconds").is_not_null()
        & (pl.col("steps") > 0)
        & (pl.col("seconds") >= 0)
    )
    return (
        gaps.with_columns(chain=(~pl.col("clean")).cum_sum())
        .filter("clean")
        .select("chain", "steps", "seconds")
    )


def time_by_gaps(gaps: pl.DataFrame, resolution_s: float) -> StepTime | None:
    """Returns the time of a step by gaps, whose ends have this resolution (0: no timestamps); None of none."""
    if gaps.is_empty():
        return None
    median: Any = gaps["seconds"].median()
    if resolution_s < FINE * float(median or 0):
        each = (gaps["seconds"] / gaps["steps"]).to_numpy()
        steps = float(gaps["steps"].sum())
        return StepTime(*step_with_error(each, steps), "timestamps" if resolution_s else "the log's clock")
    return _by_coarse_clock(gaps, resolution_s)


def step_by_stamps(log: Log, *, recorded: bool) -> StepTime | None:
    """Returns the time of a step by a log's timestamps, or by those of a recorder; None of too few records."""
    stamps = log.records["time"].drop_nulls().dt.epoch("ns")
    whole = not recorded and bool((stamps % SECOND == 0).all())
    gaps = record_gaps(log.records, log.evals, log.events.filter(pl.col("kind") == "checkpoint"))
    return time_by_gaps(gaps, 1.0 if whole else 0.001) if gaps.height >= FEWEST_GAPS else None


def _by_coarse_clock(gaps: pl.DataFrame, resolution_s: float) -> StepTime | None:
    """Returns the time from the first to the last line of each stretch by its steps, without blocks that stalled.

    Only the two ends of a stretch have the clock's error; how much blocks scatter beyond it is that of the steps.
    """
    rows = gaps.with_columns(place=pl.col("steps").cum_sum().over("chain") - pl.col("steps"))
    blocks = rows.group_by("chain", pl.col("place") // BLOCK, maintain_order=True).agg(
        pl.col("seconds").sum(), pl.col("steps").sum()
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
    short = float(steady["seconds"].sum()) < 2 * resolution_s * stretches  # spread within their seconds alike
    if stretches > 1 and (short or _in_step(steady, resolution_s)):
        cut_s = resolution_s * stretches / math.sqrt(6)
    off = (steady["seconds"] - mean * steady["steps"]).to_numpy()
    scatter_s = math.sqrt(max(0.0, float((off**2).mean()) - resolution_s**2 / 6) * len(off))
    return StepTime(mean, SURE * math.hypot(cut_s, scatter_s) / count, "timestamps") if mean else None


def _in_step(blocks: pl.DataFrame, resolution_s: float) -> bool:
    """Whether stretches of equal steps all have one length: then the clock cut all of them alike."""
    stretches = blocks.group_by("chain").agg(pl.col("seconds", "steps").sum())
    by_steps = stretches.group_by("steps").agg(pl.col("seconds").max() - pl.col("seconds").min())
    return stretches.height > by_steps.height and float(by_steps["seconds"].max() or 0.0) < resolution_s / 2  # type: ignore[arg-type]


def median_with_error(values: Numbers, digit: float = 0.0) -> tuple[float, float]:
    """Returns the median and its error, by the middle half of the values.

    Of values that are rounded to `digit` it is the median within the digit that most of the middle ones share.
    """
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    if digit and low < high:
        below, equal = (values < middle - digit / 4).sum(), (abs(values - middle) <= digit / 4).sum()
        middle += ((len(values) / 2 - below) / max(equal, 1) - 0.5) * digit if equal else 0.0
    deviation = (1 + SCARCE / len(values)) * (high - low) / 1.349
    return float(middle), float(SURE * MEDIAN * deviation / math.sqrt(len(values)))


def step_with_error(values: Numbers, steps: float, digit: float = 0.0) -> tuple[float, float]:
    """Returns the median time of a step with its error, by values of so many steps in all.

    Few values say little of how much steps scatter. `digit` is as in `median_with_error`.
    """
    middle, error = median_with_error(values, digit)
    unseen = SURE * UNSEEN * middle / math.sqrt(steps)
    return middle, max(error, unseen) if len(values) < FEWEST else error


def half_digit(values: pl.Series, digit: float = 0.0) -> float:
    """Returns half of what the last printed digit of values stands for: 0.005 of `658.60`, 50 of `431.2k`.

    Of a value that never changes it is half of `digit`, as it was printed; without that, zeros before the point
    count as digits.
    """
    printed = values.drop_nulls().to_numpy()
    printed = printed[np.isfinite(printed)]
    if not len(printed):
        return 0.0
    is_constant = printed.min() == printed.max()
    if digit and is_constant:
        return digit / 2
    for places in DECIMALS[6:] if is_constant else DECIMALS:
        unit = 10.0**-places
        if _are_multiples(printed[:FEW], unit) and _are_multiples(printed, unit):
            return unit / 2
    return 0.0


def _are_multiples(values: Numbers, unit: float) -> bool:
    off = np.abs(values - np.round(values / unit) * unit)
    return bool((off <= 1e-12 * np.abs(values)).all())


def rounding_error(values: pl.Series, digit: float = 0.0) -> float:
    """Returns the error of a mean or median of rounded values; of many different ones most of it cancels."""
    return half_digit(values, digit) / (10 if values.n_unique() >= DITHERED else 1)


def printed_median(records: pl.DataFrame, name: str, above: float = -math.inf) -> float | None:
    """Returns the median of the finite values of a column above a bound; None without any."""
    if name not in records.columns:
        return None
    middle: Any = records.filter(pl.col(name).is_finite() & (pl.col(name) > above))[name].median()
    return None if middle is None else float(middle)
