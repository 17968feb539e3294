"""Many run folders -> one lazy table of their ticks or whole seconds, with the declared columns.

The recordings may have different numbers and kinds of GPUs: every declared reading is a column, null where a GPU
lacks it. One part of one recording is in memory at a time, and only the columns that are asked for are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.file_names import matches
from gputel.telemetry.host import seconds as host_seconds
from gputel.telemetry.host.columns import STORED
from gputel.telemetry.readings import READINGS
from gputel.telemetry.store import frames
from gputel.telemetry.store.frames import Schema
from gputel.telemetry.store.seconds import STATISTICS, TICKS_COLUMN, USUAL
from gputel.telemetry.store.ticks import kind
from gputel.telemetry.store.tiers import GPU

TABLES = (GPU, *STORED)
FOLDER_COLUMNS: Schema = {"run": pl.String, "node": pl.String, "simulated": pl.String}


def scan(patterns: Iterable[str | Path], table: str, *, seconds: bool = False) -> pl.LazyFrame:
    """The rows of a table of all run folders that the paths or patterns name."""
    if table not in TABLES:
        raise GputelError(
            f"scan: {table!r}", "is not a table of a run folder", f"name one of {', '.join(TABLES)}"
        )
    folders = run_folders(patterns)
    if table != GPU:
        return _scan_counters(folders, table, seconds=seconds)
    columns = columns_of_seconds() if seconds else columns_of_ticks()

    def read(names: Sequence[str]) -> Iterator[pl.DataFrame]:
        readings = list(dict.fromkeys(columns[name][0] for name in names if name in columns))
        for segment, whose in _segments(folders):
            for frame in _frames(segment.gpu, readings, seconds=seconds):
                whole = frame.with_columns(whose)
                yield whole.select(name for name in names if name in whole.columns)

    count: Schema = {TICKS_COLUMN: pl.Int64} if seconds else {}
    kinds = {name: of_column for name, (_, of_column) in columns.items()}
    return frames.lazy({**FOLDER_COLUMNS, **frames.KEYS, **count, **kinds}, read)


def _scan_counters(folders: Sequence[Path], table: str, *, seconds: bool) -> pl.LazyFrame:
    """Scans a table beside gpu/, whose whole seconds are rates."""
    kinds = host_seconds.schema(table) if seconds else host_seconds.tick_schema(table)

    def read(names: Sequence[str]) -> Iterator[pl.DataFrame]:
        stored = [name for name in names if name in kinds and name not in ("time", table)]
        for segment, whose in _segments(folders):
            folder = segment.path / table
            for frame in [host_seconds.seconds(folder)] if seconds else frames.chunks(folder, stored):
                whole = frame.with_columns(whose)
                yield whole.select(name for name in names if name in whole.columns)

    return frames.lazy({**FOLDER_COLUMNS, **kinds}, read)


def _segments(folders: Iterable[Path]) -> Iterator[tuple[run_folder.Segment, list[pl.Expr]]]:
    """Each segment, with the FOLDER_COLUMNS of its rows."""
    for path in folders:
        for segment in run_folder.open_folder(path).segments:
            simulated = run_folder.readable_facts(segment.path).get("simulated")
            values = (str(path), segment.node, None if simulated is None else str(simulated))
            pairs = zip(FOLDER_COLUMNS, values, strict=True)
            yield segment, [pl.lit(value, pl.String).alias(name) for name, value in pairs]


def run_folders(patterns: Iterable[str | Path]) -> list[Path]:
    """The run folders among the paths that match, in their order; raises GputelError for a pattern without any."""
    folders: list[Path] = []
    for pattern in patterns:
        runs = [path for path in matches(pattern) if run_folder.is_run(path)]
        if not runs:
            raise GputelError(str(pattern), *run_folder.NO_RUN)
        folders += runs
    return list(dict.fromkeys(folders))


def columns_of_ticks() -> dict[str, tuple[str, pl.DataType | type[pl.DataType]]]:
    """The declared columns of ticks: the reading of each, and its type."""
    return {reading.name: (reading.name, kind(reading.per_unit)) for reading in READINGS}


def columns_of_seconds() -> dict[str, tuple[str, pl.DataType | type[pl.DataType]]]:
    """The columns of whole seconds."""
    columns: dict[str, tuple[str, pl.DataType | type[pl.DataType]]] = {}
    for reading in READINGS:
        of_reading = kind(reading.per_unit)
        for statistic in STATISTICS.get(reading.name, USUAL):
            if statistic != "first":
                of_statistic = pl.Float64 if statistic == "mean" else of_reading
                columns[f"{reading.name}_{statistic}"] = (reading.name, of_statistic)
        if "first" in STATISTICS.get(reading.name, ()):  # what a counter grew by
            columns[reading.name] = (reading.name, of_reading)
    return columns


def _frames(folder: Path, readings: Sequence[str], *, seconds: bool) -> Iterator[pl.DataFrame]:
    if seconds:
        yield frames.seconds(folder, readings)
    else:
        yield from frames.chunks(folder, readings)
