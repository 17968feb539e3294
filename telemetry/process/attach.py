"""Follows a log that another process writes, as a source of output for the keeper; stamps new lines as they come.

Copies the existing content first, without timestamps; lines that come meanwhile are stamped at once. A log that
was rotated or truncated is read from its beginning.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gputel.telemetry.clock import wall_ns
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process import libc
from gputel.telemetry.process.shared_memory import Ledger


class AttachedLog:
    """Reads a file from `ledger.position` on, until `ledger.ended` is set and nothing is left."""

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
        self._stamped = 0

    waits = True

    @property
    def more(self) -> bool:
        return os.fstat(self._file).st_size > self._ledger.position

    def stamps(self, count: int) -> list[tuple[int | None, int]]:
        """Stamps all that the log has grown by, though the copy may be far behind."""
        size, begin = os.fstat(self._file).st_size, self._ledger.position - count
        wall = wall_ns()
        ends: list[tuple[int | None, int]] = []
        if self._stamped < self.before:
            self._stamped = self.before
            ends.append((None, self.before - begin))
        if self._stamped < size:
            self._stamped = size
            ends.append((wall, size - begin))
        return ends

    def read(self, room: list[memoryview]) -> int | None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, 65536):
                pass
        has_ended = self._ledger.ended is not None
        count = self._fetch(room)
        if count == 0 and self._reopen():
            count = self._fetch(room)
        if count:
            return count
        return 0 if has_ended else None

    def descriptors(self) -> set[int]:
        return {self.descriptor, self._file}

    def _fetch(self, room: list[memoryview]) -> int:
        count = os.preadv(self._file, room, self._ledger.position)
        self._ledger.position += count
        return count

    def _reopen(self) -> bool:
        """Start over if the log was rotated or truncated; True if it was."""
        try:
            current = self._path.stat()
        except OSError:
            return False
        opened = os.fstat(self._file)
        same_file = (current.st_dev, current.st_ino) == (opened.st_dev, opened.st_ino)
        if same_file and current.st_size >= self._ledger.position:
            return False
        descriptor = os.open(self._path, os.O_RDONLY)
        os.dup2(descriptor, self._file, inheritable=False)
        os.close(descriptor)
        self._ledger.position = self.before = self._stamped = 0
        return True
