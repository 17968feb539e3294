"""Tells a run folder's own files from what its author may have put in their place.

A folder that was sent may hold links to files of its reader, pipes, and devices that never end. None is opened,
neither for reading nor for writing; the rest of the run is.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

FOREIGN = "no file of this folder: a link out of it, a pipe, a device or a folder"
LARGEST = 64 << 20
UNFOLLOWED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags of what is opened for writing: no link is followed, and no pipe is waited for."""


def is_inside(path: Path, root: Path) -> bool:
    """Whether a path is a file or a folder of the resolved folder `root`, after all links."""
    try:
        mode = path.stat().st_mode
    except OSError:  # a link to nothing, or in a circle
        return False
    return (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and path.resolve().is_relative_to(root)


def is_foreign(path: Path, *, folder: bool = False) -> bool:
    """Whether something is there that is no file of its folder, or no `folder`; a link may stay inside of it."""
    is_kind = stat.S_ISDIR if folder else stat.S_ISREG
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            return not is_kind(mode)
        return not (is_kind(path.stat().st_mode) and path.resolve().is_relative_to(path.parent.resolve()))
    except FileNotFoundError:
        return path.is_symlink()
    except OSError:  # links in a circle, or a folder above that may not be searched
        return True


class ForeignFileError(FileNotFoundError):
    """The folder has no such file of its own: something else stands in its place."""


def read_own(path: Path, most: int = LARGEST) -> bytes:
    """The bytes of a folder's own file. Raises OSError, too, where it is so large that memory could run out."""
    if is_foreign(path):
        raise ForeignFileError(errno.ENOENT, FOREIGN, str(path))
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, most) + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", str(path))
    return content
