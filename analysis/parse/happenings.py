"""Events of a log that grows: each is held back until nothing that is still to come can change what is said of it.

An event's step is that of the last record before it, and that record may still be open; a traceback is told with
the error that ends it. What is held back is known at once all the same, as what it would be if the log ended now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.parse import events, outcome
from gputel.analysis.parse.drafts import Draft
from gputel.analysis.parse.outcome import Event

Integers = npt.NDArray[np.int64]
Opened = list[tuple[int, float | None]]  # line and step of the records that are open, by line

WINDOW = 4096  # records that an event's step is looked for in
MOST_HELD = 10_000  # events or losses, where one rank of many has fallen silent with its record open
MOST_FATAL = 1_000


class Stretch(NamedTuple):
    """Records of one place: (number of the phase, attempt), the attempt as people count it, first and last line."""

    place: tuple[int, int]
    attempt: int
    first: int
    last: int


@dataclass(frozen=True)
class Happened:
    """Events with their steps."""

    events: list[Event] = field(default_factory=list)
    steps: list[int | None] = field(default_factory=list)

    def frame(self, shift: int) -> pl.DataFrame:
        return events.frame(self.events, self.steps, shift)


class Happenings:
    """`take` is given what is new, and gives the events that are final, and those that are not yet."""

    def __init__(self) -> None:
        self._held: list[Event] = []
        self._fatal: list[Event] = []  # since the last record
        self._lines: Integers = np.empty(0, dtype=np.int64)  # of the last records that printed a step
        self._steps: Integers = np.empty(0, dtype=np.int64)
        self._losses: list[tuple[int, bool]] = []  # line, whether it was finite; not judged yet
        self._finite = True
        self._told: list[int] = []  # lines that say why steps begin again
        self._places: set[tuple[int, int]] = set()
        self._last = 0  # line of the last record

    def take(
        self,
        said: Sequence[Event],
        records: pl.DataFrame,
        stretches: Iterable[Stretch],
        drafts: Sequence[Draft],
        *,
        ended: bool,
    ) -> tuple[Happened, Happened]:
        """`said` is what lines tell of; `records` have come to their end, `drafts` not."""
        opened: Opened = sorted((draft.line.number, draft.step) for draft in drafts)
        self._fatal += [event for event in said if event.fatal]
        self._told += [event.line for event in said if event.kind in ("resume", "restart")]
        shown = [*self._held, *(event for event in said if event.kind)]
        shown += self._not_finite(records, opened)
        shown += self._restarts(stretches, drafts)
        shown = sorted(map(self._explained, shown), key=lambda event: event.line)
        self._remember(records)
        done = [event for event in shown if not self._may_change(event, opened, ended)]
        kept = [event for event in shown if event not in done] if len(done) < len(shown) else []
        if len(kept) > MOST_HELD:
            done, kept = [*done, *kept[:-MOST_HELD]], kept[-MOST_HELD:]
        self._held = kept
        answer = self._with_steps(done, []), self._with_steps(kept, opened)
        self._forget([draft.line.number for draft in drafts if draft.place])
        return answer

    def cause(self) -> Event | None:
        """What ended the run, if it has ended."""
        return outcome.cause(self._fatal, self._last)

    def _explained(self, event: Event) -> Event:
        """A traceback with the error that is the first after it."""
        if event.kind != "traceback" or event.text:
            return event
        text = next((error.text for error in self._fatal if error.line > event.line), "")
        return replace(event, text=text)

    def _not_finite(self, records: pl.DataFrame, opened: Opened) -> list[Event]:
        """Where a loss stops being a number, in the order of the lines."""
        border = opened[0][0] if opened else None
        if "loss" in records.columns:
            losses = records.select("line", "loss").drop_nulls()
            finite = losses["loss"].is_finite()
            before = border is None or not losses.height or losses["line"][-1] < border
            if before and self._finite and not self._losses and finite.all():
                return []
            self._losses += zip(losses["line"].to_list(), finite.to_list(), strict=True)
            self._losses.sort(key=lambda known: known[0])
        settled = [known for known in self._losses if border is None or known[0] < border]
        settled = settled or self._losses[:-MOST_HELD]
        self._losses = self._losses[len(settled) :]
        found = []
        for line, finite_here in settled:
            if self._finite and not finite_here:
                found.append(Event("nan", line, "the loss is no finite number"))
            self._finite = finite_here
        return found

    def _restarts(self, stretches: Iterable[Stretch], drafts: Sequence[Draft]) -> list[Event]:
        """Steps that begin again, where no line has said why; what is open may have begun before what is closed."""
        found = []
        for place, attempt, first, last in stretches:
            if place not in self._places:
                self._places.add(place)
                begun = min([first, *(draft.line.number for draft in drafts if draft.place == place)])
                others = [draft.line.number for draft in drafts if draft.place != place]
                before = max([self._last, *(line for line in others if line < begun)])
                if attempt > 1 and not any(before < line < begun for line in self._told):
                    found.append(Event("restart", begun, "steps begin again"))
                self._told = [line for line in self._told if line > begun]
            self._last = max(self._last, last)
        return found

    def _remember(self, records: pl.DataFrame) -> None:
        rows = records.select("line", "step").drop_nulls()
        if not rows.height:
            return
        lines = np.concatenate([self._lines, rows["line"].to_numpy()])
        order = np.argsort(lines, kind="stable")
        self._lines = lines[order]
        self._steps = np.concatenate([self._steps, rows["step"].to_numpy()])[order]

    def _may_change(self, event: Event, opened: Opened, ended: bool) -> bool:
        """An open record before it may yet say its step, an error yet explain it."""
        if event.kind == "traceback" and not event.text and not ended:
            return True
        known = self._lines[self._at(event.line)] if self._at(event.line) >= 0 else 0
        return any(known <= line <= event.line for line, _ in opened)

    def _with_steps(self, events: list[Event], opened: Opened) -> Happened:
        return Happened(events, [self._step(event.line, opened) for event in events])

    def _step(self, line: int, opened: Opened) -> int | None:
        """The last step that was printed on a line or before it."""
        at = self._at(line)
        known = [(int(self._lines[at]), int(self._steps[at]))] if at >= 0 else []
        known += [(begun, int(step)) for begun, step in opened if step is not None and begun <= line]
        return max(reversed(known), key=lambda one: one[0])[1] if known else None

    def _at(self, line: int) -> int:
        return int(np.searchsorted(self._lines, line, side="right")) - 1

    def _forget(self, begun: Sequence[int]) -> None:
        """`begun` are the lines of the records that are open."""
        self._lines, self._steps = self._lines[-WINDOW:], self._steps[-WINDOW:]
        last = max([self._last, *begun])
        self._fatal = [event for event in self._fatal if event.line > last][:MOST_FATAL]
        self._told = self._told[-MOST_HELD:]
