"""Who has a file open for writing: a log that somebody writes is of a run that goes on."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path

FEW_S = 5
TICK_S = 0.05  # the stamps of files lag behind the clock by up to a tick of the kernel


def has_writer(path: Path, changed: float) -> bool:
    """Whether a process that we may look at has the file open for writing; `changed` is when it last grew.

    A folder of thousands of logs is looked up in one picture of all writers. A yes is made sure of, and so is a no
    about a file that has grown since the picture was taken.
    """
    place = os.path.realpath(path)
    taken, written = _picture(int(time.monotonic() / FEW_S))
    outdated = changed > taken - TICK_S
    return place in _all_written() if outdated or place in written else False


@lru_cache(maxsize=1)
def _picture(_moment: int) -> tuple[float, frozenset[str]]:
    return time.time(), _all_written()


def _all_written() -> frozenset[str]:
    """All files that are open for writing now."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.update(str(h.readlink()) for h in (process / "fd").iterdir() if _writes(process, h.name))
        except OSError:
            continue
    return frozenset(found)


def _writes(process: Path, handle: str) -> bool:
    text = (process / "fdinfo" / handle).read_text()
    flags = next((line.split()[1] for line in text.splitlines() if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
