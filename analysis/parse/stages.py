"""Which phase and which attempt a row belongs to: told by what the log announces and by steps that fall."""

from __future__ import annotations

from typing import NamedTuple

_NEVER = float("-inf")


class Place(NamedTuple):
    phase: int
    attempt: int


class Stages:
    """`names` holds the phases in file order; one that no line has named is None."""

    def __init__(self) -> None:
        self.names: list[str | None] = [None]
        self.announced: str | None = None
        self.last_step: float | None = None
        self._attempt = 1
        self._begun = False  # whether a row stands in the open phase
        self._last: dict[str | None, float] = {}  # by rank, within the attempt
        self._epochs: dict[str | None, float | None] = {}  # the same
        self._last_eval = _NEVER

    @property
    def here(self) -> Place:
        return Place(len(self.names) - 1, self._attempt)

    def changes(self, stage: str) -> bool:
        """Whether rows of this stage would be of another phase than the open one."""
        return self._begun and self.names[-1] not in (None, stage)

    def announce(self, stage: str) -> None:
        """Rows to come are of this stage."""
        if self._begun and stage != self.names[-1]:
            self.announced = stage
        else:
            self.name(stage)

    def name(self, stage: str) -> None:
        """The log says what the open phase is."""
        if self.announced:
            self.announced = stage
        else:
            self.names[-1] = stage

    def is_behind(self, step: float) -> bool:
        """Whether an evaluation of this step may belong to what comes next rather than to what was."""
        return self.announced is not None or step < max(self._last.values(), default=_NEVER)

    def record(self, step: float | None, rank: str | None, epoch: float | None = None) -> Place:
        """The place of a record that begins now. A step that falls as a new epoch begins counts within epochs."""
        if self.announced:
            self._next_phase()
        elif step is not None and step < self._last.get(rank, _NEVER) and not self._is_later(epoch, rank):
            self._next_attempt()
        self._begun = True
        if step is not None:
            self._last[rank], self._epochs[rank] = step, epoch
        self.last_step = step
        return self.here

    def evaluation(self, step: float | None) -> Place:
        """The place of an evaluation; only where there are no records do its own steps tell attempts."""
        if self.announced and step is not None:
            self._next_phase()
        elif step is not None and not self._last and step < self._last_eval:
            self._next_attempt()
        self._begun = True
        self._last_eval = self._last_eval if step is None else step
        return self.here

    def went_on(self, step: float, rank: str | None, epoch: float | None = None) -> None:
        """Records up to this step followed, each later than the one before."""
        self._last[rank] = self.last_step = step
        self._epochs[rank] = epoch

    def _is_later(self, epoch: float | None, rank: str | None) -> bool:
        before = self._epochs.get(rank)
        return epoch is not None and before is not None and epoch > before

    def _next_phase(self) -> None:
        if self._begun:
            self.names.append(self.announced)
        else:
            self.names[-1] = self.announced
        self.announced, self._attempt, self._last, self._epochs, self._last_eval = None, 1, {}, {}, _NEVER
        self.last_step = None

    def _next_attempt(self) -> None:
        self._attempt += 1
        self._last, self._epochs, self._last_eval = {}, {}, _NEVER
