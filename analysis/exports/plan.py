"""A plan as a file: a CSV with a row per size, or one offline page."""

from __future__ import annotations

from pathlib import Path

from gputel.analysis.documents.plan import plan_document
from gputel.analysis.plan import Plan, answer
from gputel.analysis.render import files

NAME = "gputel-plan"
STARTS = b"name,fits,depth,"


def write(plan: Plan, kind: str, out: Path, *, force: bool) -> Path:
    """Under `out` if that is a folder; a file that somebody else wrote is a GputelError."""
    if kind == "html":
        (path,) = files.write_page(plan_document(plan), ["html"], out, NAME, force=force)
        return path
    path = out if out.suffix == ".csv" and not out.is_dir() else out / f"{NAME}.csv"
    ours = files.begins_with(STARTS)
    return files.write([files.File(path, answer.csv_text(plan).encode(), ours)], force=force)[0]
