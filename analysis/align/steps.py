"""Spans with what they cost -> a row per step, and sums by kind: where the time and the energy went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.align import readings
from gputel.analysis.align.cutting import spans
from gputel.analysis.align.gpus import AVERAGED
from gputel.analysis.align.join import JOULES, measured

if TYPE_CHECKING:
    from gputel.analysis.subjects import Subject

KINDS = ("start", "train", "eval", "checkpoint", "idle")
WHOLE = 0.99  # measured of a step, for its energy to be that of its tokens
SUMS = ("energy_j", "energy_counter_j", "throttled_s")
MEANS = ("temp_c", *AVERAGED)


def per_step(subject: Subject) -> pl.DataFrame:
    """A row per record: `steps` is how many it stands for, and time and energy are those of one of them."""
    tokens = subject.facts.tokens_per_step
    return of_spans(measured(spans(subject), readings.of(subject)), float(tokens.value) if tokens else None)


def of_spans(held: pl.DataFrame, tokens: float | None = None) -> pl.DataFrame:
    """The same of spans that are measured already; `tokens` are those of one step."""
    node = ["node"] if "node" in held.columns else []
    record = pl.col("steps").gt(0).cum_sum().shift(1, fill_value=0)
    numbered = held.filter(pl.col("kind") == "train").with_columns(
        (record.over(node) if node else record).alias("record")
    )
    keys = ["phase", "attempt"]
    rows = _one_by_one(numbered, [*node, *keys, "record"], pl.col("step").last())
    if node:
        rows = _side_by_side(rows, [*keys, "step"])
    each = [pl.col(name) / pl.col("steps") for name in ("duration_s", *SUMS)]
    tokens_each = pl.lit(tokens, pl.Float64).alias("tokens")
    told = pl.col("measured") >= WHOLE
    return (
        rows.with_columns(*each, tokens_each)
        .with_columns(pl.when(told).then(JOULES / pl.col("tokens")).alias("j_per_token"))
        .select(*keys, "step", "steps", pl.exclude(*keys, "step", "steps", "record", "spans"))
        .sort("start", maintain_order=True)
    )


def totals(held: pl.DataFrame, by: Sequence[str] = ("kind",)) -> pl.DataFrame:
    """Sums by kind, or by kind and phase, in a fixed order; `share` is of the time, `energy_share` of energy."""
    node = ["node"] if "node" in held.columns else []
    rows = _one_by_one(held, [*node, *by])
    rows = _side_by_side(rows, by) if node else rows
    place = pl.col("kind").replace_strict({kind: i for i, kind in enumerate(KINDS)}, return_dtype=pl.Int64)
    return rows.with_columns(
        (pl.col("duration_s") / pl.col("duration_s").sum()).alias("share"),
        (JOULES / JOULES.sum()).alias("energy_share"),
    ).sort(place, maintain_order=True)


def _one_by_one(rows: pl.DataFrame, keys: Sequence[str], *more: pl.Expr) -> pl.DataFrame:
    """Stretches of time that follow each other."""
    seconds = pl.col("duration_s")
    seen = seconds * pl.col("measured")
    grouped = rows.group_by(keys, maintain_order=True).agg(
        *more,
        pl.len().alias("spans"),
        pl.col("steps").sum(),
        pl.col("start").min(),
        pl.col("end").max(),
        seconds.sum(),
        _weighted("measured", seconds),
        _weighted("power_mean_w", seen),
        pl.col("power_peak_w").max(),
        *(_sum(name) for name in SUMS),
        (pl.col("energy_j").filter(pl.col("energy_counter_j").is_not_null()).sum()).alias("_beside"),
        _sum("refreshes"),
        pl.col("temp_peak_c", "mem_peak_mib").max(),
        *(_weighted(name, seen) for name in MEANS),
    )
    return _with_difference(grouped)


def _side_by_side(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The same stretch of time on several nodes."""
    grouped = rows.group_by(keys, maintain_order=True).agg(
        pl.col("spans", "steps").max(),
        pl.col("start").min(),
        pl.col("end").max(),
        pl.col("duration_s", "measured").mean(),
        *(
            _sum(name)
            for name in ("power_mean_w", "power_peak_w", "mem_peak_mib", "energy_j", "energy_counter_j")
        ),
        _sum("energy_j").alias("_beside"),
        pl.col("throttled_s", "temp_c", "temp_peak_c").max(),
        pl.col("refreshes").min(),
        pl.col(AVERAGED).mean(),
    )
    return _with_difference(grouped)


def _with_difference(grouped: pl.DataFrame) -> pl.DataFrame:
    """Of the integral from the counter, where there are both."""
    counted = pl.col("energy_counter_j")
    apart = pl.when(counted > 0).then(pl.col("_beside") / counted - 1)
    return grouped.with_columns(apart.alias("energy_difference")).drop("_beside")


def _sum(name: str) -> pl.Expr:
    """Null where nothing was measured, and not 0."""
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)


def _weighted(name: str, by: pl.Expr) -> pl.Expr:
    weight = pl.when(pl.col(name).is_not_null()).then(by)
    return pl.when(weight.sum() > 0).then((pl.col(name) * weight).sum() / weight.sum()).alias(name)
