"""Events of a log that may grow: each is released once later lines can no longer change its step or text.

An event's step is that of the last record before it, which may still be open; a checkpoint's is the one that it
names. A traceback has the text of the error that ends it. Events that are not final are still returned, as they
would be if the log ended now. A log that was read to its end is taken in one go, with nothing open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis import columns
from gputel.analysis.logs import outcome
from gputel.analysis.logs.date_order import UNSHIFTED, Calendar
from gputel.analysis.logs.frames import MOST, TYPES, UTC
from gputel.analysis.logs.outcome import LogEvent
from gputel.analysis.logs.saved_steps import saved_step
from gputel.analysis.logs.signs import BEGIN_AGAIN

if TYPE_CHECKING:
    from gputel.analysis.logs.drafts import OpenRecord
    from gputel.analysis.logs.records import Assembler

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

WINDOW = 4096  # last records in which an event's step is looked up
MOST_HELD = 10_000  # events or losses; more pile up if one rank falls silent with its record open
MOST_FATAL = 1_000


class LineRange(NamedTuple):
    """The records of one place (phase and attempt): attempt of that name, first and last line."""

    place: tuple[Any, int]
    attempt: int
    first: int
    last: int


@dataclass(frozen=True)
class StepEvents:
    """Events with their steps."""

    events: list[LogEvent] = field(default_factory=list)
    steps: list[int | None] = field(default_factory=list)

    def frame(self, calendar: Calendar = UNSHIFTED) -> pl.DataFrame:
        """The events as a frame; `calendar` says what their times lack."""
        times = [None if e.time is None else calendar.moment(e.time) for e in self.events]
        lists: dict[str, list[Any]] = {
            "kind": [e.kind for e in self.events],
            "line": [e.line for e in self.events],
            "step": self.steps,
            "rank": [e.rank for e in self.events],
            "text": [e.text for e in self.events],
        }
        series = {name: pl.Series(name, values, dtype=TYPES[name]) for name, values in lists.items()}
        series["time"] = pl.Series("time", times, dtype=pl.Int64).cast(UTC)
        return pl.DataFrame([series[column.name] for column in columns.EVENTS])


def of_lines(assembler: Assembler) -> list[LogEvent]:
    """Events of evaluations and epochs that had lines of their own."""
    named = [("eval", line) for line in assembler.evaluations.lines]
    named += [("epoch", line) for line in assembler.epoch_lines]
    whole = [LogEvent(kind, line.number, "", line.time, line.rank) for kind, line in named]
    return whole + [LogEvent("eval", number, "") for number in assembler.evaluations.numbers]


def line_ranges(records: pl.DataFrame) -> list[LineRange]:
    """Line ranges in the order in which their places appear; phases may be names or numbers."""
    if not records.height:
        return []
    phases, attempts, lines = records["phase"], records["attempt"], records["line"]
    if (attempts == attempts[0]).all() and (phases == phases[0]).all():
        return [LineRange((phases[0], attempts[0]), attempts[0], lines[0], lines[-1])]
    changed = (phases != phases.shift()) | (attempts != attempts.shift())
    first = changed.fill_null(True).arg_true()
    last = first.shift(-1, fill_value=records.height) - 1
    parts = pl.DataFrame(
        [phases.gather(first), attempts.gather(first), lines.gather(first), lines.gather(last).alias("last")]
    )
    whole = parts.group_by("phase", "attempt", maintain_order=True).agg(
        pl.col("line").first(), pl.col("last").last()
    )
    return [LineRange((phase, attempt), attempt, *ends) for phase, attempt, *ends in whole.iter_rows()]


@dataclass(frozen=True)
class _Known:
    """Lines that printed a step, in order, and those steps."""

    lines: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    steps: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def with_more(self, lines: Integers, steps: Integers) -> _Known:
        lines, steps = np.concatenate([self.lines, lines]), np.concatenate([self.steps, steps])
        order = _order(lines)
        return _Known(lines[order], steps[order])

    def at(self, lines: Integers) -> Integers:
        """The index of the last known line up to each line; -1 where there is none."""
        return np.searchsorted(self.lines, lines, side="right") - 1


class EventTracker:
    """Collects the events of a log; `take` returns those that are final, and those that may still change."""

    def __init__(self) -> None:
        self._held: list[LogEvent] = []
        self._fatal: list[LogEvent] = []  # since the last record, and what its step caught
        self._known = _Known()  # the steps of the last records
        self._loss_lines: Integers = np.empty(0, dtype=np.int64)  # not looked at yet
        self._finite_losses: Booleans = np.empty(0, dtype=np.bool_)
        self._finite = True
        self._reasons: list[int] = []  # lines that say why steps begin again
        self._headings: list[LogEvent] = []  # of a new start, each with its date
        self._places: set[tuple[Any, int]] = set()
        self._last = 0  # line of the last record
        self._begun: list[int] = []  # first lines of the attempts since the last checkpoint
        self._saved = 0  # line of that checkpoint
        self.caught: LogEvent | None = None  # an interruption that the last step caught

    def take(
        self,
        reported: Sequence[LogEvent],
        records: pl.DataFrame,
        ranges: Iterable[LineRange],
        drafts: Sequence[OpenRecord] = (),
        *,
        ended: bool,
    ) -> tuple[StepEvents, StepEvents]:
        """Takes the events that lines report, with finished `records` and `drafts` that are still open."""
        opened = np.array(sorted(draft.line.number for draft in drafts), dtype=np.int64)
        self._fatal += [event for event in reported if event.fatal]
        self._reasons += [event.line for event in reported if event.kind in ("resume", "restart")]
        self._headings += [event for event in reported if not event.kind and not event.fatal]
        restarts = self._restarts(ranges, drafts)
        opening = [d.line.number for d in drafts if d.place and self._places and d.place not in self._places]
        saves = self._without_copies((event for event in reported if event.kind), opening)
        shown = _amended([*self._held, *saves])
        shown += self._not_finite(records, opened)
        shown += restarts
        shown = sorted(map(self._explained, shown), key=lambda event: event.line)
        self._known = self._known.with_more(*_printed(records, "step"))
        done, kept = self._settled(shown, opened, ended)
        if len(kept) > MOST_HELD:
            done, kept = [*done, *kept[:-MOST_HELD]], kept[-MOST_HELD:]
        self._held = kept
        known = self._known.with_more(*_steps_of(drafts))
        answer = _with_steps(done, self._known), _with_steps(kept, known)
        self.caught = outcome.caught(self._fatal, known.lines, known.steps)
        self._forget([draft.line.number for draft in drafts if draft.place])
        return answer

    def cause(self) -> LogEvent | None:
        """The event that ended the run, or None."""
        return outcome.cause(self._fatal, self._last)

    def _explained(self, event: LogEvent) -> LogEvent:
        """Gives a traceback the text of the first error after it."""
        if event.kind != "traceback" or event.text:
            return event
        text = next((error.text for error in self._fatal if error.line > event.line), "")
        return replace(event, text=text)

    def _not_finite(self, records: pl.DataFrame, opened: Integers) -> list[LogEvent]:
        """Events where the loss stops being finite, in the order of lines."""
        if "loss" in records.columns:
            lines, losses = _printed(records, "loss")
            lines = np.concatenate([self._loss_lines, lines])
            finite = np.concatenate([self._finite_losses, np.isfinite(losses)])
            order = _order(lines)
            self._loss_lines, self._finite_losses = lines[order], finite[order]
        count = len(self._loss_lines)
        settled = int(np.searchsorted(self._loss_lines, opened[0])) if len(opened) else count
        settled = settled or max(count - MOST_HELD, 0)
        if not settled:
            return []
        lines, finite = self._loss_lines[:settled], self._finite_losses[:settled]
        self._loss_lines, self._finite_losses = self._loss_lines[settled:], self._finite_losses[settled:]
        before = np.concatenate([[self._finite], finite[:-1]])
        self._finite = bool(finite[-1])
        return [
            LogEvent("nan", line, "the loss is not a finite number")
            for line in lines[before & ~finite].tolist()
        ]

    def _restarts(self, ranges: Iterable[LineRange], drafts: Sequence[OpenRecord]) -> list[LogEvent]:
        """Events where steps begin again and no line says why; an open record may begin before closed ones."""
        restarts = []
        for place, attempt, first, last in ranges:
            if place not in self._places:
                self._places.add(place)
                begun = min([first, *(draft.line.number for draft in drafts if draft.place == place)])
                others = [draft.line.number for draft in drafts if draft.place != place]
                before = max([self._last, *(line for line in others if line < begun)])
                if len(self._places) > 1:
                    self._begun.append(begun)
                if attempt > 1 and not any(before < line < begun for line in self._reasons):
                    reasons = (event.text for event in self._headings if before < event.line < begun)
                    restarts.append(LogEvent("restart", begun, next(reasons, BEGIN_AGAIN)))
                self._reasons = [line for line in self._reasons if line > begun]
                self._headings = [event for event in self._headings if event.line > begun]
            self._last = max(self._last, last)
        return restarts

    def _without_copies(self, reported: Iterable[LogEvent], opening: list[int]) -> Iterator[LogEvent]:
        """The events without those that repeat the last checkpoint of their attempt.

        `opening` are the lines of open records with which an attempt begins.
        """
        for event in reported:
            if event.late and not any(self._saved < line < event.line for line in (*self._begun, *opening)):
                continue
            if event.kind == "checkpoint":
                self._saved = event.line
                self._begun = [line for line in self._begun if line > event.line]
            yield event

    def _settled(
        self, shown: list[LogEvent], opened: Integers, ended: bool
    ) -> tuple[list[LogEvent], list[LogEvent]]:
        """Separates final events from those that an open record before them or an error after them may change."""
        changing = [not ended and self._may_change(event) for event in shown]
        if len(opened):
            lines = _lines(shown)
            at = self._known.at(lines)
            known = np.where(at < 0, 0, self._known.lines[at]) if len(self._known.lines) else 0 * lines
            between = np.searchsorted(opened, lines, side="right") > np.searchsorted(opened, known)
            changing = (np.array(changing, dtype=np.bool_) | between).tolist()
        elif not any(changing):
            return shown, []
        pairs = list(zip(shown, changing, strict=True))
        return [event for event, may in pairs if not may], [event for event, may in pairs if may]

    def _may_change(self, event: LogEvent) -> bool:
        """Whether a later line may say more of an event: a traceback's error, or a checkpoint's file."""
        if event.kind == "checkpoint":
            return event.line > self._last
        return event.kind == "traceback" and not event.text

    def _forget(self, begun: Sequence[int]) -> None:
        """Drops what later lines cannot need; `begun` are the lines of open records."""
        self._known = _Known(self._known.lines[-WINDOW:], self._known.steps[-WINDOW:])
        last = max([self._last, *begun])
        self._fatal = [e for e in self._fatal if e.line > last or e is self.caught][:MOST_FATAL]
        self._reasons = self._reasons[-MOST_HELD:]
        self._headings = self._headings[-MOST_FATAL:]


def _amended(events: Sequence[LogEvent]) -> list[LogEvent]:
    """Gives a checkpoint the text of the line that names it best; events stand in the order of their lines."""
    whole: list[LogEvent] = []
    last_save: int | None = None
    for event in events:
        if not event.amends:
            last_save = len(whole) if event.kind == "checkpoint" else last_save
            whole.append(event)
        elif last_save is not None:
            whole[last_save] = replace(whole[last_save], text=event.text)
    return whole


def _printed(records: pl.DataFrame, name: str) -> tuple[Integers, npt.NDArray[Any]]:
    """Lines and values of the records that have a value."""
    if records[name].null_count():
        records = records.filter(pl.col(name).is_not_null())
    return records["line"].to_numpy(), records[name].to_numpy()


def _order(lines: Integers) -> Integers | slice:
    """Indices that sort the lines, most of which are sorted already."""
    is_sorted = bool((lines[1:] >= lines[:-1]).all())
    return slice(None) if is_sorted else np.argsort(lines, kind="stable")


def _lines(events: Sequence[LogEvent]) -> Integers:
    return np.array([event.line for event in events], dtype=np.int64)


def _steps_of(drafts: Sequence[OpenRecord]) -> tuple[Integers, Integers]:
    """Lines and steps of the open records that have printed a step."""
    stepped = ((draft.line.number, draft.step) for draft in drafts if draft.step is not None)
    known = sorted((line, int(step)) for line, step in stepped if abs(step) < MOST)
    lines, steps = ([pair[i] for pair in known] for i in (0, 1))
    return np.array(lines, dtype=np.int64), np.array(steps, dtype=np.int64)


def _with_steps(events: list[LogEvent], known: _Known) -> StepEvents:
    """Gives each event the last step that was printed up to its line; a checkpoint the step that it names."""
    steps = []
    for event, row in zip(events, known.at(_lines(events)).tolist(), strict=True):
        last = int(known.steps[row]) if row >= 0 else None
        if event.kind == "checkpoint":
            stride = int(known.steps[row] - known.steps[row - 1]) if row > 0 else 1
            last = saved_step(event.text, last, stride)
        steps.append(last)
    return StepEvents(events, steps)
