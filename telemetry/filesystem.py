"""Which kind of filesystem a path is on, by the longest mount that holds it."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")


def kind(path: Path, mounts: Path = MOUNTS) -> str | None:
    """`ext4`, `nfs4`, `overlay`; None where the system does not say."""
    place = os.path.realpath(path)
    best, found = "", None
    for point, name in _mounts(mounts):
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, found = point, name
    return found


def _mounts(mounts: Path) -> list[tuple[str, str]]:
    try:
        return list(_parsed(mounts.read_text()))
    except OSError:
        return []


@lru_cache(maxsize=4)
def _parsed(text: str) -> tuple[tuple[str, str], ...]:
    """(mount point, kind) in the order of the mounts; a later one lies over an earlier one."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 4 and after:
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
            found.append((point, after.split()[0]))
    return tuple(found)
