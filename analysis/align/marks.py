"""A run's lines as marks in order of time: records, evaluations, checkpoints, begin and end of a recording.

If several ranks print a step, the first copy counts. Time never runs backwards from one mark to the next. A record
covers all steps since the record before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.align.timed_log import TimedLog
from gputel.analysis.logs.saved_steps import resumed_at
from gputel.analysis.runs.printed_times import LONGER, contains_others, long_dt, usual_dt

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

BOUNDS = ("began", "ended")


@dataclass(frozen=True)
class LogMark:
    """A line with its `time` in ns. Records have `steps` since the last, `first` of an attempt, printed `dt_ns`.

    `text` names the evaluations, or is the line of the checkpoint. `contains` is what nothing separates from it.
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
    contains: str | None = None


def log_marks(subject: RunData, tables: TimedLog) -> dict[str | None, list[LogMark]]:
    """Returns the marks by node, if several nodes printed records; evaluations of one node apply to all."""
    nodes: list[str | None] = [None]
    if "node" in tables.records.columns:
        nodes = tables.records["node"].unique(maintain_order=True).to_list() or [None]
    several = len(nodes) > 1
    marks_by_node: dict[str | None, list[LogMark]] = {}
    for node in nodes:
        lines = tables.of_node(node) if several else tables
        bounds = _bounds(subject, node if "node" in tables.records.columns else None, tables.cut_ns)
        marks = [*_lines(lines), *bounds]
        order = {"began": 0, "ended": 2}
        marks_by_node[node] = sorted(marks, key=lambda mark: (mark.time, order.get(mark.kind, 1)))
    return marks_by_node


def _lines(tables: TimedLog) -> Iterator[LogMark]:
    others = pl.concat([_evals(tables.evals), _checkpoints(tables.events)], how="diagonal_relaxed")
    others = others if tables.stamped else _within_steps(others, tables)
    rows = pl.concat([others, _records(_of_known_length(tables), tables.events)], how="diagonal_relaxed")
    rows = rows.filter(pl.col("time").is_not_null()).sort("line", maintain_order=True)
    rows = rows.with_columns(pl.col("time").dt.epoch("ns").cum_max())
    names = tuple(field.name for field in fields(LogMark) if field.name in rows.columns)
    phase: str | None = None
    attempt: int | None = None
    for row in rows.select(names).iter_rows(named=True):
        if row["phase"] is None:  # a checkpoint's line names no phase
            row |= {"phase": phase, "attempt": attempt}
        phase, attempt = row["phase"], row["attempt"]
        yield LogMark(**row)


def _within_steps(others: pl.DataFrame, tables: TimedLog) -> pl.DataFrame:
    """Places evaluations and checkpoints of a log without timestamps: only those that a long step time contains.

    Such a step took as long as those around it; the rest of its time belongs to the lines before it.
    """
    records = tables.records
    if others.is_empty() or "dt_ms" not in records.columns:
        return others.clear()
    usual_ms = usual_dt(records, tables)
    if usual_ms.null_count() == len(usual_ms):
        return _at_ends_of_steps(others, records)
    records = records.with_columns(usual=usual_ms, longer=long_dt(records, tables, usual_ms))
    usual = pl.col("usual")
    timed = records.filter(pl.col("time").is_not_null() & pl.col("dt_ms").is_finite())
    compiled = pl.int_range(pl.len()).over("phase", "attempt") == 0  # why an attempt's first step is long
    steps = timed.select(
        next="line",
        longer=pl.col("longer") & ~compiled,
        ends=pl.col("time") - _ms(usual),
        more_ms=pl.col("dt_ms") - usual,
    )
    placed = others.sort("line").join_asof(
        steps.sort("next"), left_on="line", right_on="next", strategy="forward", check_sortedness=False
    )
    return _divided(placed).select(*others.columns, "contains")


