"""What a run printed -> marks in the order of time: records, evaluations, checkpoints, a recording's begin and end.

The copies that several ranks print of one step are one mark, the first. Time never runs backwards from one mark to
the next, whatever the clock did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.align import placing

if TYPE_CHECKING:
    from gputel.analysis.subjects import Subject

BOUNDS = ("began", "ended")


@dataclass(frozen=True)
class Mark:
    """`time` in ns. Of a record: `steps` since the one before, `first` of its attempt, `dt_ns` as it was printed.

    `text` names the evaluations, or is the line of the checkpoint.
    """

    kind: str
    time: int
    phase: str | None = None
    attempt: int | None = None
    step: int | None = None
    steps: int = 0
    first: bool = False
    dt_ns: float | None = None
    text: str | None = None


def of(subject: Subject) -> dict[str | None, list[Mark]]:
    """By node where several nodes printed records; what only one of them printed stands for all."""
    tables = placing.of(subject)
    nodes: list[str | None] = [None]
    if "node" in tables.records.columns:
        nodes = tables.records["node"].unique(maintain_order=True).to_list() or [None]
    several = len(nodes) > 1
    found: dict[str | None, list[Mark]] = {}
    for node in nodes:
        own = tables.of_node(node) if several else tables
        marks = [*_lines(own), *_bounds(subject, node if "node" in tables.records.columns else None)]
        order = {"began": 0, "ended": 2}
        found[node] = sorted(marks, key=lambda mark: (mark.time, order.get(mark.kind, 1)))
    return found


def _lines(tables: placing.Tables) -> Iterator[Mark]:
    others = pl.concat([_evals(tables.evals), _checkpoints(tables.events)], how="diagonal_relaxed")
    others = others if tables.stamped else others.clear()
    rows = pl.concat([others, _records(tables.records)], how="diagonal_relaxed")
    rows = rows.filter(pl.col("time").is_not_null()).sort("line", maintain_order=True)
    rows = rows.with_columns(pl.col("time").dt.epoch("ns").cum_max())
    names = ("kind", "time", "phase", "attempt", "step", "steps", "first", "dt_ns", "text")
    phase: str | None = None
    attempt: int | None = None
    for row in rows.select(names).iter_rows(named=True):
        if row["phase"] is None:  # a checkpoint's line does not say of what it is
            row |= {"phase": phase, "attempt": attempt}
        phase, attempt = row["phase"], row["attempt"]
        yield Mark(**row)


def _records(records: pl.DataFrame) -> pl.DataFrame:
    numbered = records.filter(pl.col("step").is_not_null()).unique(
        ["phase", "attempt", "step"], keep="first", maintain_order=True
    )
    own = pl.concat([numbered, records.filter(pl.col("step").is_null())]).sort("line", maintain_order=True)
    place = ["phase", "attempt"]
    gap = pl.col("step").diff().over(place)
    usual = gap.median().over(place).cast(pl.Int64)
    dt = pl.col("dt_ms") * 1e6 if "dt_ms" in own.columns else pl.lit(None, pl.Float64)
    return own.select(
        pl.lit("train").alias("kind"),
        "time",
        "line",
        *place,
        "step",
        pl.coalesce(gap, _steps_of_first(usual), 1).alias("steps"),
        pl.int_range(pl.len()).over(place).eq(0).alias("first"),
        pl.when(dt.is_finite() & (dt >= 0)).then(dt).alias("dt_ns"),
    )


def _steps_of_first(usual: pl.Expr) -> pl.Expr:
    """How many steps an attempt's first record stands for: step 0 for itself, step 10 of every tenth for ten."""
    step = pl.col("step")
    regular = (step % usual == 0) | ((step + 1) % usual == 0)
    return pl.when(step <= 1).then(1).when(regular).then(usual).otherwise(pl.min_horizontal(step, usual))


def _evals(evals: pl.DataFrame) -> pl.DataFrame:
    """One a line, however much was evaluated on it."""
    return evals.group_by("line", maintain_order=True).agg(
        pl.lit("eval").alias("kind"),
        pl.col("time", "phase", "attempt", "step").first(),
        pl.col("name").unique(maintain_order=True).str.join(", ").alias("text"),
        steps=pl.lit(0, pl.Int64),
        first=pl.lit(False),
        dt_ns=pl.lit(None, pl.Float64),
    )


def _checkpoints(events: pl.DataFrame) -> pl.DataFrame:
    saved = events.filter(pl.col("kind") == "checkpoint")
    return saved.select(
        "kind",
        "time",
        "line",
        "step",
        "text",
        steps=pl.lit(0, pl.Int64),
        first=pl.lit(False),
    )


def _bounds(subject: Subject, node: str | None) -> Iterator[Mark]:
    if subject.recording is None:
        return
    segments: Any = subject.recording.segments
    if node is not None:
        segments = segments.filter(pl.col("node").eq_missing(node))
    for started, ended in segments.select(pl.col("started", "ended").dt.epoch("ns")).iter_rows():
        if started is not None:
            yield Mark("began", started)
        if ended is not None:
            yield Mark("ended", ended)
