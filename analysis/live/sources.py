"""Sources of a followed log's bytes: what all of them have in common, a pipe, and a compressed file.

A growing file is in `files.py`, a command in `commands.py`, a recording's output in `run_folder.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from gputel.analysis.live.files import HEAD, FilePosition, fingerprint
from gputel.analysis.logs import binary, files


class LiveSource(Protocol):
    """Returns new bytes from `read`, b"" if there are none, without ever blocking.

    A file with a saved position is read again from its beginning, so that line numbers and attempts are right.
    """

    trouble: str | None
    is_over: bool
    """Whether no more bytes will ever come."""

    @property
    def descriptors(self) -> list[int]:
        """Descriptors to wait for; files have none, because `Wakeups` watches their folders."""

    @property
    def written(self) -> float | None:
        """Time of the last write, in seconds since 1970."""

    @property
    def repeats(self) -> int:
        """Number of bytes ahead that an earlier follower has already shown."""

    @property
    def repeated(self) -> bool:
        """Whether the last read returned bytes that were already shown."""

    @property
    def position(self) -> int:
        """Bytes read so far; of a rotated log, bytes of the current file."""

    @property
    def place(self) -> FilePosition | None:
        """How to find the position again, or None if that is impossible."""

    def read(self, most: int) -> bytes: ...

    def close(self) -> None: ...


class PipeSource:
    """Standard input or a FIFO. It is over when no process has it open for writing."""

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


class CompressedFile:
    """A gzip or zstd log. Such a file does not grow, so it is over once it has been read."""

    def __init__(self, path: Path, place: FilePosition | None = None) -> None:
        self.trouble: str | None = None
        self.descriptors: list[int] = []
        self.is_over = False
        self.written = path.stat().st_mtime
        self._file = path.open("rb", buffering=0)
        self._head = os.pread(self._file.fileno(), HEAD, 0)
        self.position = 0  # in decompressed bytes
        is_same = place is not None and place.fingerprint == fingerprint(self._head)
        self.repeats, self.repeated = place.position if place and is_same else 0, False
        self._pieces = files.unpacked(self._file)
        self._rest = b""

    @property
    def place(self) -> FilePosition:
        facts = os.fstat(self._file.fileno())
        return FilePosition(
            facts.st_dev, facts.st_ino, self.position, len(self._head), fingerprint(self._head)
        )

    def read(self, most: int) -> bytes:
        data = b"".join([self._rest, *self._decompressed(most - len(self._rest))])
        data, self._rest = data[:most], data[most:]
        self.is_over = not data
        self.position += len(data)
        self.repeated = bool(data) and self.repeats > 0
        self.repeats = max(self.repeats - len(data), 0)
        return data

    def _decompressed(self, most: int) -> Iterator[bytes]:
        """Yields small pieces until they come to about `most` bytes."""
        size = 0
        try:
            while size < most and (piece := next(self._pieces, b"")):
                size += len(piece)
                yield piece
        except (EOFError, OSError) as error:
            self.trouble = f"only part of it could be read: {error}"

    def close(self) -> None:
        self._file.close()


def is_compressed(path: Path) -> bool:
    """Whether a file begins as gzip or zstd does; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((binary.GZIP, binary.ZSTD))
    except OSError:
        return False
