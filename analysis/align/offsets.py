"""Offsets in time: between the clocks of nodes and ranks, and between a run's log and its telemetry.

Ranks leave a step together, so their lines differ by clock offset and printing delay. The offset is constant while
no machine is replaced: it is the median difference, and the spread says how well it is known. A rank whose steps
take longer, or that prints later than the others, is a straggler. A delay that is always the same looks like a
clock that is ahead: it counts by a clock that all share, or by more than twice the uncertainty of theirs.

A table and a log that were not recorded together may not overlap. Usually one of them is in local time, which shows
as a shift by whole quarters of an hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.align.clocks import WINDOW_S, ClockInterval
from gputel.telemetry.clock import SECOND

FEWEST = 5  # shared steps; with fewer, no straggler is named
SLOWER = 1.05  # times the others' median step
LATE = 0.05  # share of a step: mean lateness of a straggler
SURE = 2.0  # times the uncertainty of the clocks, from which a delay is one
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
FARTHEST = 56  # quarters of an hour; time zones differ by up to 26 h, but rarely by more than 14


@dataclass(frozen=True)
class Straggler:
    source: str
    evidence: str


@dataclass(frozen=True)
class NodeDelay:
    """How much later a node prints its steps than the others, by clocks whose difference is known so well."""

    node: str
    late_s: float
    error_s: float
    step_s: float | None

    def is_sure(self) -> bool:
        return self.late_s > max(SURE * self.error_s, LATE * (self.step_s or 0.0))

    def __str__(self) -> str:
        return f"it prints a step {text.with_error(self.late_s, self.error_s, 3)} s after the others"


def offsets(records: pl.DataFrame) -> pl.DataFrame:
    """Returns a row per node or rank: clock offset from the first, share of steps in which it was last, step time.

    `late_s` is the mean delay after the median of all sources, without the clock offset.
    """
    steps = _sources(records)
    if steps is None:
        return pl.DataFrame(schema=SOURCES)
    keys = ["phase", "attempt", "step"]
    first = steps["source"][0]
    base = steps.filter(pl.col("source") == first).select(*keys, base="at")
    differences = steps.join(base, on=keys).with_columns(gap=pl.col("at") - pl.col("base"))
    differences = differences.with_columns(
        own=pl.col("gap") - pl.col("gap").median().over("source", "attempt")
    )
    differences = differences.with_columns(
        last=pl.col("own") == pl.col("own").max().over(keys),
        late=pl.col("own") - pl.col("own").median().over(keys),
    )
    return differences.group_by("source", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("steps"),
        pl.col("gap").median().alias("offset_s"),
        pl.col("own").abs().median().alias("spread_s"),
        pl.col("last").mean().alias("last_share"),
        pl.col("late").mean().alias("late_s"),
        pl.col("step_s").median(),
    )


def stragglers(sources: pl.DataFrame, *, one_clock: bool = False) -> list[Straggler]:
    """Names the stragglers. `one_clock`: one recorder stamped all lines, so an offset is a delay."""
    if len(sources) < 2 or sources["steps"].to_list()[-1] < FEWEST:
        return []
    named = []
    for row in sources.iter_rows(named=True):
        evidence = _slowness(row, sources.filter(pl.col("source") != row["source"]), one_clock=one_clock)
        if evidence:
            named.append(Straggler(row["source"], evidence))
    return named


def delays(records: pl.DataFrame, ahead: Mapping[str | None, ClockInterval]) -> list[NodeDelay]:
    """Returns a row for each node whose clock `ahead` compares with one clock, the same for all.

    By the steps of the last hour since the last restart, as clocks drift, and a machine may have been replaced.
    """
    sources = offsets(_latest(records))
    rows = [row for row in sources.iter_rows(named=True) if row["source"] in ahead and row["steps"] >= FEWEST]
    known = {
        row["source"]: (row["offset_s"] - ahead[row["source"]].middle_s, ahead[row["source"]].error_s)
        for row in rows
    }
    found = []
    for row in rows:
        others = [known[node] for node in known if node != row["source"]]
        if others:
            usual, error = median([at for at, _ in others]), max(error for _, error in others)
            at, own = known[row["source"]]
            found.append(NodeDelay(row["source"], at - usual, own + error, row["step_s"]))
    return found


def _latest(records: pl.DataFrame) -> pl.DataFrame:
    if "attempt" not in records.columns or records.is_empty():
        return records
    last = records.filter(pl.col("attempt") == pl.col("attempt").max())
    return last.filter(pl.col("time") >= pl.col("time").max() - pl.duration(seconds=WINDOW_S))


def overlap(spans: pl.DataFrame, sampled: tuple[int, int] | None) -> dict[str, Any] | None:
    """Returns how a run's log and its telemetry overlap in time; `offset_s` is the zone shift to align them.

    `sampled` is the first and the last moment of the readings.
    """
    if sampled is None or spans.is_empty():
        return None
    run = _edges(spans)
    shared = max(0, min(run[1], sampled[1]) - max(run[0], sampled[0]))
    length = run[1] - run[0]
    return {
        "log": [text.moment(at) for at in run],
        "gpu": [text.moment(at) for at in sampled],
        "shared_s": shared / 1e9,
        "share": shared / length if length else None,
        "offset_s": None if shared else _zone(run, sampled),
    }


def cut(spans: pl.DataFrame) -> pl.DataFrame:
    """Drops idle spans at both ends of the run."""
    node = ["node"] if "node" in spans.columns else []
    busy = pl.col("kind") != "idle"
    before, after = busy.cum_sum() > 0, busy.reverse().cum_sum().reverse() > 0
    inner = before & after
    return spans.filter(inner.over(node) if node else inner)


def widened(spans: pl.DataFrame, sampled: tuple[int, int] | None) -> pl.DataFrame:
    """Adds idle spans before and after the run, as far as telemetry reaches."""
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
        return f"its steps take {row['step_s']:.3f} s, the others' {usual:.3f} s"
    if row["late_s"] > LATE * usual:
        often = f"it is last in {100 * row['last_share']:.0f} % of the steps"
        return f"{often}, on average {row['late_s']:.3f} s after the others"
    if one_clock and row["offset_s"] - clock > LATE * usual:
        return f"it prints a step {row['offset_s'] - clock:.3f} s after the others"
    return None


def _median(values: pl.Series) -> float | None:
    middle: Any = values.median()
    return None if middle is None else float(middle)


def _sources(records: pl.DataFrame) -> pl.DataFrame | None:
    """Returns the steps that at least two sources printed with a time, by node, else by rank."""
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
    steps = known.select(
        pl.col(name).alias("source"),
        "phase",
        "attempt",
        "step",
        dt.alias("step_s"),
        at=(pl.col("time") - start).dt.total_nanoseconds() / 1e9,
    )
    return steps.unique(["source", "phase", "attempt", "step"], keep="first", maintain_order=True)


def _edges(spans: pl.DataFrame) -> tuple[int, int]:
    begun, ended = spans.select(
        pl.col("start").min().dt.epoch("ns").alias("begun"), pl.col("end").max().dt.epoch("ns").alias("ended")
    ).row(0)
    return int(begun), int(ended)


def _zone(run: tuple[int, int], sampled: tuple[int, int]) -> float | None:
    """Returns the smallest shift, in whole hours if possible, after which one stretch contains the other."""
    lowest, highest = sorted((run[0] - sampled[0], run[1] - sampled[1]))
    quarters = [n for n in range(-FARTHEST, FARTHEST + 1) if n and lowest <= n * QUARTER_NS <= highest]
    best = min(quarters, key=lambda n: (n % 4 != 0, abs(n)), default=None)
    return None if best is None else best * QUARTER_NS / SECOND
