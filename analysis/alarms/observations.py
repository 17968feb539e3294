"""What alarms are judged by: a record, an evaluation, an event, a second of a GPU, a look at the clock.

Times are seconds of the wall clock, None where a log has no stamps: rules of silence then say nothing.

What a detector says of one thing at one moment, and what every detector is.

New rows of a log -> moments, in the order of its lines.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias

import polars as pl

from gputel.analysis import columns


@dataclass(frozen=True)
class Record:
    step: int | None
    values: Mapping[str, float]
    at_s: float | None = None
    rank: str | None = None
    phase: str = "train"
    attempt: int = 1


@dataclass(frozen=True)
class Evaluation:
    step: int | None
    name: str
    value: float
    at_s: float | None = None


@dataclass(frozen=True)
class EventSeen:
    """An event of the log or of the recorder, and the end of the command (`exit`, with its code in the facts)."""

    kind: str
    text: str
    at_s: float | None = None
    step: int | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuSecond:
    """Means over a second; of a counter the last value, of a mask all bits. `memory_share` is of the GPU's own."""

    gpu: str
    at_s: float
    values: Mapping[str, float | None]


@dataclass(frozen=True)
class ClockTick:
    """Now, and what is true of the whole run: told about once a second, whether or not anything came."""

    at_s: float
    started_s: float | None = None
    world_size: int | None = None
    hours: float | None = None  # that the run will have taken at its end
    dollars: float | None = None
    disk_free_share: float | None = None
    disk_free_gib: float | None = None
    is_awaited: bool = True  # whether something is wrong if no record comes
    usual_s: float | None = None  # from record to record, by what they say


Moment: TypeAlias = Record | Evaluation | EventSeen | GpuSecond | ClockTick


class Finding(NamedTuple):
    """`key` tells the things apart that one rule watches (GPUs, ranks, metrics); `wrong` False means recovered."""

    key: str
    wrong: bool
    text: str
    step: int | None = None


class Detector(Protocol):
    """`hears` are the kinds of moments that it judges by; what is right and was right before need not be said."""

    @property
    def hears(self) -> tuple[type[Moment], ...]: ...

    def see(self, moment: Moment) -> Iterable[Finding]: ...


Placed = tuple[int, int, Moment]  # a line, what comes first of those of one line, and what it says
When = Callable[[dict[str, Any]], float | None]
PLACES = {*(column.name for column in columns.PLACE), "total_steps"}


def stamped(row: dict[str, Any]) -> float | None:
    """As the log says it."""
    time: datetime | None = row["time"]
    return None if time is None else time.timestamp()


def placed(
    records: pl.DataFrame,
    evals: pl.DataFrame,
    events: pl.DataFrame,
    when: When = stamped,
    rank: str | None = None,
) -> Iterator[Placed]:
    """`rank` is that of rows which name none. Ties go to the record: what its line also says comes after it."""
    return heapq.merge(
        _records(records, when, rank),
        _evaluations(evals, when),
        _events(events, when),
        key=lambda placed: placed[:2],
    )


def _records(frame: pl.DataFrame, when: When, rank: str | None) -> Iterator[Placed]:
    metrics = [name for name, kind in frame.schema.items() if kind == pl.Float64 and name not in PLACES]
    for row in frame.iter_rows(named=True):
        values = {name: row[name] for name in metrics if row[name] is not None}
        who = row["rank"] or rank
        yield row["line"], 0, Record(row["step"], values, when(row), who, row["phase"], row["attempt"])


def _evaluations(frame: pl.DataFrame, when: When) -> Iterator[Placed]:
    for row in frame.iter_rows(named=True):
        yield row["line"], 1, Evaluation(row["step"], row["name"], row["value"], when(row))


def _events(frame: pl.DataFrame, when: When) -> Iterator[Placed]:
    for row in frame.iter_rows(named=True):
        yield row["line"], 2, EventSeen(row["kind"], row["text"], when(row), row["step"])
