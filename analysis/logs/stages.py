"""The phase and the attempt that a record belongs to.

Phases are announced by lines; an attempt begins where steps fall.
"""

from __future__ import annotations

from typing import NamedTuple

FIRST_EPOCH = 1
_NEVER = float("-inf")
_AHEAD = 3  # records by which one rank may be ahead of another


class PhaseAttempt(NamedTuple):
    phase: int
    attempt: int


class Stages:
    """Follows phases and attempts. `names` are the phases in file order; None is one without a name."""

    def __init__(self) -> None:
        self.names: list[str | None] = [None]
        self.announced: str | None = None
        self.last_step: float | None = None
        self.last_epoch: float | None = None  # of the last record with a step
        self._attempt = 1
        self._begun = False  # whether the open phase has a row
        self._recorded = False  # whether the open attempt has a record
        self._last: dict[str | None, float] = {}  # step by rank, within the attempt
        self._epochs: dict[str | None, float | None] = {}  # epoch by rank, within the attempt
        self._totals: dict[str | None, float | None] = {}  # total of steps by rank, within the attempt
        self._count: dict[str | None, int] = {}  # records by rank, within the attempt
        self._last_eval = _NEVER

    @property
    def here(self) -> PhaseAttempt:
        return PhaseAttempt(len(self.names) - 1, self._attempt)

    def changes(self, stage: str) -> bool:
        """Whether rows of this stage belong to another phase than the open one."""
        return self._begun and self.names[-1] not in (None, stage)

    def announce(self, stage: str) -> None:
        """Makes later rows belong to this stage."""
        if self._begun and stage != self.names[-1]:
            self.announced = stage
        else:
            self.name(stage)

    def name(self, stage: str) -> None:
        """Names the open phase."""
        if self.announced:
            self.announced = stage
        else:
            self.names[-1] = stage

    def is_behind(self, step: float, epoch: float | None = None) -> bool:
        """Whether an evaluation of this step may belong to the next attempt or phase.

        One whose epoch stands for its step is compared with the epochs of the records, if they have any.
        """
        epochs = [] if epoch is None else [value for value in self._epochs.values() if value is not None]
        return self.announced is not None or step < max(epochs or self._last.values(), default=_NEVER)

    def record(
        self,
        step: float | None,
        rank: str | None,
        epoch: float | None = None,
        total: float | None = None,
        *,
        is_batch: bool = False,
    ) -> PhaseAttempt:
        """The place of a record that begins now; a falling step begins an attempt, unless a new epoch begins.

        So does the same step of another total: a training of one epoch is followed by one of twenty.
        """
        if self.announced:
            self._next_phase()
        elif self._begins_again(step, rank, epoch, is_batch=is_batch) or self._counts_to_other(
            step, rank, epoch, total
        ):
            self._next_attempt()
        self._begun = self._recorded = True
        if step is None and epoch is not None:
            self.reached(rank, epoch)
        if step is not None:
            self._last[rank], self._epochs[rank], self._totals[rank] = step, epoch, total
            self.last_epoch = epoch
            self._count[rank] = self._count.get(rank, 0) + 1
        self.last_step = step
        return self.here

    def evaluation(self, step: float | None) -> PhaseAttempt:
        """The place of an evaluation; its steps separate attempts only where there are no records."""
        if self.announced and step is not None:
            self._next_phase()
        elif step is not None and not self._last and step < self._last_eval:
            self._next_attempt()
        self._begun = True
        self._last_eval = self._last_eval if step is None else step
        return self.here

    @property
    def has_steps(self) -> bool:
        """Whether the open attempt has a record, or an evaluation at a step."""
        return self._recorded or self._last_eval != _NEVER

    def start(self) -> None:
        """Begins the next attempt at the heading of a training."""
        self._next_attempt()
        self.last_step = self.last_epoch = None

    def step_of(self, rank: str | None) -> float | None:
        """The step of the last record of a rank, within the attempt."""
        return self._last.get(rank)

    def went_on(
        self, step: float, rank: str | None, epoch: float | None, total: float | None, count: int
    ) -> None:
        """Notes that records up to this step followed, each with a later step than the one before."""
        self._last[rank] = self.last_step = step
        self._epochs[rank] = self.last_epoch = epoch
        self._totals[rank] = total
        self._count[rank] = self._count.get(rank, 0) + count

    def reached(self, rank: str | None, epoch: float) -> None:
        """Notes the epoch of records without a step."""
        self._epochs[rank] = epoch

    def _begins_again(
        self, step: float | None, rank: str | None, epoch: float | None, *, is_batch: bool
    ) -> bool:
        """Whether the step falls; that of a rank not seen so far, as a restarted worker is, falls below all others.

        The last of several ranks may print its first record when the others have printed a few.
        """
        if step is None:
            return self._is_earlier(epoch, rank)
        if rank in self._last:
            return step < self._last[rank] and not self._is_later(epoch, rank, is_batch=is_batch)
        others = [(last, self._count.get(other, 0)) for other, last in self._last.items()]
        return bool(others) and all(step < last and count > _AHEAD for last, count in others)

    def _counts_to_other(
        self, step: float | None, rank: str | None, epoch: float | None, total: float | None
    ) -> bool:
        """Whether a record of the step of the one before it gives another total."""
        before = self._totals.get(rank)
        is_other = total is not None and before is not None and total != before
        return is_other and step == self._last.get(rank) and not self._is_later(epoch, rank)

    def _is_later(self, epoch: float | None, rank: str | None, *, is_batch: bool = False) -> bool:
        """Whether the epoch rises, or is the first that is named for batches, and no first epoch: `Epoch 13`."""
        before = self._epochs.get(rank)
        if before is None and (self._attempt > 1 or not is_batch):
            return False
        return epoch is not None and epoch > (FIRST_EPOCH if before is None else before)

    def _is_earlier(self, epoch: float | None, rank: str | None) -> bool:
        """Whether the epoch of records without a step falls."""
        before = self._epochs.get(rank)
        return rank not in self._last and epoch is not None and before is not None and epoch < before

    def _next_phase(self) -> None:
        if self._begun:
            self.names.append(self.announced)
        else:
            self.names[-1] = self.announced
        self._next_attempt()
        self.announced, self.last_step, self._attempt = None, None, 1

    def _next_attempt(self) -> None:
        self._attempt += 1
        self._last, self._epochs, self._totals, self._count = {}, {}, {}, {}
        self._last_eval = _NEVER
        self._recorded = False
