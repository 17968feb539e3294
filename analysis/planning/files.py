"""A plan as a file: a CSV with a row per size, or one offline page."""

from __future__ import annotations

from pathlib import Path

from gputel.analysis.planning import answer
from gputel.analysis.planning.plan import Plan
from gputel.telemetry.errors import GputelError

NAME = "gputel-plan"
CSV_STARTS = b"name,fits,depth,"


def write(plan: Plan, kind: str, out: Path, *, force: bool) -> Path:
    """Under `out` if that is a folder; a file that somebody else wrote is a GputelError."""
    path = out if out.suffix == f".{kind}" else out / f"{NAME}.{kind}"
    content = answer.csv_text(plan).encode() if kind == "csv" else _page(plan)
    try:
        if path.exists() and not force and not _is_ours(path):
            raise GputelError(str(path), "was not written by gputel", "choose another --out, or --force it")
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.part")
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        raise GputelError(
            str(path), f"cannot write here: {error.strerror}", "choose another --out"
        ) from error
    return path


def _is_ours(path: Path) -> bool:
    from gputel.analysis.render import page

    with path.open("rb") as file:
        start = file.read(4000)
    return start.startswith(CSV_STARTS) or page.GENERATOR.encode() in start


def _page(plan: Plan) -> bytes:
    from gputel.analysis.planning import sections
    from gputel.analysis.render import page

    return page.html(sections.page(plan))
