"""Tables of a log as files: `<run>.steps.csv`, `<run>.evals.csv`, `<run>.events.csv`, or .parquet of the same.

Only a table that gputel wrote itself is overwritten: it is known by its columns, and no other program writes these.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from gputel.analysis import columns, document
from gputel.analysis.exports import cells
from gputel.analysis.render import files
from gputel.telemetry.file_names import file_names
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log

Kind = Literal["csv", "parquet"]


def tables(log: Log) -> Iterator[tuple[str, pl.DataFrame]]:
    """The first users' columns stand first, so that their scripts go on working."""
    if log.telemetry is not None:
        yield "gpu", log.telemetry.rows
        return
    frame = log.records
    first = [
        pl.col(n) if n in frame.columns else pl.lit(None, pl.Float64).alias(n) for n in columns.FIRST_USERS
    ]
    yield "steps", frame.select(*first, pl.exclude(*columns.FIRST_USERS))
    yield "evals", log.evals
    yield (
        "events",
        log.events.with_columns(
            pl.Series("text", [words and mask(words) for words in log.events["text"]], pl.String)
        ),
    )


def write(logs: list[Log], folder: Path, kind: Kind, *, force: bool) -> list[Path]:
    """One file per table that has rows; none is written where gputel did not write one that is there."""
    planned = [
        files.File(path, partial(_write, frame, kind), partial(_is_ours, frame, kind))
        for path, frame in _plan(logs, folder, kind)
    ]
    return files.write(planned, force=force)


def _plan(logs: list[Log], folder: Path, kind: Kind) -> Iterator[tuple[Path, pl.DataFrame]]:
    for log, name in zip(logs, file_names([log.name for log in logs]), strict=True):
        for table, frame in tables(log):
            if frame.height:
                yield folder / f"{name}.{table}.{kind}", frame


def _write(frame: pl.DataFrame, kind: Kind, path: Path) -> None:
    if kind == "csv":
        cells.safe(document.timed(frame)).write_csv(path)
    else:
        frame.write_parquet(path)


def _is_ours(frame: pl.DataFrame, kind: Kind, path: Path) -> bool:
    known = {"phase", "attempt", "line"} & set(frame.columns) or {"kind", "line"} & set(frame.columns)
    try:
        if kind == "csv":
            with path.open(errors="replace") as text:
                names = set(text.readline().strip().split(","))
        else:
            names = set(pl.read_parquet_schema(path))
    except (OSError, pl.exceptions.PolarsError):
        return False
    return (known or set(frame.columns)) <= names
