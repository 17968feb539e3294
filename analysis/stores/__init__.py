"""What other tools kept of a run -> Log.

find            which paths are stores
tensorboard     a folder of event files; event_files reads their bytes, event_record one record
wandb           a `.wandb` file; wandb_log reads its framing, wandb_stats its GPU readings
trainer_state   Hugging Face's trainer_state.json
tables          CSV of Lightning, Keras, YOLO and Stable-Baselines3
dvclive         a folder of DVCLive
databases       SQLite of MLflow and trackio
mlruns          a run in a folder of MLflow
whole           stores that are read anew when they change
wire            fields of protobuf messages; checksums: CRC-32C; plain_yaml: plain settings
parts, tags     what names mean here
points          the values of a run, as every reader hands them over
assemble        the values of a run -> Log
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gputel.analysis.stores.find import in_folder, kind, look, runs_of_file, split
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log
    from gputel.analysis.stores.points import StoredRun

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
    from gputel.analysis.stores import assemble

    run = stored_run(path)
    log = assemble.make_log(run)
    if not run.printed:
        return log
    from gputel.analysis.stores.console import with_printed_rows

    return with_printed_rows(log, run.printed)


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
    """Opens a store that may grow; raises GputelError if it is none."""
    which = kind(path)
    if which == "tensorboard":
        from gputel.analysis.stores import tensorboard

        return tensorboard.FolderReader(path)
    if which == "wandb":
        from gputel.analysis.stores import wandb

        return wandb.FileReader(path)
    if which is None:
        raise GputelError(str(path), "is not a store that gputel reads", "see docs/stores.md")
    from gputel.analysis.stores.whole import WholeReader

    return WholeReader(path, which)
