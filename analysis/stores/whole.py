"""Stores that are read anew when they change: documents, tables, databases and folders of small files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gputel.analysis.stores.find import StoreKind, split
from gputel.analysis.stores.points import StoredRun
from gputel.analysis.stores.tensorboard import is_written

LARGEST = 1 << 30  # bytes of a document that is read at once


class WholeReader:
    """Reads one run of a store; reads it again once a file of it has changed."""

    def __init__(self, path: Path, which: StoreKind) -> None:
        self.path, self._which = path, which
        self._signature: list[tuple[str, int, int]] | None = None

    @property
    def files(self) -> list[Path]:
        file, _ = split(self.path)
        if self._which == "database":
            return [path for path in (file, Path(f"{file}-wal")) if path.is_file()]
        if self._which == "dvclive":
            from gputel.analysis.stores import dvclive

            return dvclive.list_tables(file)
        if self._which == "mlflow":
            from gputel.analysis.stores import mlruns

            return mlruns.metric_files(file)
        return [file]

    def advance(self) -> bool:
        before = self._signature
        self._signature = [
            (str(path), facts.st_size, facts.st_mtime_ns) for path, facts in _facts(self.files)
        ]
        return self._signature != before

    def run(self) -> StoredRun:
        run = _READERS[self._which](self.path)
        is_live = run.status == "unknown" and is_written(self.files)
        return replace(run, status="running", live=True, cause=None) if is_live else run


def _facts(paths: list[Path]) -> list[tuple[Path, os.stat_result]]:
    return [(path, path.stat()) for path in paths if path.exists()]


def _data(path: Path) -> bytes:
    if path.stat().st_size > LARGEST:
        raise OSError(0, f"it has more than {LARGEST:,} bytes")
    return path.read_bytes()


def _trainer_state(path: Path) -> StoredRun:
    from gputel.analysis.stores import trainer_state

    return trainer_state.read(path, _data(path))


def _table(path: Path) -> StoredRun:
    from gputel.analysis.stores import tables

    return tables.read(path, _data(path))


def _dvclive(path: Path) -> StoredRun:
    from gputel.analysis.stores import dvclive

    return dvclive.read(path)


def _mlruns(path: Path) -> StoredRun:
    from gputel.analysis.stores import mlruns

    return mlruns.read(path)


def _database(path: Path) -> StoredRun:
    from gputel.analysis.stores import databases

    return databases.read(*split(path))


_READERS: dict[StoreKind, Callable[[Path], StoredRun]] = {
    "hf-trainer": _trainer_state,
    "csv": _table,
    "dvclive": _dvclive,
    "mlflow": _mlruns,
    "database": _database,
}
