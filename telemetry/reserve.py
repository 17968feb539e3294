"""Room on the disk, taken early, in which a file can still be written anew once the disk is full.

It is a hidden file of zeros beside that file, `.NAME.reserve`: the new content is written into it, and it takes the
file's name.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

SIZES = (32 * 1024, 16 * 1024, 8 * 1024)
"""As much as there is room for."""
SPARE_BYTES = 64
"""A few digits more than the file has now."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Reserve:
    """The room reserved for one file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.path = file.with_name(f".{file.name}.reserve")

    def take(self) -> None:
        """Take the room, unless it is taken. Raises OSError if there is none."""
        if self.path.exists():
            return
        for size in SIZES:
            try:
                self.path.write_bytes(bytes(size))
            except OSError:
                self.release()
                if size == SIZES[-1]:
                    raise
            else:
                return

    def is_enough(self) -> bool:
        """Whether the file, with a few digits more, can be written anew."""
        try:
            return self.path.stat().st_size >= self._file.stat().st_size + SPARE_BYTES
        except OSError:
            return False

    def write(self, content: bytes) -> None:
        """Replace the file, then reserve the room that its old content leaves. Raises OSError."""
        with self.path.open("r+b") as room:
            room.write(content)
            room.truncate()
        self.path.replace(self._file)
        with contextlib.suppress(OSError):
            self.take()

    def lend(self) -> None:
        """Give half of the room to other files."""
        with contextlib.suppress(OSError):
            os.truncate(self.path, max(SIZES[-1], self.path.stat().st_size // 2))

    def release(self) -> None:
        """Give the room back."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
