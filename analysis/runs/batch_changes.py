"""A batch size that changes during the run, such as by a ramp of gradient accumulation or sequence length.

A printed token count tells every change. Throughput x step time tells it where the products stay at one level for
many records: where they scatter, a throughput may be a running mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from gputel.analysis.doubts import Doubt
from gputel.analysis.logs.attempts import PLACE
from gputel.analysis.runs.record_gaps import half_digit

CHANGED = 1.2  # factor between batches of one run from which on the batch is said to change
NEAR = 0.05  # relative difference between a printed batch and those of the steps
EXACT = 2e-4  # relative error of a product of printed digits
LEVEL, FEWEST = 9, 27  # records around one whose median is its level, and how many tell levels apart
STEADY = 0.9  # share of the records that are at the level of those around them
WHOLE = 0.5  # half a digit of a count that is not rounded


class MeanBatch(NamedTuple):
    """The mean over all steps; the fields are those of `batch.StepTokens`."""

    tokens: float
    origin: str
    error: float | None
    rate_scale: float
    doubts: tuple[Doubt, ...]


class _Batches(NamedTuple):
    """`rows` have `tokens` of each of their `steps`; `error` is the relative one of their mean."""

    rows: pl.DataFrame
    error: float


def changing_batch(records: pl.DataFrame, printed: float | None) -> MeanBatch | None:
    """Returns the mean batch of a run whose batch changes; None of one batch.

    `printed` is the batch that the log names. It is doubtful unless it is the mean.
    """
    found = _by_count(records) or _by_rate(records)
    if found is None:
        return None
    batches = found.rows["tokens"]
    low, high = (float(batches.quantile(share, "nearest") or 0.0) for share in (0.02, 0.98))
    if high <= CHANGED * low or not (printed is None or low * (1 - NEAR) <= printed <= high * (1 + NEAR)):
        return None
    steps = found.rows["steps"].to_numpy()
    mean = float((batches.to_numpy() * steps).sum() / steps.sum())
    doubts = () if printed is None or abs(mean / printed - 1) < NEAR else (_doubt(printed, low, high, mean),)
    origin = f"mean of a batch that changes between {low:,.0f} and {high:,.0f}"
    return MeanBatch(round(mean), origin, found.error * mean or None, 1.0, doubts)


def _by_count(records: pl.DataFrame) -> _Batches | None:
    if not {"tokens", "step", *PLACE} <= set(records.columns):
        return None
    known = records.filter(pl.col("tokens").is_finite() & pl.col("step").is_not_null())
    grown, steps = (pl.col(name).diff().over(PLACE).cast(pl.Float64) for name in ("tokens", "step"))
    from_start = pl.col("step").eq(0) & steps.is_null()  # its count is that of the first step
    grown, steps = (
        pl.when(from_start).then(first).otherwise(later)
        for first, later in ((pl.col("tokens"), grown), (1.0, steps))
    )
    rows = known.select(tokens=grown / steps, steps=steps, grown=grown)
    rows = rows.filter((pl.col("grown") > 0) & (pl.col("steps") > 0))
    half = half_digit(known["tokens"].cast(pl.Float64))
    if rows.height < FEWEST or 2 * half > NEAR * _least(rows["grown"]):
        return None
    return _Batches(rows, 2 * half / float(rows["grown"].sum()) if half > WHOLE else 0.0)


def _by_rate(records: pl.DataFrame) -> _Batches | None:
    if not {"tok_per_sec", "dt_ms", "step", *PLACE} <= set(records.columns):
        return None
    product = records["tok_per_sec"] * records["dt_ms"] / 1000
    known = product.is_finite() & (product > 0)
    products = product.filter(known)
    if products.is_empty() or products.max() <= CHANGED * _least(products):
        return None  # their levels lie between these two, so the batch does not change
    steps = pl.col("step").diff().over(PLACE).fill_null(1).cast(pl.Float64)
    rows = records.with_columns(steps=steps, product=product).filter(known & (pl.col("steps") > 0))
    if rows.height < FEWEST:
        return None
    digits = [2 * half_digit(rows[name]) / _least(rows[name]) for name in ("tok_per_sec", "dt_ms")]
    level = rows["product"].rolling_median(LEVEL, min_samples=1, center=True)
    at_level = (rows["product"] / level - 1).abs() <= EXACT + sum(digits)
    if at_level.sum() < STEADY * rows.height:
        return None
    return _Batches(rows.select("steps", tokens=level), EXACT + sum(digits) / 2)


def _least(values: pl.Series) -> float:
    least: Any = values.min()
    return float(least)


def _doubt(printed: float, low: float, high: float, mean: float) -> Doubt:
    return Doubt(
        "run",
        "batch",
        f"the log names {printed:,.0f} tokens a step, and its steps have {low:,.0f} to {high:,.0f}",
        f"the batch changes during the run; the mean of its steps, {mean:,.0f}, is used",
        {"tokens_per_step": printed, "low": low, "high": high, "mean": mean},
    )
