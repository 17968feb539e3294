"""A small file of the kernel, kept open and read from its start each time.

`pread` of an open descriptor costs a quarter of open, read and close. A file that is missing or refused is null,
and is tried again a minute later, since a disk or a limit may appear.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

TRY_AGAIN_S = 60.0
SMALL = 64 * 1024
LARGEST = 8 * 1024 * 1024


class KernelFile:
    """`read` returns the bytes, or None while the file cannot be read; `fault` then says why."""

    __slots__ = ("_descriptor", "_path", "_retry_at", "_size", "fault")

    def __init__(self, path: Path, size: int = SMALL) -> None:
        self._path, self._size = path, size
        self._descriptor = -1
        self._retry_at = 0.0
        self.fault: int | None = None

    def read(self) -> bytes | None:
        if self._descriptor < 0 and not self._open():
            return None
        try:
            data = os.pread(self._descriptor, self._size, 0)
            while len(data) == self._size and self._size < LARGEST:
                self._size *= 2
                data = os.pread(self._descriptor, self._size, 0)
        except OSError as error:
            self._fail(error)
            return None
        return data

    def why(self) -> str | None:
        """Why the last read gave nothing, with the file's path; None if it did."""
        return None if self.fault is None else f"{self._path}: {os.strerror(self.fault).lower()}"

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> bool:
        if self.fault is not None and time.monotonic() < self._retry_at:
            return False
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            self._fail(error)
            return False
        self.fault = None
        return True

    def _fail(self, error: OSError) -> None:
        self.fault = error.errno or errno.EIO
        self._retry_at = time.monotonic() + TRY_AGAIN_S
        self.close()
