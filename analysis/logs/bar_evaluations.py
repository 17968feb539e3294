"""What the bars of epochs show of a held-out set, and the epoch in which it was measured.

A bar goes on showing the figures of the last evaluation. Those that it shows before the first batch are of the
epoch before, whose own last redraw may have come too early for them. If the first epochs have none, one of so many
evaluates, and the others show what was measured before.
"""

from __future__ import annotations

from gputel.analysis.logs.drafts import OpenRecord, ParsedLine
from gputel.analysis.logs.evaluations import Evaluations
from gputel.analysis.logs.stages import PhaseAttempt


class BarEvaluations:
    """Writes the evaluations of bars once they are known to be of their epoch."""

    def __init__(self, evaluations: Evaluations) -> None:
        self._evaluations = evaluations
        # by rank: the bar that has ended, and showed nothing new
        self._waiting: dict[str | None, tuple[OpenRecord, PhaseAttempt]] = {}
        self._changes = False  # whether a bar showed new figures before its end
        self._first: dict[PhaseAttempt, float] = {}  # the first epoch
        self._every: dict[PhaseAttempt, float] = {}  # how many epochs it took to the first evaluation

    def begin(self, draft: OpenRecord) -> None:
        """Takes the whole first redraw of an epoch, which shows what the epoch before measured."""
        if draft.carried is not None:
            return
        draft.carried = draft.began_with()
        if waiting := self._waiting.pop(draft.line.rank, None):
            self._settle(*waiting, draft)

    def _settle(self, before: OpenRecord, place: PhaseAttempt, draft: OpenRecord) -> None:
        """Takes a bar that showed nothing new, with the first redraw of the bar below."""
        is_next = draft.epoch_of_bar == (before.epoch_of_bar or 0) + 1
        if not is_next or not draft.carried:
            self._end(before, place)
        elif draft.carried == before.evals:
            self._write_again(before, place)
        else:
            self._write(draft.line, draft.carried, before, place)

    def close(self, draft: OpenRecord, place: PhaseAttempt) -> None:
        """Takes the last redraw of an epoch."""
        self.begin(draft)
        self._first.setdefault(place, draft.epoch_of_bar or 0)
        if measured := draft.measured():
            self._changes = True
            self._write(draft.line, measured, draft, place)
        else:
            self._waiting[draft.line.rank] = draft, place

    def close_all(self) -> None:
        for draft, place in self._waiting.values():
            self._end(draft, place)
        self._waiting.clear()

    def _end(self, draft: OpenRecord, place: PhaseAttempt) -> None:
        """Takes a bar that none of the next epoch follows: the same figures again, unless its end is missing."""
        if self._changes and not draft.is_broken_off():
            self._write_again(draft, place)

    def _write_again(self, draft: OpenRecord, place: PhaseAttempt) -> None:
        """Takes the figures that the epoch before had as well, unless it is one of those that do not evaluate."""
        if self._passed(draft, place) % self._every.get(place, 1) == 0:
            self._write(draft.line, draft.evals, draft, place)

    def _passed(self, bar: OpenRecord, place: PhaseAttempt) -> float:
        epoch = bar.epoch_of_bar or 0
        return epoch - self._first.get(place, epoch) + 1

    def _write(
        self, line: ParsedLine, figures: dict[str, float], bar: OpenRecord, place: PhaseAttempt
    ) -> None:
        if figures:
            self._every.setdefault(place, self._passed(bar, place))
        new = self._evaluations.without_rounded(line, bar.step, figures)
        self._evaluations.write(line, new, bar.step, place)
