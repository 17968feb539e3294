"""A run -> one wide table in a file that spreadsheets and scripts read: a row a tick, a column `gpu0_power_w`.

The rows go through memory ten minutes at a time. Segments follow each other; with several nodes each has rows of
its own and a column `node` says whose. A file appears under its name when it is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
from polars.io.plugins import register_io_source

from gputel.analysis import document
from gputel.analysis.exports import tables
from gputel.analysis.render import files
from gputel.analysis.runs.recording import open_recording
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.run_folder import RunFolder, Segment
from gputel.telemetry.store import frames

MARK = {"gputel": "export"}  # in a Parquet file's metadata: a table of ours, which may be written anew


Done: TypeAlias = Callable[[int], object]


def _ignore(_steps: int) -> None:
    """Shows no progress."""


@dataclass(frozen=True)
class ExportLayout:
    """`readings` None is all. `finish` gets the whole table, and names and forms its columns of time."""

    readings: tuple[str, ...] | None
    finish: Callable[[pl.LazyFrame, int], pl.LazyFrame]
    several_nodes: bool


def _as_it_is(table: pl.LazyFrame, _first_ns: int) -> pl.LazyFrame:
    return table


def _first_users(table: pl.LazyFrame, first_ns: int) -> pl.LazyFrame:
    elapsed = (pl.col("time").dt.epoch("ns") - first_ns) / 1e9
    return table.select(
        pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").alias("timestamp"),
        elapsed.round(6).alias("elapsed_sec"),
        pl.exclude("time"),
    )


LAYOUTS: Mapping[str, ExportLayout] = {
    "wide": ExportLayout(None, _as_it_is, True),
    "gpu_metrics": ExportLayout(("power_w", "temp_c"), _first_users, False),
}


def steps(path: Path) -> int:
    """How often `done` will be called: once for each ten minutes of each segment."""
    return sum(frames.count_chunks(segment.gpu) for segment in run_folder.open_folder(path).segments)


def to_csv(
    path: Path, target: Path, layout: str = "wide", *, force: bool = False, done: Done = _ignore
) -> None:
    """Null is an empty field; a time is ISO 8601 with all nine digits."""
    files.refuse_others(target, force=force)  # a CSV bears no mark
    table = _table(open_recording(path).folder, LAYOUTS[layout], done)
    if "time" in table.collect_schema():
        table = document.timed(table)
    safe = tables.without_formulas(table)
    files.write([files.File(target, lambda draft: safe.sink_csv(draft))], force=force)


def to_parquet(
    path: Path, target: Path, layout: str = "wide", *, force: bool = False, done: Done = _ignore
) -> None:
    files.refuse_others(target, _is_ours, force=force)
    table = _table(open_recording(path).folder, LAYOUTS[layout], done)
    write = files.File(target, lambda draft: table.sink_parquet(draft, metadata=MARK), _is_ours)
    files.write([write], force=force)


def seconds(path: Path, table: str) -> pl.LazyFrame:
    """The whole seconds of a table beside gpu/: a row a second and disk, interface, core or process."""
    rows = open_recording(path).seconds(table)
    if rows.is_empty():
        raise GputelError(str(path), f"no {table} was recorded", "see what it holds: gputel info")
    return rows.lazy()


def seconds_to_csv(path: Path, target: Path, table: str, *, force: bool = False) -> None:
    files.refuse_others(target, force=force)
    rows = tables.without_formulas(document.timed(seconds(path, table)))
    files.write([files.File(target, lambda draft: rows.sink_csv(draft))], force=force)


def seconds_to_parquet(path: Path, target: Path, table: str, *, force: bool = False) -> None:
    files.refuse_others(target, _is_ours, force=force)
    rows = seconds(path, table)
    write = files.File(target, lambda draft: rows.sink_parquet(draft, metadata=MARK), _is_ours)
    files.write([write], force=force)


def _table(opened: RunFolder, layout: ExportLayout, done: Done) -> pl.LazyFrame:
    several = any(segment.node is not None for segment in opened.segments)
    if several and not layout.several_nodes:
        raise GputelError(
            str(opened.path), "holds several nodes", "leave --layout out: a column says the node"
        )
    schema = {name: kind for segment in opened.segments for name, kind in _schema(segment, layout).items()}
    if not schema:
        raise GputelError(str(opened.path), "no telemetry was recorded", "see what it holds: gputel info")
    keys: dict[str, Any] = {"time": frames.KEYS["time"], **({"node": pl.String} if several else {})}
    ordered = {**keys, **dict(sorted(schema.items(), key=lambda item: _gpu_of(item[0])))}

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        for frame in _rows(opened.segments, layout, ordered):
            asked = frame.head(rows) if rows is not None else frame
            rows = None if rows is None else rows - len(asked)
            asked = asked if columns is None else asked.select(columns)
            done(1)
            yield asked if predicate is None else asked.filter(predicate)

    frames_of = _rows(opened.segments, layout, ordered)
    first_ns = next((int(frame["time"].dt.epoch("ns")[0]) for frame in frames_of if len(frame)), None)
    if first_ns is None:
        raise GputelError(str(opened.path), "no tick was recorded", "see what it holds: gputel info")
    return layout.finish(register_io_source(source, schema=ordered), first_ns)


def _rows(
    segments: Sequence[Segment], layout: ExportLayout, schema: Mapping[str, Any]
) -> Iterator[pl.DataFrame]:
    for segment in segments:
        for chunk in frames.chunks(segment.gpu, layout.readings):
            wide = _wide(chunk).with_columns(pl.lit(segment.node, pl.String).alias("node"))
            missing = [
                pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in wide.columns
            ]
            yield wide.with_columns(missing).select(*schema)


def _wide(chunk: pl.DataFrame) -> pl.DataFrame:
    """The GPUs of a tick were read with one stamp, so they meet in one row; a clock set back repeats stamps."""
    key = ["time", "again"]
    table = pl.DataFrame(schema={"time": frames.KEYS["time"], "again": pl.Int64})
    for (gpu,), rows in chunk.group_by("gpu", maintain_order=True):
        again = pl.int_range(pl.len()).over("time").alias("again")
        readings = pl.exclude("time", "gpu").name.map(partial(_column, str(gpu)))
        named = rows.select("time", again, readings)
        table = table.join(named, on=key, how="full", coalesce=True, maintain_order="left_right")
    return table.drop("again")


def _schema(segment: Segment, layout: ExportLayout) -> dict[str, Any]:
    """All columns of the wide table, by the descriptions of the files alone."""
    kinds = frames.columns(segment.gpu)
    return {
        _column(gpu, name): kind
        for (gpu, name), kind in kinds.items()
        if layout.readings is None or name in layout.readings
    }


def _column(gpu: str, name: str) -> str:
    """`gpu0_power_w`; a MIG instance `0:1` is `gpu0_1_power_w`."""
    return f"gpu{gpu.replace(':', '_')}_{name}"


def _gpu_of(column: str) -> list[int]:
    numbers = column.removeprefix("gpu").split("_")
    return [int(number) for number in numbers[: next(i for i, n in enumerate(numbers) if not n.isdigit())]]


def _is_ours(target: Path) -> bool:
    try:
        return MARK.items() <= pl.read_parquet_metadata(target).items()
    except (OSError, pl.exceptions.PolarsError):
        return False
