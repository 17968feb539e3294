"""Turns text from a log or a run.json into file names, so that data never becomes a path; finds and orders paths.

Keeps letters of any script, digits and `._-`, and replaces everything between them by one `-`. A name neither
begins nor ends with a dot or a dash, and is at most 100 bytes long, which leaves room for a suffix.
"""

from __future__ import annotations

import glob
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path

from gputel.telemetry.secrets import mask

MOST = 100  # bytes


def file_name(text: str, otherwise: str = "run") -> str:
    """A file name for the text; `otherwise` if no character of it can be kept."""
    words = "".join(letter if letter.isalnum() or letter in "._-" else " " for letter in text).split()
    return _cut("-".join(words).strip("-."), MOST) or otherwise


def file_names(texts: Sequence[str], otherwise: str = "run") -> list[str]:
    """A file name for each text, all distinct even on a case-insensitive filesystem: `a`, `A-2`."""
    names: list[str] = []
    taken: set[str] = set()
    for text in texts:
        name = plain = file_name(text, otherwise)
        number = 2
        while name.casefold() in taken:
            name = f"{_cut(plain, MOST - len(str(number)) - 1)}-{number}"
            number += 1
        names.append(name)
        taken.add(name.casefold())
    return names


def natural_order(path: str | PathLike[str]) -> list[tuple[str, int, str]]:
    """A key that sorts paths folder by folder, with numbers by their value: `run2` before `run10`."""
    parts = re.findall(r"(\D*)(\d*)", fspath(path).replace("/", "\0"), re.ASCII)
    return [(letters, int(digits or -1), digits) for letters, digits in parts]


def matches(word: str | PathLike[str]) -> list[Path]:
    """The path if it exists, else the paths that match it as a glob, in natural order; `**` means any folders."""
    path, pattern = Path(word), fspath(word)
    if path.exists():
        return [path]
    found = glob.glob(pattern, recursive=True) if glob.has_magic(pattern) else []
    return [Path(each) for each in sorted(found, key=natural_order)]


def _cut(name: str, most: int) -> str:
    return name.encode("utf-8", "ignore")[:most].decode("utf-8", "ignore").rstrip("-.")


def unique_names(names: Sequence[str], places: Sequence[Path]) -> list[str]:
    """The names of runs, with as much of the folders above as distinguishes those of one name, else a number."""
    counts = Counter(names)
    ends = _unique_ends({i: _parts(places[i], names[i]) for i in range(len(names)) if counts[names[i]] > 1})
    taken: Counter[str] = Counter()
    unique = []
    for i, own in enumerate(names):
        name = ends.get(i, own)
        taken[name] += 1
        unique.append(name if taken[name] == 1 else f"{name} ({taken[name]})")
    return unique


def _unique_ends(paths: Mapping[int, tuple[str, ...]]) -> dict[int, str]:
    """The shortest unique ends of paths; identical paths have none."""
    ends: dict[int, str] = {}
    for deep in range(1, max(map(len, paths.values()), default=0)):
        counts = Counter(path[-deep:] for path in paths.values())
        ends |= {i: "/".join(p[-deep:]) for i, p in paths.items() if i not in ends and counts[p[-deep:]] == 1}
    return ends


def _parts(place: Path, name: str) -> tuple[str, ...]:
    """The parts of a path by which a run is called: a folder's own, of a file those of its folder and the name.

    The name stands after a folder that looks like a secret, as the ids of MLflow do: alone it would be masked.
    """
    if place.is_dir():
        return place.parts if mask(place.name) == place.name else (*place.parts, name)
    above = place.parent
    return above.parts if above.name == name else (*above.parts, name)
