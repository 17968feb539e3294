"""Where the bytes of a log that is followed come from: what a file, a pipe and a command have in common."""

from __future__ import annotations

import os
import time
from typing import Protocol


class Source(Protocol):
    """`read` gives what is new, b"" where nothing is, and never waits."""

    trouble: str | None
    is_over: bool
    """Whether nothing will come any more."""

    @property
    def descriptors(self) -> list[int]:
        """What can be waited for; changes of files are told otherwise."""

    @property
    def written(self) -> float | None:
        """When the log was last written to, in seconds since 1970."""

    def read(self, most: int) -> bytes: ...

    def close(self) -> None: ...


class Pipe:
    """Standard input, or a FIFO; it is over when nobody has it open for writing any more."""

    def __init__(self, descriptor: int) -> None:
        self.trouble: str | None = None
        self.is_over = False
        self.written: float | None = None
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
        self.is_over = not data
        return data

    def close(self) -> None:
        os.set_blocking(self._descriptor, True)
