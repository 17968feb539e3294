"""A plan as a file: a CSV with a row per size, or one offline page."""

from __future__ import annotations

from pathlib import Path

from gputel.analysis.planning import answer, sections
from gputel.analysis.planning.plan import Plan
from gputel.analysis.render import whole_file, writing
from gputel.telemetry.errors import GputelError

NAME = "gputel-plan"
STARTS = b"name,fits,depth,"


def write(plan: Plan, kind: str, out: Path, *, force: bool) -> Path:
    """Under `out` if that is a folder; a file that somebody else wrote is a GputelError."""
    if kind == "html":
        (path,) = writing.write(sections.page(plan), ["html"], out, NAME, force=force)
        return path
    path = out if out.suffix == ".csv" and not out.is_dir() else out / f"{NAME}.csv"
    try:
        if path.exists() and not force and not _is_ours(path):
            raise GputelError(str(path), "was not written by gputel", "choose another --out, or --force it")
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file.replacing(path) as draft:
            draft.write_text(answer.csv_text(plan))
    except OSError as error:
        fault = f"cannot write here: {error.strerror}"
        raise GputelError(str(path), fault, "choose another --out") from error
    return path


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(STARTS)) == STARTS
