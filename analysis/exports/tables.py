"""Logs, comparisons and plans -> tables in files: CSV, or Parquet of a log's.

`<run>.steps.csv`, `<run>.evals.csv`, `<run>.events.csv`; `NAME.<table>.csv` for each table of a comparison that has
rows; `NAME.csv` of a plan. Only a table that gputel wrote itself is overwritten: it is known by its columns, and no
other program writes these.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import polars as pl
import polars.selectors as cs

from gputel.analysis import columns, document
from gputel.analysis.render import files
from gputel.telemetry.file_names import file_names
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison
    from gputel.analysis.logs.log import Log
    from gputel.analysis.plan import Plan

TableKind = Literal["csv", "parquet"]
PLAN_STARTS = b"name,fits,depth,"
Table = TypeVar("Table", pl.DataFrame, pl.LazyFrame)
FORMULA = r"^[=+\-@\t\r\n]"
NUMBER = r"^[+-]?(\d[\d,]*\.?\d*|\.\d+)([eE][+-]?\d+)?%?$|^[+-]?(inf|nan)$"


def log_tables(log: Log) -> Iterator[tuple[str, pl.DataFrame]]:
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


def write_logs(logs: list[Log], folder: Path, kind: TableKind, *, force: bool) -> list[Path]:
    """One file per table that has rows; none is written where gputel did not write one that is there."""
    planned = [
        files.File(path, partial(_write_table, frame, kind), partial(_is_our_table, frame, kind))
        for path, frame in _planned(logs, folder, kind)
    ]
    return files.write(planned, force=force)


def _planned(logs: list[Log], folder: Path, kind: TableKind) -> Iterator[tuple[Path, pl.DataFrame]]:
    for log, name in zip(logs, file_names([log.name for log in logs]), strict=True):
        for table, frame in log_tables(log):
            if frame.height:
                yield folder / f"{name}.{table}.{kind}", frame


def _write_table(frame: pl.DataFrame, kind: TableKind, path: Path) -> None:
    if kind == "csv":
        without_formulas(document.timed(frame)).write_csv(path)
    else:
        frame.write_parquet(path)


def _is_our_table(frame: pl.DataFrame, kind: TableKind, path: Path) -> bool:
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


def write_comparison(comparison: Comparison, folder: Path, name: str, *, force: bool) -> list[Path]:
    """Writes all files, or none where gputel did not write one that is there: a GputelError."""
    planned = [
        files.File(folder / f"{name}.{table}.csv", text.encode(), files.begins_with(_first_column(text)))
        for table, text in _comparison_csv(comparison)
    ]
    return files.write(planned, force=force)


def _comparison_csv(comparison: Comparison) -> Iterator[tuple[str, str]]:
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
            yield name, without_formulas(frame).write_csv()


def _wide(comparison: Comparison) -> pl.DataFrame:
    """A row a milestone and a column a run, as people make it by hand; differences unrounded."""
    from gputel.analysis.compare.axes import AXES

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


def write_plan(plan: Plan, out: Path, name: str, *, force: bool) -> Path:
    """Writes `out`, or `NAME.csv` in it if it is a folder; a file that gputel did not write is a GputelError."""
    from gputel.analysis.plan import answer

    path = out if out.suffix == ".csv" and not out.is_dir() else out / f"{name}.csv"
    ours = files.begins_with(PLAN_STARTS)
    return files.write([files.File(path, answer.csv_text(plan).encode(), ours)], force=force)[0]


def without_formulas(table: Table) -> Table:
    """The table with an apostrophe before each text and each name of a column that would be a formula.

    Excel, LibreOffice and Google Sheets take a cell that begins with `=`, `+`, `-` or `@` for a formula, which may
    send what other cells hold or start a program. Numbers stay as they are.
    """
    starts_formula = cs.string().str.contains(FORMULA) & ~cs.string().str.contains(NUMBER)
    quoted = pl.when(starts_formula).then(pl.lit("'") + cs.string()).otherwise(cs.string())
    return table.with_columns(quoted.name.keep()).rename(_no_formula)


def _no_formula(name: str) -> str:
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else name
