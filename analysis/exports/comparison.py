"""A comparison as CSV: `NAME.<table>.csv`, a file for each of its tables that has rows.

Only what gputel wrote itself is overwritten: a CSV is known by its first column.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.compare.axes import AXES
from gputel.analysis.exports import cells
from gputel.analysis.render import files

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison


def write(comparison: Comparison, folder: Path, name: str, *, force: bool) -> list[Path]:
    """Writes all files, or none where gputel did not write one that is there: a GputelError."""
    planned = [
        files.File(folder / f"{name}.{table}.csv", text.encode(), files.begins_with(_first_column(text)))
        for table, text in _csv(comparison)
    ]
    return files.write(planned, force=force)


def _csv(comparison: Comparison) -> Iterator[tuple[str, str]]:
    frames = {
        "milestones": _wide(comparison),
        "summary": comparison.summary,
        "validations": comparison.validations,
        "equal": comparison.equal,
        "targets": comparison.targets,
        "settings": comparison.settings,
        "curves": comparison.curves,
    }
    for name, frame in frames.items():
        if frame.height:
            yield name, cells.safe(frame).write_csv()


def _wide(comparison: Comparison) -> pl.DataFrame:
    """A row a milestone and a column a run, as people make it by hand; differences unrounded."""
    axis = AXES[comparison.by].column
    values, differences = [], []
    for run in comparison.runs:
        own = comparison.milestones.filter(pl.col("run") == run)
        also = pl.col("difference").alias(f"{run} - {comparison.runs[0]}")
        values.append(own.select(pl.col("x").alias(axis), pl.col("value").alias(run)))
        differences.append(own.select(also))
    places = values[0].select(pl.col(axis).cast(pl.Int64) if comparison.by == "step" else pl.col(axis))
    alone = [frame.drop(axis) for frame in values]
    return pl.concat([places, *alone, *differences[1:]], how="horizontal")


def _first_column(text: str) -> bytes:
    """Names of runs follow it, which another call may change."""
    return text.splitlines()[0].partition(",")[0].encode()
