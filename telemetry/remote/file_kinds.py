"""What of a run folder is sent, and how: files that never change, files that grow, files that are replaced.

An object has the name of its file. What grows goes in bundles, `fresh/00000001` and so on, in the folder of its
segment; `sealed.json` is the last object of a segment, and lists its files. A name that is none of these is neither
sent nor brought back.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from gputel.telemetry import own_files, run_folder
from gputel.telemetry.host.columns import TABLES

Kind: TypeAlias = Literal["final", "growing", "replaced", "bundle", "seal"]

SEAL = "sealed.json"
BUNDLES = "fresh"
OUTPUT = "output.log"
HOME = r"(?:(?P<above>.*?)/)??(?P<home>(?:nodes/[0-9]{1,9}/)?(?:segments/[0-9]{1,9}/)?)"
TABLE = "|".join(("gpu", *TABLES))
FOLDER = re.compile(r"[^\x00-\x1f\x7f/.][^\x00-\x1f\x7f/]{0,199}")
"""A folder above a run: nothing hidden, no way upwards."""
WORD = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
LINES = rf"(?:events|process/names|inside/{WORD})"
KINDS: dict[Kind, str] = {
    "final": rf"(?:{TABLE})/{WORD}\.parquet|incidents/{WORD}/{WORD}",
    "growing": rf"output\.(?:idx|log)|(?:{TABLE})/{WORD}\.gtb|{LINES}\.jsonl|inside/{WORD}\.steps",
    "replaced": rf"{re.escape(run_folder.DESCRIPTION)}|facts\.json",
    "bundle": rf"{BUNDLES}/[0-9]{{8}}",
    "seal": re.escape(SEAL),
}
FILE = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in KINDS.items()))
OBJECT = re.compile(f"{HOME}(?P<file>{'|'.join(KINDS.values())})")


class Place(NamedTuple):
    """Where an object belongs: a run below the address (`` for the address itself), a segment of it, a file."""

    run: str
    home: str
    file: str
    kind: Kind

    @property
    def path(self) -> str:
        """The file's path in the run folder."""
        return f"{self.home}{self.file}"


def place(name: str) -> Place | None:
    """What the name of an object says; None for one that is no part of a run."""
    match = OBJECT.fullmatch(name)
    kind = match and kind_of(match["file"])
    folders = match["above"].split("/") if match and match["above"] is not None else ()
    if not match or not kind or not all(map(FOLDER.fullmatch, folders)):
        return None
    return Place(match["above"] or "", match["home"], match["file"], kind)


def kind_of(file: str) -> Kind | None:
    """How a file of a segment is sent; None for one that is not."""
    match = FILE.fullmatch(file)
    return match.lastgroup if match else None  # type: ignore[return-value]


def home(segment: run_folder.Segment, run: Path) -> str:
    """The folder of a segment within its run: `` or `segments/2/`."""
    relative = segment.path.relative_to(run).as_posix()
    return "" if relative == "." else f"{relative}/"


def successors(home: str) -> Iterator[str]:
    """The folder of a segment, and those of the segments after it."""
    node, _, number = home.partition("segments/")
    yield home
    yield from (f"{node}segments/{later}/" for later in itertools.count(int(number.rstrip("/") or 1) + 1))


def bundle(number: int) -> str:
    return f"{BUNDLES}/{number:08d}"


def files(segment: Path, *kinds: Kind) -> list[str]:
    """The files of a segment that are sent in one of these ways, in order of their names."""
    folders = [segment, *(segment / name for name in ("gpu", *TABLES, "inside"))]
    if _is_folder(segment / "incidents"):
        folders += (segment / "incidents").iterdir()
    paths = [path for folder in folders if _is_folder(folder) for path in folder.iterdir()]
    named = sorted((path.relative_to(segment).as_posix(), path) for path in paths)
    return [file for file, path in named if kind_of(file) in kinds and not own_files.is_foreign(path)]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not own_files.is_foreign(path, folder=True)
