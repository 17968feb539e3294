"""A comparison as files: `gputel-compare.<table>.csv`, or all its tables in `gputel-compare.md`.

Only what gputel wrote itself is overwritten: a CSV is known by its first columns, Markdown by its first line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.compare.axes import AXES
from gputel.analysis.documents import compare
from gputel.analysis.documents.compare import comparison_tables
from gputel.analysis.render import files

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison

NAME = "gputel-compare"
MARK = "<!-- written by gputel compare -->"


def write(found: Comparison, folder: Path, kind: str, *, force: bool) -> list[Path]:
    """`kind` is `csv`, or `markdown`, which may name its file. A file of somebody else is a GputelError at once."""
    name = f"{NAME}.md"
    if kind == "markdown" and folder.suffix == ".md":
        folder, name = folder.parent, folder.name
    texts = dict(_csv(found)) if kind == "csv" else {name: markdown(found)}
    planned = [
        files.File(folder / name, text.encode(), files.begins_with(_mark(text).encode()))
        for name, text in texts.items()
    ]
    return files.write(planned, force=force)


def markdown(found: Comparison) -> str:
    """Every table with its title; what came from a log is text and never markup."""
    parts = [MARK, f"**{_text(compare.first_line(found))}**"]
    parts += [_text(caution) for caution in compare.cautions(found)]
    for table in comparison_tables(found):
        below = ["---", *["---:"] * (len(table.columns) - 1)]
        rows: list[Sequence[str | None]] = [table.columns, below, *table.rows]
        lines = ["| " + " | ".join(_text(cell) for cell in row) + " |" for row in rows]
        parts += [*([f"### {_text(table.title)}"] if table.title else []), "\n".join(lines)]
    return "\n\n".join([*parts, *(_text(note) for note in compare.notes(found))]) + "\n"


def _text(cell: str | None) -> str:
    told = "-" if cell is None else " ".join(cell.split())
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("*", "\\*"), ("`", "\\`")):
        told = told.replace(sign, written)
    return told


def _csv(found: Comparison) -> Iterator[tuple[str, str]]:
    frames = {
        "milestones": _wide(found),
        "summary": found.summary,
        "validations": found.validations,
        "equal": found.equal,
        "targets": found.targets,
        "settings": found.settings,
        "curves": found.curves,
    }
    for name, frame in frames.items():
        if frame.height:
            yield f"{NAME}.{name}.csv", frame.write_csv()


def _wide(found: Comparison) -> pl.DataFrame:
    """A row a milestone and a column a run, as people make it by hand; differences unrounded."""
    axis = AXES[found.by].column
    told, differences = [], []
    for run in found.runs:
        own = found.milestones.filter(pl.col("run") == run)
        also = pl.col("difference").alias(f"{run} - {found.runs[0]}")
        told.append(own.select(pl.col("x").alias(axis), pl.col("value").alias(run)))
        differences.append(own.select(also))
    places = told[0].select(pl.col(axis).cast(pl.Int64) if found.by == "step" else pl.col(axis))
    values = [frame.drop(axis) for frame in told]
    return pl.concat([places, *values, *differences[1:]], how="horizontal")


def _mark(text: str) -> str:
    """The first line up to the first name of a run, which is always the same."""
    return text.splitlines()[0].partition(",")[0]
