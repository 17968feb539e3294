"""Where the bytes of a log that is followed come from: what a file, a pipe and a command have in common."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from gputel.analysis import pieces
from gputel.analysis.live.growing import HEAD, Place, fingerprint


class Source(Protocol):
    """`read` gives what is new, b"" where nothing is, and never waits.

    A file of which an earlier follower has left its place is read again from its beginning.
    """

    trouble: str | None
    is_over: bool
    """Whether nothing will come any more."""

    @property
    def descriptors(self) -> list[int]:
        """What can be waited for; changes of files are told otherwise."""

    @property
    def written(self) -> float | None:
        """When the log was last written to, in seconds since 1970."""

    @property
    def repeats(self) -> int:
        """Bytes ahead that an earlier follower has shown."""

    @property
    def repeated(self) -> bool:
        """Whether the last read gave such bytes."""

    @property
    def position(self) -> int:
        """Bytes that were read, of a file that turns of the present one."""

    @property
    def place(self) -> Place | None:
        """How to find the position again; None where that cannot be."""

    def read(self, most: int) -> bytes: ...

    def close(self) -> None: ...


class Pipe:
    """Standard input, or a FIFO; it is over when nobody has it open for writing any more."""

    def __init__(self, descriptor: int) -> None:
        self.trouble: str | None = None
        self.is_over = False
        self.written: float | None = None
        self.repeats, self.repeated = 0, False
        self.position, self.place = 0, None
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)

    @property
    def descriptors(self) -> list[int]:
        return [] if self.is_over else [self._descriptor]

    def read(self, most: int) -> bytes:
        if self.is_over:
            return b""
        try:
            data = os.read(self._descriptor, most)
        except BlockingIOError:
            return b""
        if data:
            self.written = time.time()
        self.position += len(data)
        self.is_over = not data
        return data

    def close(self) -> None:
        os.set_blocking(self._descriptor, True)


class Packed:
    """A compressed log: nobody adds to one, so it is over when it is read."""

    def __init__(self, path: Path, place: Place | None = None) -> None:
        self.trouble: str | None = None
        self.descriptors: list[int] = []
        self.is_over = False
        self.written = path.stat().st_mtime
        self._file = path.open("rb", buffering=0)
        self._head = os.pread(self._file.fileno(), HEAD, 0)
        self.position = 0  # bytes as they are once unpacked
        is_known = place is not None and place.fingerprint == fingerprint(self._head)
        self.repeats, self.repeated = place.position if place and is_known else 0, False
        self._pieces = pieces.unpacked(self._file)
        self._rest = b""

    @property
    def place(self) -> Place:
        facts = os.fstat(self._file.fileno())
        return Place(facts.st_dev, facts.st_ino, self.position, len(self._head), fingerprint(self._head))

    def read(self, most: int) -> bytes:
        data = b"".join([self._rest, *self._unpacked(most - len(self._rest))])
        data, self._rest = data[:most], data[most:]
        self.is_over = not data
        self.position += len(data)
        self.repeated = bool(data) and self.repeats > 0
        self.repeats = max(self.repeats - len(data), 0)
        return data

    def _unpacked(self, most: int) -> Iterator[bytes]:
        """It comes in small pieces: about as many as were asked for."""
        size = 0
        try:
            while size < most and (piece := next(self._pieces, b"")):
                size += len(piece)
                yield piece
        except (EOFError, OSError) as error:
            self.trouble = f"could be read only in part: {error}"

    def close(self) -> None:
        self._file.close()


def is_packed(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((pieces.GZIP, pieces.ZSTD))
    except OSError:
        return False
