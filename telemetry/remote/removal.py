"""Removes from this machine what storage holds of an ended run: all, after every byte was read back, or nothing.

Files that are never sent, such as the copy of the source, stay.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gputel.telemetry import recorder_lock, run_folder
from gputel.telemetry.characters import parse_json
from gputel.telemetry.errors import GputelError
from gputel.telemetry.own_files import read_own
from gputel.telemetry.remote import bundles, file_kinds
from gputel.telemetry.remote.storage import Storage

SIGNS = (run_folder.DESCRIPTION, "output.idx")
"""Files by which a folder is known as a segment."""
MOST_NAMED = 3
FACTS = "facts.json"
LOCKS = (run_folder.LOCK, recorder_lock.NAME, run_folder.COMPACT_LOCK)
SENT: tuple[file_kinds.Kind, ...] = ("final", "growing", "replaced")


@dataclass(frozen=True)
class Removed:
    """What was removed, and the files that stay because they are never sent."""

    files: int
    bytes: int
    left: tuple[Path, ...]


def remove(run: Path, storage: Storage, homes: Mapping[Path, str]) -> Removed:
    """Removes a run whose segments lie at `homes` in storage.

    Raises GputelError, and removes nothing, if a byte differs. No recording goes on with the run meanwhile: each
    segment is locked as by its recorder.
    """
    with contextlib.ExitStack() as locks:
        for segment in homes:
            if recorder := recorder_lock.recorder_of(segment):
                raise GputelError(f"{run}", f"is in use by {recorder} again", "nothing was removed")
            locks.callback(os.close, recorder_lock.hold(segment, ", which removes it"))
        return _remove(run, storage, homes)


def _remove(run: Path, storage: Storage, homes: Mapping[Path, str]) -> Removed:
    """Removes the files by which a run is known first.

    The rest of an interrupted removal must be no run, which `sync` would seal with the files that are left.
    """
    differing = [
        f"{segment / file}" for segment, home in homes.items() for file in _differing(segment, home, storage)
    ]
    new = [f"{each.path}" for each in run_folder.open_folder(run).segments if each.path not in homes]
    if differing := new + differing:
        named = ", ".join(differing[:MOST_NAMED]) + (" and others" if len(differing) > MOST_NAMED else "")
        raise GputelError(storage.address, f"does not hold {named} as on this machine", "nothing was removed")
    files = [segment / file for segment in homes for file in file_kinds.files(segment, *SENT)]
    if run not in homes and _is_row(run / FACTS):
        files.append(run / FACTS)
    size = sum(path.stat().st_size for path in files)
    for path in sorted(files, key=lambda path: path.name not in SIGNS):
        path.unlink()
    _remove_empty(run)
    left = tuple(path for path in sorted(run.rglob("*")) if not path.is_dir() and path.name not in LOCKS)
    return Removed(len(files), size, left)


def _is_row(path: Path) -> bool:
    """Whether it is the row of a run of nodes, which is computed from their files and never sent."""
    try:
        return "facts_version" in parse_json(read_own(path))
    except (OSError, ValueError, TypeError):
        return False


def _differing(segment: Path, home: str, storage: Storage) -> Iterator[str]:
    """The files of a segment that storage does not give back as they are."""
    for file in file_kinds.files(segment, "final", "replaced"):
        if storage.find(f"{home}{file}") != (segment / file).read_bytes():
            yield file
    stored = _stored_ends(segment, home, storage)
    for file in file_kinds.files(segment, "growing"):
        if stored.get(file, 0) != (segment / file).stat().st_size:
            yield file


def _stored_ends(segment: Path, home: str, storage: Storage) -> dict[str, int]:
    """How far the bundles hold each growing file without a hole or a byte that differs."""
    ends: dict[str, int] = {}
    number = 1
    while (content := storage.find(f"{home}{file_kinds.bundle(number)}")) is not None:
        for piece in bundles.decode(content):
            end = ends.setdefault(piece.file, 0)
            if piece.offset <= end >= 0:
                is_same = _read(segment / piece.file, piece.offset, len(piece.content)) == piece.content
                ends[piece.file] = max(end, piece.offset + len(piece.content)) if is_same else -1
        number += 1
    return ends


def _read(path: Path, offset: int, size: int) -> bytes | None:
    """A part of a file; None where there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except FileNotFoundError:
        return None


def _remove_empty(folder: Path) -> None:
    """Removes each folder that holds nothing but gputel's own locks, which are hidden files."""
    for inner in [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]:
        _remove_empty(inner)
    files = list(folder.iterdir())
    if all(path.name in LOCKS and path.is_file() for path in files):
        for path in files:
            path.unlink()
        folder.rmdir()
