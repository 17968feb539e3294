"""Which files are stores of other tools: known by their content, never by their names alone.

A store is addressed by a path: a folder of event files, a file, or `FILE#RUN` where a file holds several runs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from gputel.analysis.logs import binary
from gputel.telemetry import run_folder

StoreKind: TypeAlias = Literal[
    "tensorboard", "wandb", "hf-trainer", "csv", "ray-tune", "monitor", "dvclive", "mlflow", "database"
]
LEAST = 24  # bytes of a file that can be a store
LONGEST_ROW = 1 << 20  # bytes of a first row of JSON that are looked at
RUN_MARK = "#"  # before the name of a run in a file that holds several


class Look(NamedTuple):
    """What the first bytes of a file say: which store it is, or which kind of file that is no text."""

    store: StoreKind | None = None
    binary: str | None = None


@dataclass
class FolderStores:
    """The stores of one folder, and the files and folders in it that belong to them."""

    paths: list[Path] = field(default_factory=list)
    claimed: set[Path] = field(default_factory=set)


def kind(path: Path) -> StoreKind | None:
    """Returns which kind of store a path is; None for a run folder, a log, and anything else."""
    if path.is_dir():
        return None if run_folder.is_run(path) else _kind_of_folder(path, _listed(path), set())
    file, run = split(path)
    found = look(file).store
    return found if run is None or found == "database" else None


def split(path: Path) -> tuple[Path, str | None]:
    """Splits `mlflow.db#first` into the file and the run; a file may have such a name itself."""
    if RUN_MARK not in path.name or path.exists():
        return path, None
    name, _, run = path.name.partition(RUN_MARK)
    return path.with_name(name) if name else path, run


def look(path: Path) -> Look:
    """Judges a regular file by its first bytes, which are read once until it changes; opens no other."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            return Look()
        seen = _judged(str(path), facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
    except OSError:
        return Look()  # reading it says why
    if seen.store == "database":
        from gputel.analysis.stores import databases

        return seen if databases.tool(path) else Look(None, seen.binary)
    return seen


@lru_cache(maxsize=1 << 16)
def _judged(path: str, _device: int, _inode: int, _size: int, _changed_ns: int) -> Look:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        start = os.read(handle, binary.LOOK)
        if start.lstrip()[:1] == b"{" and b"\n" not in start:  # the keys of a long row may come last
            start += os.read(handle, LONGEST_ROW)
    finally:
        os.close(handle)
    return Look(_store(start), binary.kind(start))


def _store(start: bytes) -> StoreKind | None:
    """Returns which kind of store a file may be that begins with these bytes."""
    if len(start) < LEAST:
        return None
    if start.startswith(b"SQLite format 3\x00"):
        return "database"
    if start[3:8] == bytes(5) and not start.startswith(binary.GZIP):
        from gputel.analysis.stores.event_files import is_event_file

        return "tensorboard" if is_event_file(start) else None
    if start.startswith(b":W&B"):
        return "wandb"
    if start.lstrip()[:1] == b"{":
        from gputel.analysis.stores.trainer_state import is_trainer_state

        if is_trainer_state(start):
            return "hf-trainer"
        from gputel.analysis.stores.ray_tune import is_results

        return "ray-tune" if is_results(start) else None
    if start.startswith(b"#{"):
        from gputel.analysis.stores.monitor_csv import is_monitor

        return "monitor" if is_monitor(start) else None
    if any(delimiter in start for delimiter in (b",", b"\t", b";")):
        from gputel.analysis.stores.tables import is_table

        return "csv" if is_table(start) else None
    return None


def runs_of_file(path: Path) -> list[Path]:
    """The addresses of the runs in a file; the file itself if it is a store of one run, or none."""
    if look(path).store != "database":
        return [path]
    from gputel.analysis.stores import databases

    names = databases.runs(path)
    if len(names) == 1:
        return [path]
    return [path.with_name(f"{path.name}{RUN_MARK}{name}") for name in names]


def in_folder(folder: Path, entries: Sequence[os.DirEntry[str]], taken: set[Path]) -> FolderStores:
    """Finds what in a folder is one store together; files in `taken` belong to a store that was found before."""
    found = FolderStores()
    which = _kind_of_folder(folder, entries, taken)
    events: list[Path] = []
    if which == "tensorboard":
        from gputel.analysis.stores import tensorboard

        found.paths.append(folder)
        events = [path for some in tensorboard.parts(folder).values() for path in some]
        found.claimed.update(events)
    elif which == "dvclive":
        from gputel.analysis.stores import dvclive

        found.paths.append(folder)
        found.claimed |= {folder / name for name in dvclive.OWN}
    elif which == "mlflow":
        found.paths.append(folder)
        found.claimed |= set(folder.iterdir())
    from gputel.analysis.stores import repeats

    repeated = repeats.beside(
        folder, [entry.name for entry in entries], events, lambda path: look(path).store
    )
    if events and repeated >= set(events):
        found.paths.remove(folder)
    found.claimed |= repeated
    return found


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []


def _kind_of_folder(folder: Path, entries: Sequence[os.DirEntry[str]], taken: set[Path]) -> StoreKind | None:
    if _holds_event_files(entries, taken):
        return "tensorboard"
    if (folder / "plots" / "metrics").is_dir():
        from gputel.analysis.stores import dvclive

        return "dvclive" if dvclive.is_folder(folder) else None
    if (folder / "meta.yaml").is_file():
        from gputel.analysis.stores import mlruns

        return "mlflow" if mlruns.is_folder(folder) else None
    return None


def _holds_event_files(entries: Sequence[os.DirEntry[str]], taken: set[Path]) -> bool:
    """Whether event files lie in a folder, or in a child that is about a part of the data."""
    from gputel.analysis.stores.tags import is_part

    if any(_is_event_file(entry, taken) for entry in entries):
        return True
    children = [Path(entry.path) for entry in entries if is_part(entry.name) and entry.is_dir()]
    return any(_is_event_file(entry, taken) for child in children for entry in _listed(child))


def _is_event_file(entry: os.DirEntry[str], taken: set[Path]) -> bool:
    return entry.is_file() and (path := Path(entry.path)) not in taken and look(path).store == "tensorboard"
