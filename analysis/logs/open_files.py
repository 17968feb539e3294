"""Which process has a file open for writing: its log belongs to a run that goes on."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

FEW_S = 5
TICK_S = 0.05  # file timestamps lag behind the clock by up to a tick of the kernel


def has_writer(path: Path, changed: float) -> bool:
    """Whether a process that we may inspect has the file open for writing; `changed` is when it last grew."""
    return handle(path, changed) is not None


def handle(path: Path, changed: float) -> Path | None:
    """A handle by which a process writes the file, such as `/proc/812/fd/1`.

    A folder of thousands of logs is looked up in one snapshot of all writers. A hit is checked again, and so is a
    miss if the file has grown since the snapshot.
    """
    place = os.path.realpath(path)
    taken, written = _snapshot(int(time.monotonic() / FEW_S))
    found = written.get(place)
    if found and holds(found, path):
        return found
    outdated = changed > taken - TICK_S
    return _all_written().get(place) if found or outdated else None


def holds(handle: Path, path: Path) -> bool:
    """Whether the file is still written by this handle."""
    try:
        return str(handle.readlink()) == os.path.realpath(path) and _writes(handle.parents[1], handle.name)
    except OSError:
        return False


@lru_cache(maxsize=1)
def _snapshot(_moment: int) -> tuple[float, dict[str, Path]]:
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
    """Whether it is a file, and not a socket, a pipe or a terminal."""
    return place.startswith("/") and not place.startswith("/dev/")


def _writes(process: Path, handle: str) -> bool:
    text = (process / "fdinfo" / handle).read_text()
    flags = next((line.split()[1] for line in text.splitlines() if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
