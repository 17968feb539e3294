"""A log that somebody else writes, as a source of output for the keeper: what is new in it is stamped as it comes.

What stood in it before is copied first, unstamped. A log that was rotated or cut is read again from its
beginning.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gputel.telemetry.errors import GputelError
from gputel.telemetry.process import libc
from gputel.telemetry.process.shared_memory import Ledger


class GrowingFile:
    """A file from `ledger.position` on; it ends when `ledger.ended` says so and nothing is left."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self._path, self._ledger = path, ledger
        try:
            self._file = os.open(path, os.O_RDONLY)
            self.before = os.fstat(self._file).st_size
        except OSError as error:
            raise GputelError(
                str(path), f"cannot be read: {error.strerror}", "name a log that is being written"
            ) from None
        self.descriptor = libc.watch(path.parent)

    @property
    def fresh(self) -> bool:
        return self._ledger.position > self.before

    def read(self, room: list[memoryview]) -> int | None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, 65536):
                pass
        over = self._ledger.ended is not None
        count = self._fetch(room)
        if count == 0 and self._turn_over():
            count = self._fetch(room)
        if count:
            return count
        return 0 if over else None

    def descriptors(self) -> set[int]:
        return {self.descriptor, self._file}

    def _fetch(self, room: list[memoryview]) -> int:
        limit = self.before - self._ledger.position
        if limit > 0:
            room = _first(room, limit)
        count = os.preadv(self._file, room, self._ledger.position)
        self._ledger.position += count
        return count

    def _turn_over(self) -> bool:
        """Whether there is another file of this name now, or this one was cut."""
        try:
            now = self._path.stat()
        except OSError:
            return False
        mine = os.fstat(self._file)
        if (now.st_dev, now.st_ino) == (mine.st_dev, mine.st_ino) and now.st_size >= self._ledger.position:
            return False
        fresh = os.open(self._path, os.O_RDONLY)
        os.dup2(fresh, self._file, inheritable=False)
        os.close(fresh)
        self._ledger.position = self.before = 0
        return True


def _first(room: list[memoryview], limit: int) -> list[memoryview]:
    """So many bytes of it."""
    taken = []
    for part in room:
        taken.append(part[:limit])
        limit -= len(taken[-1])
    return [part for part in taken if len(part)]
