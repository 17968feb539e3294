"""A plan as CSV: a row per size."""

from __future__ import annotations

from pathlib import Path

from gputel.analysis.plan import Plan, answer
from gputel.analysis.render import files

STARTS = b"name,fits,depth,"


def write(plan: Plan, out: Path, name: str, *, force: bool) -> Path:
    """Writes `out`, or `NAME.csv` in it if it is a folder; a file that gputel did not write is a GputelError."""
    path = out if out.suffix == ".csv" and not out.is_dir() else out / f"{name}.csv"
    ours = files.begins_with(STARTS)
    return files.write([files.File(path, answer.csv_text(plan).encode(), ours)], force=force)[0]
