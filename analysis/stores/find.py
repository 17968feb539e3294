"""Which files are stores of other tools: known by their content, never by their names alone.

A store is addressed by a path: a folder of event files, a file, or `FILE#RUN` where a file holds several runs.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from gputel.telemetry import run_folder

StoreKind: TypeAlias = Literal["tensorboard"]
HEAD = 4096
LEAST = 24  # bytes of a file that can be a store


@dataclass
class FolderStores:
    """The stores of one folder, and the files and folders in it that belong to them."""

    paths: list[Path] = field(default_factory=list)
    claimed: set[Path] = field(default_factory=set)


def kind(path: Path) -> StoreKind | None:
    """Returns which kind of store a path is; None for a run folder, a log, and anything else."""
    if path.is_dir():
        return None if run_folder.is_run(path) else _kind_of_folder(path)
    return kind_of_head(head(path))


def kind_of_head(start: bytes) -> StoreKind | None:
    """Returns which kind of store a file is that begins with these bytes."""
    if start[3:8] == bytes(5) and len(start) >= LEAST:
        from gputel.analysis.stores.event_files import is_event_file

        return "tensorboard" if is_event_file(start) else None
    return None


def head(path: Path) -> bytes:
    """Reads the first bytes of a regular file; nothing of one that cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return b""
        with path.open("rb", buffering=0) as file:
            return file.read(HEAD)
    except OSError:
        return b""


def in_folder(folder: Path, taken: set[Path]) -> FolderStores:
    """Finds the stores of a folder; files in `taken` belong to a store that was found before."""
    found = FolderStores()
    if _kind_of_folder(folder, taken) == "tensorboard":
        from gputel.analysis.stores import tensorboard

        files = {path for some in tensorboard.parts(folder).values() for path in some}
        found.paths.append(folder)
        found.claimed |= files
    return found


def _kind_of_folder(folder: Path, taken: set[Path] | None = None) -> StoreKind | None:
    return "tensorboard" if _holds_event_files(folder, taken or set()) else None


def _holds_event_files(folder: Path, taken: set[Path]) -> bool:
    """Whether event files lie in a folder, or in a child that is about a part of the data."""
    from gputel.analysis.stores.parts import is_part

    try:
        entries = list(os.scandir(folder))
    except OSError:
        return False
    children = [Path(entry.path) for entry in entries if is_part(entry.name) and entry.is_dir()]
    files = [Path(entry.path) for entry in entries if entry.is_file() and not entry.name.startswith(".")]
    if any(path not in taken and kind_of_head(head(path)) == "tensorboard" for path in files):
        return True
    return any(_event_file_in(child, taken) for child in children)


def _event_file_in(folder: Path, taken: set[Path]) -> bool:
    try:
        files = [Path(entry.path) for entry in os.scandir(folder) if entry.is_file()]
    except OSError:
        return False
    return any(path not in taken and kind_of_head(head(path)) == "tensorboard" for path in files)
