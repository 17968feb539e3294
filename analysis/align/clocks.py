"""Nodes and ranks that printed the same steps -> how far their clocks lie apart, and who kept the others waiting.

Ranks of one training leave a step together, so what separates their lines is their clocks and their delays in
printing. A clock is always as far off, so the median of the differences is the clock's, and their spread is how
well that is known. Who takes longer for a step by its own figures, or comes later than the others, is a straggler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

FEWEST = 5  # shared steps, below which nothing is said
SLOWER = 1.05  # times the others' median step
LATE = 0.05  # of a step, by which a straggler is late in the mean
SOURCES = {
    "source": pl.String,
    "steps": pl.Int64,
    "offset_s": pl.Float64,
    "spread_s": pl.Float64,
    "last_share": pl.Float64,
    "late_s": pl.Float64,
    "step_s": pl.Float64,
}


@dataclass(frozen=True)
class Straggler:
    source: str
    evidence: str


def offsets(records: pl.DataFrame) -> pl.DataFrame:
    """A row per node or rank: its clock against the first one's, how often it came last, how late, its own step.

    `late_s` is how long after the others' median it comes, its clock's offset taken off.
    """
    held = _sources(records)
    if held is None:
        return pl.DataFrame(schema=SOURCES)
    keys = ["phase", "attempt", "step"]
    first = held["source"][0]
    base = held.filter(pl.col("source") == first).select(*keys, base="at")
    apart = held.join(base, on=keys).with_columns(gap=pl.col("at") - pl.col("base"))
    apart = apart.with_columns(own=pl.col("gap") - pl.col("gap").median().over("source"))
    apart = apart.with_columns(
        last=pl.col("own") == pl.col("own").max().over(keys),
        late=pl.col("own") - pl.col("own").median().over(keys),
    )
    return apart.group_by("source", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("steps"),
        pl.col("gap").median().alias("offset_s"),
        pl.col("own").abs().median().alias("spread_s"),
        pl.col("last").mean().alias("last_share"),
        pl.col("late").mean().alias("late_s"),
        pl.col("step_s").median(),
    )


def stragglers(found: pl.DataFrame, *, one_clock: bool = False) -> list[Straggler]:
    """`one_clock`: all lines were stamped by one recorder, so an offset is no clock's but a delay."""
    if len(found) < 2 or found["steps"].to_list()[-1] < FEWEST:
        return []
    named = []
    for row in found.iter_rows(named=True):
        said = _slowness(row, found.filter(pl.col("source") != row["source"]), one_clock=one_clock)
        if said:
            named.append(Straggler(row["source"], said))
    return named


def _slowness(row: dict[str, Any], others: pl.DataFrame, *, one_clock: bool) -> str | None:
    usual, clock = _median(others["step_s"]), _median(others["offset_s"]) or 0.0
    if not usual:
        return None
    if row["step_s"] and row["step_s"] > SLOWER * usual:
        return f"its steps take {row['step_s']:.3f} s, those of the others {usual:.3f} s"
    if row["late_s"] > LATE * usual:
        often = f"it comes last in {100 * row['last_share']:.0f} % of the steps"
        return f"{often}, and {row['late_s']:.3f} s behind the others in the mean"
    if one_clock and row["offset_s"] - clock > LATE * usual:
        return f"it prints a step {row['offset_s'] - clock:.3f} s after the others"
    return None


def _median(values: pl.Series) -> float | None:
    found: Any = values.median()
    return None if found is None else float(found)


def _sources(records: pl.DataFrame) -> pl.DataFrame | None:
    """Steps that two sources and more printed with a time; by node, else by rank."""
    for name in ("node", "rank"):
        if name in records.columns and records[name].n_unique() > 1:
            break
    else:
        return None
    dt = pl.col("dt_ms") / 1000 if "dt_ms" in records.columns else pl.lit(None, pl.Float64)
    known = records.filter(
        pl.col(name).is_not_null() & pl.col("time").is_not_null() & pl.col("step").is_not_null()
    )
    if known.is_empty():
        return None
    start = known["time"].min()
    held = known.select(
        pl.col(name).alias("source"),
        "phase",
        "attempt",
        "step",
        dt.alias("step_s"),
        at=(pl.col("time") - start).dt.total_nanoseconds() / 1e9,
    )
    return held.unique(["source", "phase", "attempt", "step"], keep="first", maintain_order=True)
