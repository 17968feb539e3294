"""The epoch that a line above names for the records below it, for each rank.

A rank that prints such lines goes by its own. The others share the last one, whoever printed it, and begin its
epoch where their count within the epoch begins again: lines of the epoch before may still come.
"""

from __future__ import annotations

from collections.abc import Mapping

Epoch = Mapping[str, float]  # `epoch`, and `epochs` where it was printed


class AnnouncedEpochs:
    """Follows the lines of epochs and the steps of records below them."""

    def __init__(self) -> None:
        self._shared: Epoch = {}
        self._number = 0  # of the line that announced it
        self._heads: set[str | None] = set()  # ranks that announce their epochs themselves
        self._of: dict[str | None, Epoch] = {}
        self._known: dict[str | None, int] = {}  # by rank: the number of the line that its epoch is from
        self._recorded: set[str | None] = set()  # ranks with a record since their epoch began
        self._falls = False  # whether counts begin again with each epoch

    def announce(self, epoch: Epoch, rank: str | None) -> None:
        self._shared = epoch
        self._number += 1
        self._heads = {*self._heads, rank} if rank else set()
        self._take(rank)

    def current(self, rank: str | None) -> Epoch:
        return self._of.get(rank, self._shared)

    def name(self, epoch: float, rank: str | None) -> None:
        """Notes the epoch that a line names itself, for those below it that do not."""
        self._shared = {**self._shared, "epoch": epoch}
        self._of[rank] = {**self.current(rank), "epoch": epoch}
        self._known.setdefault(rank, self._number)

    def leave(self, rank: str | None) -> None:
        """Goes on to the epoch that another rank has announced, else to an unknown one."""
        if self._is_behind(rank):
            self._take(rank)
        else:
            self._of[rank] = {}

    def of_record(
        self, rank: str | None, step: float | None, before: float | None, *, is_index: bool
    ) -> Epoch:
        """The epoch of a record; `before` is the step of the last one of its rank.

        A step that falls leaves the epoch: the line of the next one is missing or still to come, or another run
        begins.
        """
        falls = step is not None and before is not None and step < before
        goes_on = step is not None and before is not None and step > before
        if self._is_behind(rank):
            self._falls = self._falls or falls
            if not (goes_on and (is_index or self._falls)):
                self._take(rank)
        elif falls and rank in self._recorded:
            self._go_on(rank)
        self._recorded.add(rank)
        return self.current(rank)

    def note(self, rank: str | None) -> None:
        """Notes a record that names its epoch itself."""
        self._recorded.add(rank)

    def _go_on(self, rank: str | None) -> None:
        """Leaves the epoch, for the next one where another rank has yet to announce it."""
        epoch = self.current(rank)
        if rank is None or rank in self._heads or "epoch" not in epoch:
            self._shared = {}
            self._number += 1
            self._take(rank)
        else:
            self._of[rank] = {**epoch, "epoch": epoch["epoch"] + 1}
            self._known[rank] = self._number + 1

    def _is_behind(self, rank: str | None) -> bool:
        return rank not in self._heads and self._known.get(rank) != self._number

    def _take(self, rank: str | None) -> None:
        self._of[rank], self._known[rank] = self._shared, self._number
        self._recorded.discard(rank)
