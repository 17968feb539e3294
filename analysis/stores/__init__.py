"""What other tools kept of a run -> Log.

find            which paths are stores
tensorboard     a folder of event files; event_files reads their bytes, event_record one record
wandb           a `.wandb` file; wandb_log reads its framing, wandb_machine what it says of the machine
system_metrics  readings of GPUs that W&B, MLflow and trackio keep
trainer_state   Hugging Face's trainer_state.json
tables          CSV of Lightning, Keras, YOLO, Stable-Baselines3 and Ray Tune
ray_tune        `result.json` of a trial of Ray Tune
monitor_csv     episodes of one environment, as Stable-Baselines3's Monitor writes them
dvclive         a folder of DVCLive
repeats         files of a folder that only repeat a store beside them
databases       SQLite of MLflow and trackio
mlruns          a run in a folder of MLflow
protobuf        fields of protobuf messages; checksums: CRC-32C; plain_yaml: plain settings
tags            what names mean here
points          the values of a run, as every reader hands them over
step_axes       tags of one store that count different things as their step
assemble        the values of a run -> Log
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gputel.analysis.stores.find import StoreKind, in_folder, kind, look, runs_of_file, split
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log
    from gputel.analysis.stores.points import StoredRun

LARGEST = 1 << 30  # bytes of a document that is read at once

__all__ = [
    "StoreReader",
    "in_folder",
    "kind",
    "look",
    "read",
    "runs_of_file",
    "split",
    "store_reader",
    "stored_run",
]


class StoreReader(Protocol):
    """Reads a store and what is added to it; `files` are what it consists of by now."""

    @property
    def files(self) -> list[Path]: ...

    def advance(self) -> bool:
        """Reads what is new; returns whether anything is."""

    def run(self) -> StoredRun:
        """Makes the run of everything that was read so far."""


def read(path: Path) -> Log:
    """Reads the run of a store; raises GputelError if it cannot be opened."""
    from gputel.analysis.stores.assemble import make_log, with_printed_rows

    run = stored_run(path)
    log = make_log(run)
    return with_printed_rows(log, run.printed) if run.printed else log


def stored_run(path: Path) -> StoredRun:
    """Reads the values of a store's run before they become a log."""
    reader = store_reader(path)
    try:
        reader.advance()
        return reader.run()
    except OSError as error:
        fault = f"cannot be read: {error.strerror or error}"
        raise GputelError(str(path), fault, "check the path and its permissions") from None


def store_reader(path: Path) -> StoreReader:
    """Opens a store that may grow; raises GputelError for any other path."""
    which = kind(path)
    if which == "tensorboard":
        from gputel.analysis.stores import tensorboard

        return tensorboard.FolderReader(path)
    if which == "wandb":
        from gputel.analysis.stores import wandb

        return wandb.FileReader(path)
    if which is None:
        raise GputelError(str(path), "is not a store that gputel reads", "see docs/stores.md")
    return WholeReader(path, which)


class WholeReader:
    """Reads one run of a document, table, database or small files; reads all of it again once one changed."""

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
        from gputel.analysis.stores.tensorboard import is_written

        run = READERS[self._which](self.path)
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


def _ray_tune(path: Path) -> StoredRun:
    from gputel.analysis.stores import ray_tune

    return ray_tune.read(path, _data(path))


def _monitor(path: Path) -> StoredRun:
    from gputel.analysis.stores import monitor_csv

    return monitor_csv.read(path, _data(path))


def _dvclive(path: Path) -> StoredRun:
    from gputel.analysis.stores import dvclive

    return dvclive.read(path)


def _mlruns(path: Path) -> StoredRun:
    from gputel.analysis.stores import mlruns

    return mlruns.read(path)


def _database(path: Path) -> StoredRun:
    from gputel.analysis.stores import databases

    return databases.read(*split(path))


READERS: dict[StoreKind, Callable[[Path], StoredRun]] = {
    "hf-trainer": _trainer_state,
    "csv": _table,
    "ray-tune": _ray_tune,
    "monitor": _monitor,
    "dvclive": _dvclive,
    "mlflow": _mlruns,
    "database": _database,
}
