"""Which files of a gpu/ folder hold a recording: `<tier>-<number>.gtb` or `.parquet`, each tick in one of them.

A recording is cut into parts with the same numbers for all tiers. A Parquet file replaces every file of its tier
in its range of numbers. Compaction creates it before it removes the old ones, so a crash in between, or a reader
at that moment, finds both.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from gputel.telemetry.own_files import is_foreign

NAME = re.compile(
    r"(?P<tier>.+?)-(?P<first>[0-9]{6,12})(?:-(?P<last>[0-9]{6,12}))?\.(?P<kind>gtb|parquet)", re.DOTALL
)
MERGE = 8  # tables of seconds that become one
MERGES = 2  # times: the largest holds 64 parts, ten and a half hours, which must fit into memory
SECONDS = "seconds"  # the tables that compaction makes; no sampled tier may have this name


@dataclass(frozen=True)
class Part:
    """One file: a tier's ticks of the parts `first` to `last`."""

    path: Path
    tier: str
    first: int
    last: int

    @property
    def compacted(self) -> bool:
        return self.path.suffix == ".parquet"


def every_file(folder: Path) -> list[Part]:
    """Every file with a part's name, including those that another file replaces; links may not lead out."""
    if is_foreign(folder, folder=True):
        return []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        return [
            part
            for entry in entries
            if (part := _part(folder / entry.name))
            if entry.is_file(follow_symlinks=False) or not is_foreign(part.path)
        ]
    return []


def _part(path: Path) -> Part | None:
    """The part that a name says; None for other names, such as one of more parts than are ever merged."""
    if not (match := NAME.fullmatch(path.name)):
        return None
    first, last = int(match["first"]), int(match["last"] or match["first"])
    return Part(path, match["tier"], first, last) if 0 <= last - first < MERGE**MERGES else None


def foreign(folder: Path) -> list[Path]:
    """What has a part's name and is no file of the folder."""
    if is_foreign(folder, folder=True):
        return [folder]
    return sorted(path for path in folder.glob("*-*") if _part(path) and is_foreign(path))


def current(folder: Path) -> list[Part]:
    """The files to read, by number; each tick is in exactly one of them."""
    file_of: dict[tuple[str, int], Part] = {}
    for part in sorted(every_file(folder), key=lambda part: (part.compacted, part.last - part.first)):
        file_of.update({(part.tier, number): part for number in range(part.first, part.last + 1)})
    return sorted(set(file_of.values()), key=lambda part: (part.first, part.last, part.tier))


def superseded(folder: Path) -> list[Part]:
    """The files that another file replaces, left behind by a crash."""
    needed = {part.path for part in current(folder)}
    return [part for part in every_file(folder) if part.path not in needed]


def next_number(folder: Path) -> int:
    return max((part.last for part in every_file(folder)), default=0) + 1


def is_newest(part: Part) -> bool:
    """Whether no part of a higher number is beside it: it may still be written."""
    return part.last + 1 >= next_number(part.path.parent)


def journal_name(tier: str, number: int) -> str:
    return f"{tier}-{number:06d}.gtb"


def compacted_name(tier: str, first: int, last: int) -> str:
    numbers = f"{first:06d}" if first == last else f"{first:06d}-{last:06d}"
    return f"{tier}-{numbers}.parquet"
