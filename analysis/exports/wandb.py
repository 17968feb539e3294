"""Series of a run -> an offline run of W&B, written by its own library, which `wandb sync` uploads.

Nothing of the exporting machine is written: no statistics, console, code or packages. Everything of a step is one
row, since the summary keeps what was logged last.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gputel.analysis.exports.series import ExportedRun, library
from gputel.analysis.stores.wandb import FileReader
from gputel.telemetry.errors import GputelError

LONGEST_WRITE_S, LOOK_EVERY_S = 30.0, 0.05
AXES = {"step": "train/step", "second": "gpu/second"}
OFF: dict[str, Any] = {
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "host": "",
    "quiet": True,
    "save_code": False,
    "silent": True,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}


def write(run: ExportedRun, folder: Path) -> Path:
    """Writes `folder/wandb/offline-run-TIME-ID`, and removes the one of an earlier export of the same run."""
    wandb = library("wandb")
    name = f"gputel{run.key}"
    folder.mkdir(parents=True, exist_ok=True)
    earlier = [path for path in (folder / "wandb").glob(f"offline-run-*-{name}*") if not path.is_symlink()]
    known = {option: value for option, value in OFF.items() if option in wandb.Settings.model_fields}
    started = wandb.init(
        mode="offline",
        dir=str(folder),
        project="gputel",
        id=name,
        name=run.name,
        config=dict(run.settings),
        settings=wandb.Settings(**known),
        reinit="finish_previous",
    )
    for series in run.series:
        started.define_metric(series.tag, step_metric=AXES[series.axis])
    for row in _rows(run):
        started.log(row)
    written = Path(started.dir).parent
    started.finish(exit_code=run.exit_code or 0)
    if not _is_whole(written):
        fault = f"W&B has not written the end of the run within {LONGEST_WRITE_S:.0f} s"
        raise GputelError(str(written), fault, "export it again")
    for path in earlier:
        if path.resolve() != written.resolve():
            shutil.rmtree(path)
    return written


def _is_whole(folder: Path) -> bool:
    """Waits for the record of the end: W&B's writer is a process of its own, and `finish` does not wait for it."""
    deadline = time.monotonic() + LONGEST_WRITE_S
    readers: dict[Path, FileReader] = {}
    while time.monotonic() < deadline:
        for path in folder.glob("*.wandb"):
            reader = readers.setdefault(path, FileReader(path))
            reader.advance()
            if reader.has_end:
                return True
        time.sleep(LOOK_EVERY_S)
    return False


def _rows(run: ExportedRun) -> Iterator[dict[str, float]]:
    """One row a step, then one a second, each with all that is known of it."""
    rows: dict[tuple[str, int], dict[str, float]] = {}
    for series in run.series:
        axis = AXES[series.axis]
        for step, moment, value in zip(
            series.steps.tolist(), series.times.tolist(), series.values.tolist(), strict=True
        ):
            row = rows.setdefault((axis, step), {axis: step})
            row[series.tag] = value
            if not math.isnan(moment):
                row["_timestamp"] = max(moment, row.get("_timestamp", moment))
    for _, row in sorted(rows.items(), key=lambda item: (item[0][0] != AXES["step"], item[0][1])):
        yield row
