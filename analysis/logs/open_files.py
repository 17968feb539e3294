"""Who has a file open for writing: a log that somebody writes is of a run that goes on."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

FEW_S = 5
TICK_S = 0.05  # the stamps of files lag behind the clock by up to a tick of the kernel


def has_writer(path: Path, changed: float) -> bool:
    """Whether a process that we may look at has the file open for writing; `changed` is when it last grew."""
    return handle(path, changed) is not None


def handle(path: Path, changed: float) -> Path | None:
    """`/proc/812/fd/1`: one by which a process writes the file.

    A folder of thousands of logs is looked up in one picture of all writers. A yes is made sure of, and so is a no
    about a file that has grown since the picture was taken.
    """
    place = os.path.realpath(path)
    taken, written = _picture(int(time.monotonic() / FEW_S))
    found = written.get(place)
    if found and holds(found, path):
        return found
    outdated = changed > taken - TICK_S
    return _all_written().get(place) if found or outdated else None


def holds(handle: Path, path: Path) -> bool:
    """Whether it still is one by which the file is written."""
    try:
        return str(handle.readlink()) == os.path.realpath(path) and _writes(handle.parents[1], handle.name)
    except OSError:
        return False


@lru_cache(maxsize=1)
def _picture(_moment: int) -> tuple[float, dict[str, Path]]:
    return time.time(), _all_written()


def _all_written() -> dict[str, Path]:
    """All files that are open for writing now, each with a handle."""
    found: dict[str, Path] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for handle in (process / "fd").iterdir():
                with suppress(OSError):  # closed since it was listed
                    place = str(handle.readlink())
                    if _is_file(place) and _writes(process, handle.name):
                        found[place] = handle
    return found


def _is_file(place: str) -> bool:
    """And no socket, pipe or terminal."""
    return place.startswith("/") and not place.startswith("/dev/")


def _writes(process: Path, handle: str) -> bool:
    text = (process / "fdinfo" / handle).read_text()
    flags = next((line.split()[1] for line in text.splitlines() if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
