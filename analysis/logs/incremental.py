"""A growing log -> the rows that are new since the last call, at a cost that depends only on those.

All increments of a log together are the rows of parsing it whole, with these exceptions:

- `open` rows are those that would be read if the log ended now: a record that the next line may add to, an
evaluation that   waits for its step, an event that the next line explains. The next increment replaces all of
them. - `renamed` says which phases, of rows that were handed out before, have another name now. - Timestamps
without a date keep the date that was the latest possible when they were handed out. - `afresh` says that the log
is in another format than it seemed, which is checked in its first megabytes and at its end:   forget everything
that was handed out; all of it comes again. - Rows come in the order in which they are finished. Where several
ranks print into one log that is not quite the order of   lines, by which a parse of the whole sorts them.

A line is read when its end has come. `Guessing` runs a second parser beside the one of all known formats: it also
has the format that would be inferred if the log ended now. Which of the two is used may change until the log is
long enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis import columns
from gputel.analysis.logs import events, frames, parser
from gputel.analysis.logs.date_order import UNSHIFTED, Calendar
from gputel.analysis.logs.events import EventTracker, LineRange, StepEvents
from gputel.analysis.logs.frames import EVALS, PARTIALS, RECORDS, FrameKind, Place, Places, Rows
from gputel.analysis.logs.log import DEFAULT_PHASE
from gputel.analysis.logs.outcome import LogEvent
from gputel.analysis.logs.parser import Parser
from gputel.analysis.logs.patterns import Field, Reject

if TYPE_CHECKING:
    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.records import Assembler


SHARE = 1 / 50  # share of the time that may be spent on guessing


@dataclass(frozen=True)
class Increment:
    """The new rows, in frames with the columns of a `Log`."""

    records: pl.DataFrame
    evals: pl.DataFrame
    partials: pl.DataFrame
    events: pl.DataFrame
    afresh: bool = False
    renamed: dict[Place, Place] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    ended: bool = False
    bars: frozenset[int] = frozenset()  # lines of the open records that are redraws of a bar
    opened: OpenRows | OpenFrames | None = None

    @property
    def open_records(self) -> pl.DataFrame:
        """Records that a next line may still add to, or draw over."""
        return self.opened.records if self.opened else _nothing().records

    @property
    def open_evals(self) -> pl.DataFrame:
        """Evaluations that wait for their step."""
        return self.opened.evals if self.opened else _nothing().evals

    @property
    def open_events(self) -> pl.DataFrame:
        """Events that a next line may still explain."""
        return self.opened.events if self.opened else _nothing().events

    @property
    def is_empty(self) -> bool:
        """Whether nothing was finished and nothing handed out before has changed."""
        rows = sum(frame.height for frame in (self.records, self.evals, self.partials, self.events))
        return not (rows or self.afresh or self.renamed or self.rejects or self.ended)

    def with_times(self, dated: Callable[[pl.DataFrame], pl.DataFrame]) -> Increment:
        """Copies the increment, with the times of every frame set by `dated`."""
        return replace(
            self,
            records=dated(self.records),
            evals=dated(self.evals),
            partials=dated(self.partials),
            events=dated(self.events),
            opened=OpenFrames(*map(dated, (self.open_records, self.open_evals, self.open_events))),
        )


@dataclass(frozen=True)
class OpenFrames:
    """Open rows whose frames have been made."""

    records: pl.DataFrame
    evals: pl.DataFrame
    events: pl.DataFrame


class OpenRows:
    """Open rows whose frames are made when they are first asked for, which for most increments is never."""

    def __init__(
        self, records: Rows, evals: Rows, events: StepEvents, places: Places, calendar: Calendar
    ) -> None:
        self._rows = (records, evals)
        self._events = events
        self._places, self._calendar = places, calendar

    @cached_property
    def records(self) -> pl.DataFrame:
        return _frame(self._rows[0], RECORDS, self._places, self._calendar)

    @cached_property
    def evals(self) -> pl.DataFrame:
        return _frame(self._rows[1], EVALS, self._places, self._calendar)

    @cached_property
    def events(self) -> pl.DataFrame:
        return self._events.frame(self._calendar)


class Increments:
    """Takes bytes of one log in any pieces and returns increments; `parser` has `config`, `summary` and `lines`."""

    def __init__(
        self,
        formats: tuple[Format, ...] | None = None,
        now: Callable[[], float] = time.monotonic,
        *,
        first_line: int = 1,
    ) -> None:
        self._log = Guessing(formats, now, first_line)
        self._ended = False
        self.guessed = False  # whether the last `take` guessed the format
        self._begin()

    def _begin(self) -> None:
        """Starts again with the rows of the parser that is used now."""
        self._assembler = self.parser.records
        self._events = EventTracker()
        self._places: Places = {}
        self._names: list[str] = []
        self._calendar = UNSHIFTED

    @property
    def parser(self) -> Parser:
        """The parser whose rows are handed out."""
        return self._log.parser

    @property
    def config(self) -> dict[str, float | str]:
        """The settings that were printed so far."""
        return self.parser.stated.config

    @property
    def sources(self) -> dict[str, Field]:
        """The printed name and unit of each column so far."""
        return self.parser.records.sources

    @property
    def began(self) -> int | None:
        """The timestamp of the first line that has one, in ns; None so far."""
        first = self.parser.began()
        return None if first is None else self._calendar.moment(first)

    @property
    def cause(self) -> LogEvent | None:
        """The event that ended the run, or None so far."""
        return self._events.cause()

    @property
    def caught(self) -> LogEvent | None:
        """The interruption that the last step caught, which ended the run unless that went on or is complete."""
        return self._events.caught

    @property
    def is_settled(self) -> bool:
        """Whether no row that was handed out will come again."""
        return self._log.is_settled

    @property
    def is_puzzled(self) -> bool:
        """Whether unread lines are waiting for a guess at their format, and it is time for one."""
        return self._log.is_due

    @property
    def completed(self) -> bool:
        """Whether a line says that the training is complete."""
        return self.parser.outcome.completed is not None

    def feed(self, data: bytes) -> None:
        self._log.feed(data)

    def finish(self) -> None:
        """Ends the log."""
        self._log.finish()
        self._ended = True

    def take(self, latest: datetime | None = None, *, guess: bool | None = None) -> Increment:
        """Returns what is new. `latest` is when the log was last written; it dates timestamps without a date.

        The clock decides whether to guess the format of unread lines, unless `guess` does: a replay sets it to
        repeat what happened before.
        """
        self.guessed = self._log.is_due if guess is None else guess
        if self.guessed:
            self._log.guess()
        afresh = self.parser.records is not self._assembler
        if afresh:
            self._begin()
        assembler = self._assembler
        rows, evals, partials = assembler.hand_over()
        opened = _open_rows(assembler)
        keys = [key for some in (rows, evals, opened[0]) for key in some.places()]
        renamed = self._rename(keys, assembler.stages.names)
        self._calendar = calendar = assembler.stamps.calendar(latest or datetime.now(timezone.utc))
        records = frames.unnamed(RECORDS, rows) if rows.count else None
        ranges = _line_ranges(records, self._places) if records is not None else []
        named = self._named(records, _nothing().records)
        named = named[columns.in_order(named.columns)]
        done, open_events = self._events.take(
            self._new_events(), named, ranges, assembler.drafts(), ended=self._ended
        )
        return Increment(
            named,
            self._named(frames.unnamed(EVALS, evals) if evals.count else None, _nothing().evals),
            self._named(frames.unnamed(PARTIALS, partials) if partials.count else None, _nothing().partials),
            done.frame(calendar) if done.events else _nothing().events,
            afresh,
            {} if afresh else renamed,
            self._new_rejects(),
            self._ended,
            frozenset(draft.line.number for draft in assembler.drafts() if draft.redraw),
            OpenRows(*opened, open_events, dict(self._places), calendar),
        )

    def _rename(self, keys: Iterable[tuple[int, int]], names: list[str | None]) -> dict[Place, Place]:
        """Names new places, and returns the old and new names of places that are called otherwise now."""
        new = set(keys) - self._places.keys()
        now = [name or DEFAULT_PHASE for name in names]
        if not new and now == self._names:
            return {}
        counts: dict[str, int] = {}
        before, self._names = self._places, now
        self._places = {}
        for phase, attempt in sorted({*before, *new}):
            counts[now[phase]] = counts.get(now[phase], 0) + 1
            self._places[phase, attempt] = (now[phase], counts[now[phase]])
        return {old: self._places[key] for key, old in before.items() if self._places[key] != old}

    def _named(self, frame: pl.DataFrame | None, nothing: pl.DataFrame) -> pl.DataFrame:
        return nothing if frame is None else _named(frame, self._places, self._calendar)

    def _new_events(self) -> list[LogEvent]:
        assembler, reported = self._assembler, self.parser.outcome.events
        new = [*reported, *events.of_lines(assembler)]
        for taken in (
            reported,
            assembler.evaluations.lines,
            assembler.epoch_lines,
            assembler.evaluations.numbers,
        ):
            taken.clear()
        return new

    def _new_rejects(self) -> list[Reject]:
        rejects = list(self.parser.rejects)
        self.parser.rejects.clear()
        return rejects


@lru_cache(maxsize=1)
def _nothing() -> Increment:
    records, evals = (
        frames.readable(frames.unnamed(kind, Rows()), {}, UNSHIFTED) for kind in (RECORDS, EVALS)
    )
    return Increment(records, evals, records, StepEvents().frame())


def _open_rows(assembler: Assembler) -> tuple[Rows, Rows]:
    """Records and evaluations as they would be if the log ended now."""
    records, evals = Rows(), Rows()
    for draft in assembler.drafts():
        if draft.place:
            records.append(draft.row(draft.place))
    with_records = [(draft.line, draft.step, draft.measured()) for draft in assembler.drafts()]
    place = assembler.stages.here
    for line, step, values in (*assembler.evaluations.waiting(), *with_records):
        for name, value in values.items():
            where = {"phase": place.phase, "attempt": place.attempt, "step": step, "name": name}
            evals.append({**where, "value": value, "line": line.number, "time": line.time, "rank": line.rank})
    return records, evals


def _frame(rows: Rows, kind: FrameKind, places: Places, calendar: Calendar) -> pl.DataFrame:
    return _named(frames.unnamed(kind, rows), places, calendar)


def _named(frame: pl.DataFrame, places: Places, calendar: Calendar) -> pl.DataFrame:
    here = {key: places.get(key, (DEFAULT_PHASE, 1)) for key in frames.begun(frame)}
    return frames.readable(frame, here, calendar)


def _line_ranges(frame: pl.DataFrame, places: Places) -> list[LineRange]:
    """Line ranges by number of the phase, whose name may change, with attempts counted by name."""
    ranges = events.line_ranges(frame)
    return [each._replace(attempt=places[each.place][1]) for each in ranges]


class Guessing:
    """Takes bytes of one log in any pieces; `parser` is the one that is used now."""

    def __init__(
        self, formats: tuple[Format, ...] | None, now: Callable[[], float], first_line: int = 1
    ) -> None:
        self._main = parser.make_parser(formats, live=True, first_line=first_line)
        self._other: Parser | None = None
        self._now = now
        self._asked_bytes, self._ask_after = 0, float("-inf")

    @property
    def parser(self) -> Parser:
        return self._other or self._main

    @property
    def is_settled(self) -> bool:
        """Whether no line will be read again in another format."""
        return self._main.is_settled

    @property
    def is_due(self) -> bool:
        """Whether to guess now: when its cost allows, or when the unread lines have doubled."""
        strange = self._main.strange_bytes
        if self.is_settled or strange == self._asked_bytes:
            return False
        return self._now() >= self._ask_after or strange >= 2 * self._asked_bytes

    def feed(self, data: bytes) -> None:
        self._main.feed(data)
        if self._other and self.is_settled:
            self._other = None
        if self._other:
            self._other.feed(data)

    def finish(self) -> None:
        """Ends the log."""
        self._main.finish()
        self._other = None

    def guess(self) -> None:
        """Guesses the format of unread lines again."""
        strange, now = self._main.strange_bytes, self._now()
        other = self._main.tentative()
        if other and not self._other:
            self._main.afresh()  # some of its rows have been handed out
        self._asked_bytes = strange
        self._ask_after = self._now() + (self._now() - now) / SHARE
        if _understood(other) != _understood(self._other):
            self._other = other


def _understood(parser: Parser | None) -> str | None:
    return parser.inferred.text if parser and parser.inferred else None
