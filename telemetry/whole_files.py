"""Files that appear whole under their name: each is drafted beside its place, then renamed into it.

A kill or a full disk at any moment leaves the old file or the new one; of two writers at once one wins. A kill may
leave a hidden draft behind, `.NAME.1f0c9a7e.part`. A file that must still be written on a full disk has a reserve:
room taken early, a hidden file of zeros `.NAME.reserve`, which gets the new content and takes the file's name.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

Content: TypeAlias = "bytes | Callable[[Path], object]"  # a function writes the path that it is given
RESERVE_SIZES = (32 * 1024, 16 * 1024, 8 * 1024)
"""Tried in turn: as much as there is room for."""
SPARE_BYTES = 64
"""A few digits more than the file has now."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MOST_LETTERS = 60  # letters of the name that a draft's name repeats, as names have at most 255 bytes


def write_whole(path: Path, content: Content, *, fsync: bool = False) -> None:
    """Replaces the file, or a link in its place. Raises OSError, which leaves everything as it was.

    With `fsync` a power failure leaves the new file, too.
    """
    with draft(path) as part:
        if callable(content):
            content(part)
        else:
            part.write_bytes(content)
        if fsync:
            _sync(part, os.O_RDONLY)
        part.replace(path)
        if fsync:
            _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    """Has the kernel write a file, or the names in a folder, to the disk."""
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def draft(path: Path) -> Iterator[Path]:
    """An empty file of this writer's own beside `path`, with the rights of any new file; removed unless renamed."""
    part = path.with_name(f".{path.name[:MOST_LETTERS]}.{os.urandom(4).hex()}.part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


class Reserve:
    """The room reserved for one file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.path = file.with_name(f".{file.name}.reserve")

    def take(self) -> None:
        """Take the room, unless it is taken. Raises OSError if there is none."""
        if self.path.exists():
            return
        for size in RESERVE_SIZES:
            try:
                self.path.write_bytes(bytes(size))
            except OSError:
                self.release()
                if size == RESERVE_SIZES[-1]:
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
            os.truncate(self.path, max(RESERVE_SIZES[-1], self.path.stat().st_size // 2))

    def release(self) -> None:
        """Give the room back."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
