"""A store that grows, followed as a log is: what other tools write of a run becomes rows as they write it.

A store is written in pieces, TensorBoard's every two minutes, so it may be silent for long while the run goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gputel.analysis import stores
from gputel.analysis.live.resume import Positions
from gputel.analysis.live.runs import Followed
from gputel.analysis.live.update import Update
from gputel.analysis.live.whole_logs import SHARE, HandedOut, WholeLog
from gputel.analysis.stores.assemble import make_log

SILENT_S = 300.0  # a store may always be silent for as long
GAPS = 3  # and for so many times the longest silence that it was seen to end


class FollowedStore(Followed):
    """A folder of event files, or another tool's file; once it is read, it has the name that the store gives it."""

    def __init__(
        self, path: Path, positions: Positions | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        name = stores.split(path)[1] or (path.resolve().name if path.is_dir() else path.stem)
        super().__init__(name, str(path), positions, None)
        self._reader = stores.store_reader(path)
        self._rows = HandedOut()
        self._now = now
        self._begun = self._is_pending = False
        self._due = float("-inf")
        self._grown, self._longest_gap = now(), 0.0
        self.paths = [path]

    @property
    def is_awaited(self) -> bool:
        """Whether the store has been silent for longer than the pauses between its writes explain."""
        allowed = max(SILENT_S, GAPS * self._longest_gap)
        return super().is_awaited and self.state.has_grown and self._now() - self._grown > allowed

    def read(self) -> Iterator[Update]:
        grown = self._advance()
        now = self._now()
        if not (grown or self._is_pending):
            return
        if grown and self._begun:
            self._longest_gap = max(self._longest_gap, now - self._grown)
        self._grown = now if grown else self._grown
        self._is_pending = now < self._due
        if self._is_pending:
            return
        run = self._reader.run()
        if not self._begun:
            self.name = self.state.name = run.name
        log = make_log(run)
        self._due = self._now() + SHARE * (self._now() - now)
        live, self._begun = self._begun, True
        increment = self._rows.difference(log)
        yield Update(
            self.name,
            self.source,
            increment=increment,
            log=WholeLog(log),
            written=self._written(),
            live=live,
        )

    def _advance(self) -> bool:
        try:
            return self._reader.advance()
        except OSError:
            return False  # it vanished, or cannot be read for now

    def _written(self) -> float | None:
        times = [path.stat().st_mtime for path in self._reader.files if path.exists()]
        return max(times, default=None)
