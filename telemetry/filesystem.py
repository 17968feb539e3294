"""The kind of filesystem a path is on, found by its longest mount point."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")


def kind(path: Path, mounts: Path = MOUNTS) -> str | None:
    """`ext4`, `nfs4`, `overlay`; None where the system does not list its mounts."""
    real_path = os.path.realpath(path)
    longest, filesystem = "", None
    for point, name in _mounts(mounts):
        inside = real_path == point or real_path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(longest):
            longest, filesystem = point, name
    return filesystem


def _mounts(mounts: Path) -> list[tuple[str, str]]:
    try:
        return list(_parsed(mounts.read_text()))
    except OSError:
        return []


@lru_cache(maxsize=4)
def _parsed(text: str) -> tuple[tuple[str, str], ...]:
    """(mount point, kind) in mount order; a later mount hides an earlier one at the same point."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 4 and after:
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
            mounts.append((point, after.split()[0]))
    return tuple(mounts)
