"""A run -> its signature, which changes with the run: by it the index knows what to read again.

A recording that has ended is known by its folder and its description alone, so thousands are checked at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from gputel.analysis import stores
from gputel.analysis.catalogue.facts_file import NAME
from gputel.telemetry import run_folder

ENDED = "ended"  # how the signature of a recording begins that has ended and was never continued


def signature(path: Path) -> str:
    """A value that changes with the run: sizes and times of its files; of its run.json, if the recording ended."""
    name = str(path)
    if os.path.lexists(f"{name}/{NAME}") and _was_not_continued(name) and (ended := ended_signature(name)):
        return ended
    if path.is_dir():
        if run_folder.is_run(path):
            return _of_files(_files_below(name))
        within = stores.store_reader(path).files if stores.kind(path) != "tensorboard" else _event_files(path)
        return _of_files(map(str, within))
    file, _ = stores.split(path)
    return _of_files([str(file), f"{file}-wal"])


def quick(entry: os.DirEntry[str], before: str) -> str | None:
    """The signature of a recording that had ended, or of a file; None of other folders: they need a longer look."""
    if not entry.is_dir():
        return _of_files([entry.path, f"{entry.path}-wal"])
    return ended_signature(entry.path) if before.startswith(ENDED) else None


def after_end(path: Path, now: str) -> str:
    """The signature of a recording that was signed as `now` before its end; the same of one that was continued."""
    if now.startswith(ENDED) or not _was_not_continued(str(path)):
        return now
    return ended_signature(str(path)) or now


def ended_signature(folder: str) -> str | None:
    """The time of the folder, which changes with what is added or replaced in it, and of its description."""
    try:
        facts, description = os.stat(folder), os.stat(f"{folder}/{run_folder.DESCRIPTION}")  # noqa: PTH116
    except OSError:
        return None
    return f"{ENDED} {facts.st_mtime_ns} {description.st_size} {description.st_mtime_ns} {description.st_ino}"


def _was_not_continued(folder: str) -> bool:
    """Whether all of a recording lies in its own folder; segments and nodes may grow later."""
    return not any(os.path.lexists(f"{folder}/{name}") for name in ("segments", "nodes"))


def _files_below(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (f"{place}/{name}" for name in sorted(names))


def _of_files(names: Iterable[str]) -> str:
    """A digest of the sizes and times of all files that are there."""
    facts = []
    for name in names:
        with suppress(OSError):
            status = os.stat(name)  # noqa: PTH116
            facts.append(f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}")
    return f"whole {blake2b(' '.join(facts).encode(), digest_size=12).hexdigest()}"


def _event_files(folder: Path) -> list[Path]:
    from gputel.analysis.stores import tensorboard

    return [path for files in tensorboard.parts(folder).values() for path in files]
