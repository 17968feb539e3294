"""Tables of a log as files: `<run>.steps.csv`, `<run>.evals.csv`, `<run>.events.csv`, or .parquet of the same.

Only a table that gputel wrote itself is overwritten: it is known by its columns, and no other program writes these.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from gputel.analysis import columns, document
from gputel.analysis.render import whole_file
from gputel.telemetry.errors import GputelError
from gputel.telemetry.file_names import file_names

if TYPE_CHECKING:
    from gputel.analysis.parse.log import Log

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
    yield "events", log.events


def write(logs: list[Log], folder: Path, kind: Kind, *, force: bool) -> list[Path]:
    """One file per table that has rows. A file that somebody else wrote is a GputelError before any is written."""
    plan = list(_plan(logs, folder, kind))
    for path, frame in plan:
        if path.exists() and not force and not _is_ours(path, frame, kind):
            raise GputelError(str(path), "was not written by gputel", "choose another --out, or --force it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, frame in plan:
            _write(path, frame, kind)
    except OSError as error:
        raise GputelError(
            str(folder), f"cannot write here: {error.strerror}", "choose another --out"
        ) from error
    return [path for path, _ in plan]


def _plan(logs: list[Log], folder: Path, kind: Kind) -> Iterator[tuple[Path, pl.DataFrame]]:
    for log, name in zip(logs, file_names([log.name for log in logs]), strict=True):
        for table, frame in tables(log):
            if frame.height:
                yield folder / f"{name}.{table}.{kind}", frame


def _write(path: Path, frame: pl.DataFrame, kind: Kind) -> None:
    with whole_file.replacing(path) as draft:
        if kind == "csv":
            document.timed(frame).write_csv(draft)
        else:
            frame.write_parquet(draft)


def _is_ours(path: Path, frame: pl.DataFrame, kind: Kind) -> bool:
    known = {"phase", "attempt", "line"} & set(frame.columns) or {"kind", "line"} & set(frame.columns)
    try:
        if kind == "csv":
            with path.open(errors="replace") as text:
                found = set(text.readline().strip().split(","))
        else:
            found = set(pl.read_parquet_schema(path))
    except (OSError, pl.exceptions.PolarsError):
        return False
    return (known or set(frame.columns)) <= found
