"""Evaluations that wait for the record which tells their step, and those that open a training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gputel.analysis.logs.drafts import OpenRecord, ParsedLine
from gputel.analysis.logs.stages import FIRST_EPOCH, PhaseAttempt


@dataclass(eq=False, repr=False)
class PendingEvaluations:
    """Evaluations that get their step or attempt from the next record."""

    line: ParsedLine
    step: float | None
    evals: dict[str, float]
    place: PhaseAttempt  # where the log was
    last_step: float | None  # of the records before them
    epoch: float | None  # in which they stand
    reached: float | None  # the epoch of the record before them

    @property
    def is_of_last(self) -> bool:
        """Whether they name the fraction of an epoch at which the record before them stands."""
        return (
            "epoch" in self.line.cells and self.epoch == self.reached and not (self.epoch or 0.0).is_integer()
        )

    @property
    def begins_anew(self) -> bool:
        """Whether they stand in an earlier epoch than the record before them: that of the next attempt."""
        return self.epoch is not None and self.reached is not None and self.epoch < self.reached

    def is_left_by(self, place: PhaseAttempt) -> bool:
        """Whether the place is a later attempt of the same phase."""
        return place.phase == self.place.phase and place.attempt > self.place.attempt

    @property
    def is_finished(self) -> bool:
        """Whether the bar that gave them has come to its end."""
        return self.line.cells["count"] >= self.line.cells["total"]

    def is_redrawn(self, line: ParsedLine, evals: Mapping[str, float]) -> bool:
        """Whether the line is a later redraw of the bar that gave them."""
        before, now = self.line.cells, line.cells
        same = all(before.get(name) == now.get(name) for name in ("epoch", "total"))
        return same and evals.keys() == self.evals.keys() and now["count"] >= before["count"]

    def are_given_by(self, evals: Iterable[str]) -> bool:
        """Whether one of them is among these evaluations."""
        return not {name.lower() for name in self.evals}.isdisjoint(name.lower() for name in evals)


class OpeningEvaluations:
    """Unplaced evaluations of a log that evaluates above the first record.

    Where one stands below the last record as well, the first was made before the training, and each later one is of
    the epoch above it; else each is of the epoch below it. So they wait in `led` until the training is over. Where
    another training follows, the last ones between the two open it. If the first epoch is a later one, as in
    an excerpt, the first was made after one that is left out.
    """

    def __init__(self) -> None:
        self.led: list[tuple[PendingEvaluations, float, PhaseAttempt]] = []  # with the epoch below them
        self._names: set[str] = set()  # of the figures above the first record
        self._place: PhaseAttempt | None = None  # of the training that they opened last
        self._again: set[str] = set()  # figures that other lines give for the first epoch

    def leads(self, waiting: PendingEvaluations, draft: OpenRecord) -> bool:
        """Takes an evaluation above a record; returns whether it is kept, as the record's step is its epoch."""
        if draft.place is None or draft.step is None:
            return False
        if waiting.last_step is None and self._place is None:
            self.begin(waiting, draft.place)
        if draft.place != self._place or draft.cells.get("epoch") != draft.step:
            return False
        self.led.append((waiting, draft.step, draft.place))
        return True

    def note(self, step: float | None, names: Iterable[str]) -> None:
        """Notes figures that a line gives for a step."""
        if self.led and step == self.led[0][1]:
            self._again |= {*names}

    def begin(self, waiting: PendingEvaluations, place: PhaseAttempt | None) -> None:
        """Notes that an evaluation opens the training of that place."""
        self._names |= waiting.evals.keys()
        self._place = place

    def is_left_by(self, place: PhaseAttempt | None) -> bool:
        """Whether the training that they opened ends; `place` is that of the next record, None at the end."""
        return self._place is not None and place != self._place

    def of_next(self, left: Iterable[PendingEvaluations]) -> list[PendingEvaluations]:
        """The last ones between two trainings that give each figure of the first opening at most once."""
        opens: list[PendingEvaluations] = []
        seen: set[str] = set()
        for each in reversed([*left]):
            if not each.evals.keys() <= self._names - seen:
                break
            opens.append(each)
            seen |= each.evals.keys()
        return opens

    def end(
        self, below: Iterable[PendingEvaluations]
    ) -> Iterator[tuple[PendingEvaluations, float | None, PhaseAttempt]]:
        """The evaluations of a training that is over, with their steps; `below` are those below its last record."""
        are_above = any(each.are_given_by(self._names) for each in below)
        for each, step, place in self.led:
            is_later = each.place == place  # than the first record
            above = each.last_step if are_above and is_later else None
            opens = step == self.led[0][1] and (each.last_step is None or not is_later)
            is_given_again = are_above or each.are_given_by(self._again)
            if opens and is_given_again and step > FIRST_EPOCH:
                yield each, None, place
            else:
                yield each, step if above is None else above, place
        self.led, self._place, self._again = [], None, set()
