"""Which process has a file open for writing: its log belongs to a run that goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
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

    A folder of thousands of logs is looked up in one snapshot of all open files. Whether a handle of it writes is
    asked now; a file that has grown since the snapshot, or whose handles are gone, is looked for anew.
    """
    place = os.path.realpath(path)
    taken, handles = _snapshot(int(time.monotonic() / FEW_S))
    found = _writing(handles.get(place, ()), path)
    outdated = place in handles or changed > taken - TICK_S
    return found or (_writing(_all_open().get(place, ()), path) if outdated else None)


def _writing(handles: Iterable[Path], path: Path) -> Path | None:
    return next((handle for handle in handles if holds(handle, path)), None)


def holds(handle: Path, path: Path) -> bool:
    """Whether the file is still written by this handle."""
    try:
        return str(handle.readlink()) == os.path.realpath(path) and _writes(handle.parents[1], handle.name)
    except OSError:
        return False


@lru_cache(maxsize=1)
def _snapshot(_moment: int) -> tuple[float, dict[str, list[Path]]]:
    return time.time(), _all_open()


def _all_open() -> dict[str, list[Path]]:
    """All files that are open now, each with its handles.

    There are thousands of handles: each is a plain string, which takes half the time of a `Path`, until it is kept.
    """
    found: dict[str, list[Path]] = {}
    for process in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        folder = f"/proc/{process}/fd/"
        with suppress(OSError):
            for number in os.listdir(folder):  # noqa: PTH208
                with suppress(OSError):  # closed since it was listed
                    place = os.readlink(folder + number)  # noqa: PTH115
                    if _is_file(place):
                        found.setdefault(place, []).append(Path(folder + number))
    return found


def _is_file(place: str) -> bool:
    """Whether it is a file, and not a socket, a pipe or a terminal."""
    return place.startswith("/") and not place.startswith("/dev/")


def _writes(process: Path, handle: str) -> bool:
    text = (process / "fdinfo" / handle).read_text()
    flags = next((line.split()[1] for line in text.splitlines() if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
