"""A log that grows -> the rows that are new since they were last asked for, at a cost that depends on those.

All increments of a log together are the rows of parsing it whole, with these provisos. `open` rows are what would
be read if the log ended now (a record that a next line may add to, an evaluation that waits for its step, an event
that a next line explains): they are shown at once, and superseded by the next increment as a whole. `renamed` says
what became of rows handed out before, where lines told the name of their phase; stamps without a date keep the one
that was the latest possible when they were handed out. And `afresh` says that the log turned out to be in another
format than it seemed (which is asked in its first megabytes, and at its end): what was handed out before is to be
forgotten, for all of it comes again. Half a line is nothing yet. Rows come in the order in which they are finished;
where several ranks print into one log that is not quite the order of the lines, by which a parse sorts them.

A log that grows, read while nobody knows yet in what format it is.

Beside the parser of all known formats there is another, which also has the format that would be inferred if the log
ended now. Which of the two is believed may change until the log is long enough to tell.
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
from gputel.analysis.logs.events import EventTracker, LineRange, StepEvents
from gputel.analysis.logs.frames import EVALS, PARTIALS, RECORDS, FrameKind, Place, Places, Rows
from gputel.analysis.logs.log import DEFAULT_PHASE
from gputel.analysis.logs.outcome import LogEvent
from gputel.analysis.logs.parser import Parser
from gputel.analysis.logs.patterns import Reject

if TYPE_CHECKING:
    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.records import Assembler


@dataclass(frozen=True)
class Increment:
    """What is new; frames with the columns of a `Log`."""

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

    def __init__(self, records: Rows, evals: Rows, events: StepEvents, places: Places, shift: int) -> None:
        self._rows = (records, evals)
        self._events = events
        self._places, self._shift = places, shift

    @cached_property
    def records(self) -> pl.DataFrame:
        return _frame(self._rows[0], RECORDS, self._places, self._shift)

    @cached_property
    def evals(self) -> pl.DataFrame:
        return _frame(self._rows[1], EVALS, self._places, self._shift)

    @cached_property
    def events(self) -> pl.DataFrame:
        return self._events.frame(self._shift)


class Increments:
    """Bytes of one log in any pieces -> increments. `parser` knows the rest: `config`, `summary`, `lines`."""

    def __init__(
        self,
        formats: tuple[Format, ...] | None = None,
        now: Callable[[], float] = time.monotonic,
        *,
        first_line: int = 1,
    ) -> None:
        self._log = Guessing(formats, now, first_line)
        self._ended = False
        self.guessed = False  # at the last `take`
        self._begin()

    def _begin(self) -> None:
        """What was handed out before is to be forgotten."""
        self._held = self.parser.records
        self._events = EventTracker()
        self._places: Places = {}
        self._names: list[str] = []
        self._shift = 0

    @property
    def parser(self) -> Parser:
        """The one whose rows are handed out."""
        return self._log.parser

    @property
    def cause(self) -> LogEvent | None:
        """What ended the run, as far as it is known now."""
        return self._events.cause()

    @property
    def is_settled(self) -> bool:
        """Whether nothing that was handed out will come again."""
        return self._log.is_settled

    @property
    def is_puzzled(self) -> bool:
        """Whether there is something to guess at, and time to do it."""
        return self._log.is_due

    @property
    def completed(self) -> bool:
        """Whether the log says in so many words that the training is complete."""
        return self.parser.outcome.completed is not None

    def feed(self, data: bytes) -> None:
        self._log.feed(data)

    def finish(self) -> None:
        """The log has ended."""
        self._log.finish()
        self._ended = True

    def take(self, latest: datetime | None = None, *, guess: bool | None = None) -> Increment:
        """`latest` is when the log was last written to, which stamps without a date are dated by.

        Whether it is time to guess what an unknown log is says the clock; or `guess`, so that it is as it once was.
        """
        self.guessed = self._log.is_due if guess is None else guess
        if self.guessed:
            self._log.guess()
        afresh = self.parser.records is not self._held
        if afresh:
            self._begin()
        held = self._held
        rows, evals, partials = held.hand_over()
        opened = _open_rows(held)
        keys = [key for some in (rows, evals, opened[0]) for key in some.places()]
        renamed = self._rename(keys, held.stages.names)
        self._shift = shift = held.stamps.shift(latest or datetime.now(timezone.utc))
        records = frames.unnamed(RECORDS, rows) if rows.count else None
        ranges = _line_ranges(records, self._places) if records is not None else []
        named = self._named(records, _nothing().records)
        named = named[columns.in_order(named.columns)]
        done, open_events = self._events.take(
            self._new_events(), named, ranges, held.drafts(), ended=self._ended
        )
        return Increment(
            named,
            self._named(frames.unnamed(EVALS, evals) if evals.count else None, _nothing().evals),
            self._named(frames.unnamed(PARTIALS, partials) if partials.count else None, _nothing().partials),
            done.frame(shift) if done.events else _nothing().events,
            afresh,
            {} if afresh else renamed,
            self._new_rejects(),
            self._ended,
            frozenset(draft.line.number for draft in held.drafts() if draft.redraw),
            OpenRows(*opened, open_events, dict(self._places), shift),
        )

    def _rename(self, keys: Iterable[tuple[int, int]], names: list[str | None]) -> dict[Place, Place]:
        """Names places that are new, and tells which of those that were named before have another name now."""
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
        return nothing if frame is None else _named(frame, self._places, self._shift)

    def _new_events(self) -> list[LogEvent]:
        held, said = self._held, self.parser.outcome.events
        found = [*said, *events.of_lines(held)]
        for seen in (said, held.evaluations.lines, held.epoch_lines, held.evaluations.numbers):
            seen.clear()
        return found

    def _new_rejects(self) -> list[Reject]:
        found = list(self.parser.rejects)
        self.parser.rejects.clear()
        return found


@lru_cache(maxsize=1)
def _nothing() -> Increment:
    records, evals = (frames.readable(frames.unnamed(kind, Rows()), {}, 0) for kind in (RECORDS, EVALS))
    return Increment(records, evals, records, StepEvents().frame(0))


def _open_rows(held: Assembler) -> tuple[Rows, Rows]:
    """Records and evaluations as they would be if the log ended now."""
    records, evals = Rows(), Rows()
    for draft in held.drafts():
        if draft.place:
            records.append(draft.row(draft.place))
    found = [(draft.line, draft.step, draft.evals) for draft in held.drafts()]
    place = held.stages.here
    for line, step, values in (*held.evaluations.waiting(), *found):
        for name, value in values.items():
            where = {"phase": place.phase, "attempt": place.attempt, "step": step, "name": name}
            evals.append({**where, "value": value, "line": line.number, "time": line.time, "rank": line.rank})
    return records, evals


def _frame(rows: Rows, kind: FrameKind, places: Places, shift: int) -> pl.DataFrame:
    return _named(frames.unnamed(kind, rows), places, shift)


def _named(frame: pl.DataFrame, places: Places, shift: int) -> pl.DataFrame:
    here = {key: places.get(key, (DEFAULT_PHASE, 1)) for key in frames.begun(frame)}
    return frames.readable(frame, here, shift)


def _line_ranges(frame: pl.DataFrame, places: Places) -> list[LineRange]:
    """Places by number, which their names may not be for ever, with attempts as people count them."""
    ranges = events.line_ranges(frame)
    return [known._replace(attempt=places[known.place][1]) for known in ranges]


SHARE = 1 / 50  # of the time that goes by may be spent on guessing


class Guessing:
    """Bytes of one log in any pieces; `parser` is the one that is believed now."""

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
        """Whether nothing that was read will be read again in another format."""
        return self._main.is_settled

    @property
    def is_due(self) -> bool:
        """As often as what it costs allows; and where the unknown has doubled."""
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
        """The log has ended."""
        self._main.finish()
        self._other = None

    def guess(self) -> None:
        """Asks once more what the log is."""
        strange, now = self._main.strange_bytes, self._now()
        other = self._main.tentative()
        if other and not self._other:
            self._main.afresh()  # of its rows some have been handed out
        self._asked_bytes = strange
        self._ask_after = self._now() + (self._now() - now) / SHARE
        if _understood(other) != _understood(self._other):
            self._other = other


def _understood(parser: Parser | None) -> str | None:
    return parser.inferred.text if parser and parser.inferred else None
