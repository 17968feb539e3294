"""Which files of a gpu/ folder hold a recording: `<tier>-<number>.gtb` or `.parquet`, each tick in one of them.

A recording is cut into parts with the same numbers for all tiers. A Parquet file replaces every file of its tier
in its range of numbers. Compaction creates it before it removes the old ones, so a crash in between, or a reader
at that moment, finds both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

NAME = re.compile(r"(?P<tier>.+?)-(?P<first>\d{6,})(?:-(?P<last>\d{6,}))?\.(?P<kind>gtb|parquet)")
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
    """Every file with a part's name, including those that another file replaces."""
    matches = ((path, NAME.fullmatch(path.name)) for path in folder.glob("*-*"))
    return [
        Part(path, match["tier"], int(match["first"]), int(match["last"] or match["first"]))
        for path, match in matches
        if match
    ]


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


def journal_name(tier: str, number: int) -> str:
    return f"{tier}-{number:06d}.gtb"


def compacted_name(tier: str, first: int, last: int) -> str:
    numbers = f"{first:06d}" if first == last else f"{first:06d}-{last:06d}"
    return f"{tier}-{numbers}.parquet"
