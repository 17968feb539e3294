"""Series of a run -> an offline run of W&B, written by its own library, which `wandb sync` uploads.

Nothing of the exporting machine is written: no statistics, console, code or packages. Everything of a step is one
row, since the summary keeps what was logged last.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gputel.analysis.exports.library import library
from gputel.analysis.exports.series import ExportedRun
from gputel.analysis.stores import find
from gputel.telemetry.errors import GputelError

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
    if not any(find.kind(path) == "wandb" for path in written.glob("*.wandb")):
        fault = "W&B left a file without a record, as it may of two runs in one second"
        raise GputelError(str(written), fault, "export it again")
    for path in earlier:
        if path.resolve() != written.resolve():
            shutil.rmtree(path)
    return written


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
