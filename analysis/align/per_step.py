"""Measured spans -> what each step and each kind of span cost, in time and energy.

A record covers one step or several: its sums are divided by them. Spans of several nodes are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.align.join import JOULES, MEASURES, WHOLE, measured
from gputel.analysis.align.samples import AVERAGED, gpu_samples
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.align.step_parts import with_parts
from gputel.analysis.align.windows import gaps
from gputel.analysis.runs.sensors import FEW_REFRESHES

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

KINDS = ("start", "train", "eval", "checkpoint", "idle")
ENERGIES = ("energy_j", "energy_sampling_j", "energy_counter_j")
SUMS = ("energy_j", "energy_counter_j", "throttled_s")
MEANS = ("temp_c", *AVERAGED)


def per_step(subject: RunData) -> pl.DataFrame:
    """Returns one row per record: `steps` is how many it covers; time and energy are per step."""
    tokens = subject.facts.tokens_per_step
    spans = measured(cut_spans(subject), gpu_samples(subject))
    rows = one_by_one(subject, of_spans(spans, float(tokens.value) if tokens else None))
    return with_parts(rows, subject)


def one_by_one(subject: RunData, rows: pl.DataFrame) -> pl.DataFrame:
    """Leaves out what was measured of single records by a table whose readings are further apart than they are.

    Sums over many records stay right.
    """
    apart_s = sampled_s(subject)
    record_s: Any = (rows["duration_s"] * rows["steps"]).median()
    if apart_s is None or record_s is None or apart_s <= record_s:
        return rows
    unknown = [name for name in (*MEASURES, "j_per_token") if name in rows.columns and name != "duration_s"]
    return rows.with_columns(pl.lit(None, rows.schema[name]).alias(name) for name in unknown)


def sampled_s(subject: RunData) -> float | None:
    """Returns the usual seconds between two readings of a GPU in a table; None without one."""
    samples = gpu_samples(subject) if subject.readings is not None else None
    if samples is None:
        return None
    times = samples.read(samples.gpus[0], ())["time"].sort().dt.epoch("ns").to_numpy()
    return gaps(times).usual_ns / 1e9 or None


def of_spans(spans: pl.DataFrame, tokens: float | None = None) -> pl.DataFrame:
    """Turns measured spans into rows per record, like `per_step`; `tokens` are those of one step."""
    node = ["node"] if "node" in spans.columns else []
    record = pl.col("steps").gt(0).cum_sum().shift(1, fill_value=0)
    numbered = spans.filter(pl.col("kind") == "train").with_columns(
        (record.over(node) if node else record).alias("record")
    )
    keys = ["phase", "attempt"]
    rows = _in_turn(numbered, [*node, *keys, "record"], pl.col("step").last())
    if node:
        rows = _over_nodes(rows, [*keys, "step"])
    each = [pl.col(name) / pl.col("steps") for name in ("duration_s", "energy_sampling_j", *SUMS)]
    tokens_each = pl.lit(tokens, pl.Float64).alias("tokens")
    complete = pl.col("measured") >= WHOLE
    return (
        rows.with_columns(*each, tokens_each)
        .with_columns(pl.when(complete).then(JOULES / pl.col("tokens")).alias("j_per_token"))
        .select(*keys, "step", "steps", pl.exclude(*keys, "step", "steps", "record", "spans", "power_s"))
        .sort("start", maintain_order=True)
    )


def totals(spans: pl.DataFrame, by: Sequence[str] = ("kind",)) -> pl.DataFrame:
    """Sums by kind, or by kind and phase, in the order of KINDS; adds the shares of time and energy.

    `contains` names the kinds that nothing separates from this one, `power_s` the time that the power averages.
    """
    node = ["node"] if "node" in spans.columns else []
    rows = _in_turn(spans, [*node, *by], _all_kinds(pl.col("contains")))
    rows = _over_nodes(rows, by, _all_kinds(pl.col("contains"))) if node else rows
    place = pl.col("kind").replace_strict({kind: i for i, kind in enumerate(KINDS)}, return_dtype=pl.Int64)
    return rows.with_columns(
        (pl.col("duration_s") / pl.col("duration_s").sum()).alias("share"),
        (JOULES / JOULES.sum()).alias("energy_share"),
    ).sort(place, maintain_order=True)


def mixed_phases(spans: pl.DataFrame) -> pl.Series:
    """Returns the phases in which nothing separates training from something else: their steps have no time."""
    return spans.filter((pl.col("kind") == "train") & pl.col("contains").is_not_null())["phase"].unique()


def _all_kinds(contained: pl.Expr) -> pl.Expr:
    """Joins the kinds that several spans contain."""
    kinds = contained.drop_nulls().str.split(", ").list.explode().unique(maintain_order=True)
    return pl.when(kinds.len() > 0).then(kinds.str.join(", ")).alias("contains")


def _in_turn(rows: pl.DataFrame, keys: Sequence[str], *more: pl.Expr) -> pl.DataFrame:
    """Aggregates consecutive spans of one node."""
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
        seen.filter(pl.col("power_mean_w").is_not_null()).sum().alias("power_s"),
        pl.col("power_peak_w").max(),
        *(_sum_of(name) for name in SUMS),
        _measured("energy_sampling_j", pl.col("energy_sampling_j").pow(2).sum().sqrt()),
        pl.col("energy_j").filter(_comparable()).sum().alias("_beside"),
        pl.col("energy_counter_j").filter(_comparable()).sum().alias("_counted"),
        _sum_of("refreshes"),
        _sum_of("util_changes"),
        _measured("util_error", _util_error(seen).clip(upper_bound=100)),
        pl.col("temp_peak_c", "mem_peak_mib").max(),
        *(_weighted(name, seen) for name in MEANS),
    )
    return _with_difference(grouped)


def _over_nodes(rows: pl.DataFrame, keys: Sequence[str], *more: pl.Expr) -> pl.DataFrame:
    """Aggregates the same span of time over several nodes."""
    grouped = rows.group_by(keys, maintain_order=True).agg(
        *more,
        pl.col("spans", "steps").max(),
        pl.col("start").min(),
        pl.col("end").max(),
        pl.col("duration_s", "measured", "power_s").mean(),
        *(_sum_of(name) for name in ("power_mean_w", "power_peak_w", "mem_peak_mib", *ENERGIES)),
        _sum_of("energy_j").alias("_beside"),
        _sum_of("energy_counter_j").alias("_counted"),
        pl.col("throttled_s", "temp_c", "temp_peak_c").max(),
        pl.col("refreshes", "util_changes").min(),
        pl.col(*AVERAGED, "util_error").mean(),
    )
    return _with_difference(grouped)


def _comparable() -> pl.Expr:
    """Whether a span was measured throughout: the counter goes on in a gap, the integral does not."""
    return pl.col("energy_counter_j").is_not_null() & (pl.col("measured") >= WHOLE)


def _with_difference(grouped: pl.DataFrame) -> pl.DataFrame:
    """Adds the relative difference of the integral from the counter, where both cover enough refreshes."""
    counted = pl.col("_counted")
    comparable = (counted > 0) & (pl.col("refreshes") >= FEW_REFRESHES)
    relative = pl.when(comparable).then(pl.col("_beside") / counted - 1)
    return grouped.with_columns(relative.alias("energy_difference")).drop("_beside", "_counted")


def _sum_of(name: str) -> pl.Expr:
    """Sums a column; null instead of 0 if nothing was measured."""
    return _measured(name, pl.col(name).sum())


def _measured(name: str, aggregated: pl.Expr) -> pl.Expr:
    return pl.when(pl.col(name).count() > 0).then(aggregated).alias(name)


def _util_error(by: pl.Expr) -> pl.Expr:
    """Returns the error of a mean of means, whose errors are independent."""
    error = pl.col("util_error")
    return (error * by).pow(2).sum().sqrt() / by.filter(error.is_not_null()).sum()


def _weighted(name: str, by: pl.Expr) -> pl.Expr:
    weight = pl.when(pl.col(name).is_not_null()).then(by)
    return pl.when(weight.sum() > 0).then((pl.col(name) * weight).sum() / weight.sum()).alias(name)
