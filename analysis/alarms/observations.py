"""What alarm rules see: records, evaluations, events, seconds of a GPU and clock ticks; and the detectors'
interface.

Times are in seconds since 1970, None if a log has no timestamps; rules about silence then do nothing. `placed`
turns new rows of a log into observations, in the order of their lines.
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
    """One training record and its metrics. `printed_s` is the log's own timestamp, in a time zone of its own."""

    step: int | None
    values: Mapping[str, float]
    at_s: float | None = None
    rank: str | None = None
    phase: str = "train"
    attempt: int = 1
    printed_s: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """One evaluated metric."""

    step: int | None
    name: str
    value: float
    at_s: float | None = None


@dataclass(frozen=True)
class EventSeen:
    """An event of the log or the recorder. `exit` is the end of the command, with its code in `facts`."""

    kind: str
    text: str
    at_s: float | None = None
    step: int | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuSecond:
    """Readings of one second: means, last values of counters, all bits of masks. `memory_share` is used / total."""

    gpu: str
    at_s: float
    values: Mapping[str, float | None]


@dataclass(frozen=True)
class ClockTick:
    """The time and the state of the whole run, about once a second even if no row comes."""

    at_s: float
    started_s: float | None = None
    world_size: int | None = None
    hours: float | None = None  # duration of the whole run, or so far
    dollars: float | None = None  # its cost
    foresees_end: bool = False  # whether both are projections
    disk_free_share: float | None = None
    disk_free_gib: float | None = None
    is_awaited: bool = True  # whether silence means that something is wrong
    usual_s: float | None = None  # time between records, as the log states it
    hint: str = ""  # what would have said more of a silence


Moment: TypeAlias = Record | Evaluation | EventSeen | GpuSecond | ClockTick


class Finding(NamedTuple):
    """A detector's result for one GPU, rank or metric (`key`); `wrong` False means recovered."""

    key: str
    wrong: bool
    text: str
    step: int | None = None


class Detector(Protocol):
    """Judges observations of the kinds in `observes`. It may leave out findings that change nothing."""

    @property
    def observes(self) -> tuple[type[Moment], ...]: ...

    def see(self, moment: Moment) -> Iterable[Finding]: ...


Placed = tuple[int, int, Moment]  # line, order within the line, observation
When = Callable[[dict[str, Any]], float | None]
PLACES = {*(column.name for column in columns.PLACE), "total_steps"}


def timestamp(row: dict[str, Any]) -> float | None:
    """The log's own timestamp of a row."""
    time: datetime | None = row["time"]
    return None if time is None else time.timestamp()


def placed(
    records: pl.DataFrame,
    evals: pl.DataFrame,
    events: pl.DataFrame,
    when: When = timestamp,
    rank: str | None = None,
) -> Iterator[Placed]:
    """Yields rows as observations by line; of one line, the record first. `rank` is for rows without one."""
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
        row_rank = row["rank"] or rank
        place = row["phase"], row["attempt"]
        yield row["line"], 0, Record(row["step"], values, when(row), row_rank, *place, timestamp(row))


def _evaluations(frame: pl.DataFrame, when: When) -> Iterator[Placed]:
    for row in frame.iter_rows(named=True):
        yield row["line"], 1, Evaluation(row["step"], row["name"], row["value"], when(row))


def _events(frame: pl.DataFrame, when: When) -> Iterator[Placed]:
    for row in frame.iter_rows(named=True):
        yield row["line"], 2, EventSeen(row["kind"], row["text"], when(row), row["step"])
