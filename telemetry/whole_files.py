"""Files that appear whole under their name: each is drafted beside its place, then renamed into it.

A kill or a full disk at any moment leaves the old file or the new one; of two writers at once one wins. A kill may
leave a hidden draft behind, `.NAME.1f0c9a7e.part`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

Content: TypeAlias = "bytes | Callable[[Path], object]"  # a function writes the path that it is given
MOST = 60  # letters of the name that a draft's name repeats, as names have at most 255 bytes


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
    part = path.with_name(f".{path.name[:MOST]}.{os.urandom(4).hex()}.part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)
