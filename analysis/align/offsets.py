"""Nodes and ranks that printed the same steps -> how far their clocks lie apart, and who kept the others waiting.

Ranks of one training leave a step together, so what separates their lines is their clocks and their delays in
printing. A clock is always as far off, so the median of the differences is the clock's, and their spread is how
well that is known. Who takes longer for a step by its own figures, or comes later than the others, is a straggler.

How a run's spans and its telemetry lie to each other: what they share, and what is idle at the ends.

A table and a log that were never recorded together may not overlap at all; most often one of the two is in local
time, which shows as a shift by whole quarters of an hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from gputel.telemetry.clock import SECOND, iso

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

QUARTER_NS = 900 * SECOND
FARTHEST = 56  # quarters of an hour: no two places on Earth are farther apart than 26 h, hardly any than 14


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


def overlap(spans: pl.DataFrame, sampled: tuple[int, int] | None) -> dict[str, Any] | None:
    """Both stretches of time, what they share, and `offset_s`, the shift of zones that would make them overlap.

    `sampled` is the first and the last moment of the readings.
    """
    if sampled is None or spans.is_empty():
        return None
    run = _edges(spans)
    shared = max(0, min(run[1], sampled[1]) - max(run[0], sampled[0]))
    length = run[1] - run[0]
    return {
        "log": [iso(moment) for moment in run],
        "gpu": [iso(moment) for moment in sampled],
        "shared_s": shared / 1e9,
        "share": shared / length if length else None,
        "offset_s": None if shared else _zone(run, sampled),
    }


def cut(spans: pl.DataFrame) -> pl.DataFrame:
    """Without idle spans at its ends."""
    node = ["node"] if "node" in spans.columns else []
    busy = pl.col("kind") != "idle"
    before, after = busy.cum_sum() > 0, busy.reverse().cum_sum().reverse() > 0
    kept = before & after
    return spans.filter(kept.over(node) if node else kept)


def widened(spans: pl.DataFrame, sampled: tuple[int, int] | None) -> pl.DataFrame:
    """With idle spans before and after it, as far as telemetry reaches."""
    if sampled is None or spans.is_empty() or "node" in spans.columns:
        return spans
    (first, last), (begun, ended) = _edges(spans), sampled
    edges = [(begun, first), (last, ended)]
    ends = [
        spans.head(1).with_columns(
            pl.lit("idle").alias("kind"),
            pl.lit(0, pl.Int64).alias("steps"),
            pl.lit(None, pl.Int64).alias("step"),
            pl.lit(None, pl.String).alias("text"),
            pl.lit(start).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC").alias("start"),
            pl.lit(end).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC").alias("end"),
        )
        if end > start
        else spans.clear()
        for start, end in edges
    ]
    return pl.concat([ends[0], spans, ends[1]])


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


def _edges(spans: pl.DataFrame) -> tuple[int, int]:
    begun, ended = spans.select(
        pl.col("start").min().dt.epoch("ns").alias("begun"), pl.col("end").max().dt.epoch("ns").alias("ended")
    ).row(0)
    return int(begun), int(ended)


def _zone(run: tuple[int, int], sampled: tuple[int, int]) -> float | None:
    """The least shift of the samples, in quarters of an hour, after which one stretch holds the other."""
    lowest, highest = sorted((run[0] - sampled[0], run[1] - sampled[1]))
    quarters = [n for n in range(-FARTHEST, FARTHEST + 1) if n and lowest <= n * QUARTER_NS <= highest]
    best = min(quarters, key=lambda n: (n % 4 != 0, abs(n)), default=None)
    return None if best is None else best * QUARTER_NS / SECOND