def _at_ends_of_steps(others: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Places lines where the step behind them ends: nothing tells how much of its printed time is theirs.

    Saves count if steps behind both a save and an evaluation are longer than those behind an evaluation alone.
    """
    ends = records.select(next="line", ends="time", dt="dt_ms").sort("next")
    placed = others.sort("line").join_asof(
        ends, left_on="line", right_on="next", strategy="forward", check_sortedness=False
    )
    at = placed.filter(pl.col("ends").is_not_null()).with_columns(time="ends")
    both = pl.col("kind").n_unique().over("next") > 1
    alone: Any = at.filter(~both & (pl.col("kind") == "eval"))["dt"]
    behind_both: Any = at.filter(both)["dt"].median()
    if len(alone) and behind_both is not None and behind_both <= _most(alone):
        at = at.filter(pl.col("kind") != "checkpoint")
    return at.select(*others.columns)


def _most(values: Any) -> float:
    """Returns the most that values, which scatter as these do, may be."""
    high, low = values.max(), values.min()
    return float(max(LONGER * high, 2 * high - low))


def _of_known_length(tables: TimedLog) -> pl.DataFrame:
    """Returns the records; a step time that may be that of a pause, too, as nothing tells, is null."""
    records = tables.records
    if "dt_ms" not in records.columns:
        return records
    unknown = usual_dt(records, tables).is_null() & contains_others(records, tables)
    return records.with_columns(dt_ms=pl.when(~unknown).then("dt_ms"))


def _divided(placed: pl.DataFrame) -> pl.DataFrame:
    """Divides what a step time contains, `more_ms`, between an evaluation and a checkpoint printed before it.

    Each takes as long as where it stands alone. Checkpoints count only if the step times behind those alone are
    long, or those behind both are longer than behind evaluations alone by more than these scatter. Where none is
    alone, both are one.
    """
    saved, long = pl.col("kind") == "checkpoint", placed.filter("longer")
    alone = pl.col("kind").n_unique().over("next") == 1
    saves = placed.filter(saved & alone)["longer"]
    evals: Any = long.filter(alone & ~saved)["more_ms"]
    both: Any = long.filter(~alone)["more_ms"].median()
    most = _most(evals) if evals.count() else None
    counted = 2 * saves.sum() > len(saves) or (saves.is_empty() and None not in (both, most) and both > most)
    inseparable = both is not None and saves.is_empty() and evals.is_empty()
    usual = dict(long.filter(alone).group_by("kind").agg(pl.col("more_ms").median()).iter_rows())
    others = {"eval": usual.get("checkpoint"), "checkpoint": usual.get("eval")}
    own, other = (
        pl.col("kind").replace_strict(table, default=None, return_dtype=pl.Float64)
        for table in (usual, others)
    )
    first = ~alone & (pl.col("kind") == pl.col("kind").first().over("next")) & pl.lit(counted)
    behind = (
        pl.when(first).then(pl.col("more_ms") - pl.coalesce(own, pl.col("more_ms") - other)).fill_null(0.0)
    )
    contains = pl.when(~alone & pl.lit(inseparable)).then(pl.lit("checkpoint"))
    timed = long.with_columns(time=pl.col("ends") - _ms(behind.clip(0, pl.col("more_ms"))), contains=contains)
    return timed if counted else timed.filter(~saved)


def _ms(value: pl.Expr) -> pl.Expr:
    return pl.duration(microseconds=(value * 1000).round())


def _records(records: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    records = records.with_columns(resumed=_resumed(records, events))
    numbered = records.filter(pl.col("step").is_not_null()).unique(
        ["phase", "attempt", "resumed", "step"], keep="first", maintain_order=True
    )
    records_once = pl.concat([numbered, records.filter(pl.col("step").is_null())]).sort(
        "line", maintain_order=True
    )
    place = ["phase", "attempt", "resumed"]
    gap = pl.col("step").diff().over(place)
    usual = gap.median().over(place).cast(pl.Int64)
    dt = pl.col("dt_ms") * 1e6 if "dt_ms" in records_once.columns else pl.lit(None, pl.Float64)
    return records_once.select(
        pl.lit("train").alias("kind"),
        "time",
        "line",
        "phase",
        "attempt",
        "step",
        pl.coalesce(gap, steps_of_first(usual, resumed_at(records_once, events)), 1).alias("steps"),
        pl.int_range(pl.len()).over(place).eq(0).alias("first"),
        pl.when(dt.is_finite() & (dt >= 0)).then(dt).alias("dt_ns"),
    )


def _resumed(records: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """Returns how often the last step was done once more behind a line that says that the run goes on.

    An equal step begins no attempt, for it may be a copy; such a line tells one from the other.
    """
    announced = events.filter(pl.col("kind").is_in(("resume", "restart")))["line"].sort()
    behind = pl.Series(announced.search_sorted(records["line"]), dtype=pl.Int64).diff() > 0
    return ((records["step"].diff() == 0) & behind).fill_null(value=False).cum_sum()


def steps_of_first(usual: pl.Expr, resumed_at: pl.Series) -> pl.Expr:
    """Returns how many steps an attempt's first record covers: step 0 one, step 10 of every tenth ten.

    The first one after a resume covers the steps since that at which the run goes on, if they are no more.
    """
    step = pl.col("step")
    regular = (step % usual == 0) | ((step + 1) % usual == 0)
    since = step - pl.lit(resumed_at) + 1
    return (
        pl.when(step <= 1)
        .then(1)
        .when(since.is_between(1, pl.max_horizontal(usual, 1)))
        .then(since)
        .when(regular)
        .then(usual)
        .otherwise(pl.min_horizontal(step, usual))
    )


def _evals(evals: pl.DataFrame) -> pl.DataFrame:
    """Returns one mark per line, however many metrics it has."""
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


def _bounds(subject: RunData, node: str | None, cut_ns: int) -> Iterator[LogMark]:
    if subject.recording is None:
        yield from _first_line(subject, cut_ns)
        return
    segments: Any = subject.recording.segments
    if node is not None:
        segments = segments.filter(pl.col("node").eq_missing(node))
    for started, ended in segments.select(pl.col("started", "ended").dt.epoch("ns")).iter_rows():
        if started is not None:
            yield LogMark("began", started)
        if ended is not None:
            yield LogMark("ended", ended)


def _first_line(subject: RunData, cut_ns: int) -> Iterator[LogMark]:
    """Yields where a log with timestamps begins, if that is before its first record."""
    began, times = subject.log.began, subject.log.records["time"].drop_nulls()
    if began is not None and len(times) and began < int(times.dt.epoch("ns")[0]):
        yield LogMark("began", began + cut_ns)
