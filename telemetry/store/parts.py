"""Which files of a gpu/ folder hold a recording: `<tier>-<number>.gtb` or `.parquet`, and none of them twice.

A recording is cut into numbered parts, the same number for all tiers. A Parquet file stands for every file of its
tier within its range of numbers: compaction makes the new file first and then removes the old ones, so a crash
between the two, or a reader in that moment, meets both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

NAME = re.compile(r"(?P<tier>.+?)-(?P<first>\d{6,})(?:-(?P<last>\d{6,}))?\.(?P<kind>gtb|parquet)")
SECONDS = "seconds"  # the tier of whole seconds, made by compaction; no tier of rates may be named so


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


def found(folder: Path) -> list[Part]:
    """Every file that bears a part's name, those that another one stands for too."""
    matches = ((path, NAME.fullmatch(path.name)) for path in folder.glob("*-*"))
    return [
        Part(path, match["tier"], int(match["first"]), int(match["last"] or match["first"]))
        for path, match in matches
        if match
    ]


def current(folder: Path) -> list[Part]:
    """The files to read, by number; each tick is in one of them."""
    everything = found(folder)
    stands_for: dict[tuple[str, int], Part] = {}
    for part in sorted(everything, key=lambda part: (part.compacted, part.last - part.first)):
        stands_for.update({(part.tier, number): part for number in range(part.first, part.last + 1)})
    return sorted(set(stands_for.values()), key=lambda part: (part.first, part.last, part.tier))


def superseded(folder: Path) -> list[Part]:
    """The files that a crash left behind: another one stands for them."""
    kept = {part.path for part in current(folder)}
    return [part for part in found(folder) if part.path not in kept]


def next_number(folder: Path) -> int:
    return max((part.last for part in found(folder)), default=0) + 1


def journal_name(tier: str, number: int) -> str:
    return f"{tier}-{number:06d}.gtb"


def compacted_name(tier: str, first: int, last: int) -> str:
    numbers = f"{first:06d}" if first == last else f"{first:06d}-{last:06d}"
    return f"{tier}-{numbers}.parquet"
