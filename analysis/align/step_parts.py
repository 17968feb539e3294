"""Steps that hooks in a training recorded, joined with the steps that its log names, by their times alone.

A line comes after the end of the step that it reports, and before that of another: so the number of ends before
each line tells which step of a process the printed one is. A log may count one step where a process ends several
(two optimizers in turn). With fewer than 8 lines, or where 5 % of them contradict, the two stay apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.align.windows import Numbers
from gputel.analysis.runs import inside_steps

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

PARTS = ("step_ms", "data_wait_ms", "backward_call_ms", "optimizer_call_ms", "other_ms", "gc_ms", "backwards")
WITH_EVALUATION = ("step_ms", "other_ms")
"""The parts that hold an evaluation which lies within the step; they are null there."""
LONGEST, LONGEST_RANK = "data_wait_max_ms", "data_wait_rank"
"""The longest wait of any rank, and whose it was, where several are known."""
SCHEMA: dict[str, Any] = {**dict.fromkeys(PARTS, pl.Float64), LONGEST: pl.Float64, LONGEST_RANK: pl.Int64}
ENDS_A_STEP = (1, 2, 3, 4, 8)
FEWEST_LINES, AGREEING = 8, 0.95
Integers = npt.NDArray[np.int64]


class StepMatch(NamedTuple):
    """A process that trained an attempt: step `n` of the log is its end of a step number `ends * n + offset`."""

    process: str
    phase: str | None
    attempt: int | None
    ends: int
    offset: int


def with_parts(rows: pl.DataFrame, subject: RunData) -> pl.DataFrame:
    """Adds the columns of SCHEMA to rows per record: means over its steps, null where the two stay apart."""
    inside = recorded(subject)
    found = [_parts(rows, inside, match) for match in matches(subject)]
    if not found:
        return rows.with_columns(pl.lit(None, kind).alias(name) for name, kind in SCHEMA.items())
    parts = pl.concat(found).unique("_row", keep="none")
    return rows.with_row_index("_row").join(parts, on="_row", how="left", maintain_order="left").drop("_row")


def recorded(subject: RunData) -> pl.DataFrame:
    """The steps of all processes of a recording; without rows of anything else."""
    return subject.recording.inside if subject.recording else pl.DataFrame(schema=inside_steps.SCHEMA)


def matches(subject: RunData) -> list[StepMatch]:
    """Each attempt of the log with the processes that trained it, one after the other."""
    inside, records = recorded(subject), subject.log.records
    if inside.is_empty() or records.is_empty():
        return []
    lines = records.filter(pl.col("step").is_not_null() & pl.col("time").is_not_null())
    lines = lines.unique(["phase", "attempt", "step"], keep="first", maintain_order=True)
    speaking = inside.filter(pl.col("rank").eq_missing(inside["rank"].min()))
    return [
        StepMatch(str(process), phase, attempt, *fit)
        for (phase, attempt), printed in lines.group_by("phase", "attempt", maintain_order=True)
        for (process,), ended in speaking.group_by("inside", maintain_order=True)
        if (fit := _fit(_during(printed, "time", ended), ended)) is not None
    ]


def _during(rows: pl.DataFrame, name: str, ended: pl.DataFrame) -> pl.DataFrame:
    """The rows from the first end of a step of a process until its next one would have come."""
    gaps = ended["time"].diff().drop_nulls()
    slack = gaps.median() if len(gaps) else timedelta()
    first, last = ended["time"].min(), ended["time"].max()
    return rows.filter(pl.col(name).is_between(first, pl.lit(last) + slack))


def _fit(lines: pl.DataFrame, ended: pl.DataFrame) -> tuple[int, int] | None:
    """How many ends make a step of the log, and the offset; None where too few lines agree."""
    if lines.height < FEWEST_LINES:
        return None
    before = np.searchsorted(ended["time"].dt.epoch("ns"), lines["time"].dt.epoch("ns"), side="right")
    for ends in ENDS_A_STEP:
        offsets, times = np.unique(before - ends * lines["step"].to_numpy(), return_counts=True)
        if times.max() >= AGREEING * lines.height:
            return ends, int(offsets[times.argmax()])
    return None


def _parts(rows: pl.DataFrame, inside: pl.DataFrame, match: StepMatch) -> pl.DataFrame:
    """The means of each row that is of this attempt and process."""
    ended = inside.filter(pl.col("inside") == match.process)
    mine = _during(rows.with_row_index("_row"), "end", ended).filter(
        pl.col("phase").eq_missing(match.phase) & pl.col("attempt").eq_missing(match.attempt)
    )
    stops = match.ends * mine["step"].to_numpy() + match.offset
    steps = mine["steps"].to_numpy()
    starts = stops - match.ends * steps
    pure = ended.with_columns(pl.when(~pl.col("evaluates")).then(pl.col(WITH_EVALUATION)))
    means: dict[str, Any] = {name: _mean(pure[name], starts, stops, steps) for name in PARTS}
    waits = {
        rank: _mean(frame["data_wait_ms"], starts, stops, steps) for rank, frame in _ranks(inside, ended)
    }
    if len(waits) > 1:
        table = np.stack([np.nan_to_num(wait, nan=-1.0) for wait in waits.values()])
        known = (table >= 0).all(axis=0)
        means[LONGEST] = np.where(known, table.max(axis=0), np.nan)
        means[LONGEST_RANK] = np.where(known, np.array([*waits])[table.argmax(axis=0)], np.nan)
    columns = pl.DataFrame({"_row": mine["_row"], **means}).with_columns(pl.col(*means).fill_nan(None))
    missing = [pl.lit(None, kind).alias(name) for name, kind in SCHEMA.items() if name not in means]
    return columns.with_columns(missing).select(
        "_row", *(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )


def _ranks(inside: pl.DataFrame, ended: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """The processes of all ranks whose steps ended with those of this one."""
    usual = ended["time"].diff().median()
    for (rank, _), other in inside.group_by("rank", "inside", maintain_order=True):
        both = min(other.height, ended.height)
        apart = (other["time"].head(both) - ended["time"].head(both)).abs().median()
        if rank is not None and usual is not None and apart <= usual:
            yield rank, other


def _mean(values: pl.Series, starts: Integers, stops: Integers, steps: Integers) -> Numbers:
    """Sums over ends from `starts` to `stops`, a step; NaN where one of them is not known."""
    values = values.cast(pl.Float64)
    sums = np.append(0.0, np.nancumsum(values.to_numpy()))
    unknown = np.append(0, np.cumsum(values.is_null()))
    known = (starts >= 0) & (stops < len(sums)) & (stops > starts)
    begins, ends = (np.where(known, edge, 0) for edge in (starts, stops))
    known &= unknown[ends] == unknown[begins]
    return np.where(known, (sums[ends] - sums[begins]) / np.maximum(steps, 1), np.nan)
