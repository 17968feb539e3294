"""The steps that hooks in a training recorded (`--inside steps`) -> a row a step and process.

Times are the host's: calls of backward and of optimizers return before a GPU is done. A wait for data is a wait,
GPU or not.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.inside import drain, environment, step_records

if TYPE_CHECKING:
    from gputel.telemetry.run_folder import Segment

LAYOUT = np.dtype([(field.name, field.kind) for field in step_records.FIELDS])
SCHEMA: dict[str, Any] = {
    "time": pl.Datetime("ns", "UTC"),
    "inside": pl.String,
    "rank": pl.Int64,
    "step_ms": pl.Float64,
    "data_wait_ms": pl.Float64,
    "backward_call_ms": pl.Float64,
    "optimizer_call_ms": pl.Float64,
    "other_ms": pl.Float64,
    "gc_ms": pl.Float64,
    "fetches": pl.Int64,
    "backwards": pl.Int64,
    "evaluates": pl.Boolean,
}
"""`inside` is the process; `other_ms` is the rest of the step, `gc_ms` is within the other times."""
NOT_OURS = "is no file of steps, and is left out"


def read(segment: Segment, inside: object = None) -> pl.DataFrame:
    """Reads the steps of all processes in order of time; `inside` is what run.json says of the folder in memory."""
    memory = environment.own_folder(inside)
    frames = [pl.DataFrame(schema=SCHEMA)]
    for path in files(segment, memory):
        content = drain.content(path, memory)
        head = step_records.header(content)
        if head is not None:
            frames.append(rows_of(path.stem, head.rank, content[step_records.SIZE :]))
        elif content:
            warnings.warn(DamagedFile(path, "it", NOT_OURS), stacklevel=2)
    return pl.concat(frames).sort("time", maintain_order=True)


def files(segment: Segment, memory: Path | None) -> list[Path]:
    """The files of all processes in the run folder, also of those that are still in memory alone."""
    copies = segment.path / drain.NAME
    folders = [copies, *([memory] if memory else [])]
    names = {path.name for folder in folders for path in environment.files(folder, step_records.ENDING)}
    return [copies / name for name in sorted(names)]


def ended(content: bytes) -> bytes:
    """The records of steps that have ended, of the records of one process."""
    records = np.frombuffer(content, LAYOUT, len(content) // step_records.SIZE)
    return bytes(records[records["flags"] & step_records.OPEN == 0].tobytes())


def rows_of(process: str, rank: int | None, content: bytes) -> pl.DataFrame:
    """A row an ended step, of the records of one process without the header of its file."""
    records = pl.DataFrame(np.frombuffer(ended(content), LAYOUT))
    sees_waits, has_closure = (
        pl.col("flags") & flag != 0 for flag in (step_records.WAITS, step_records.CLOSURE)
    )
    reads_data = sees_waits & (pl.col("fetches").sum() > 0)
    follows = pl.col("step_ns") >= 0
    times = records.select(
        pl.col("ns").cast(SCHEMA["time"]).alias("time"),
        pl.lit(process).alias("inside"),
        pl.lit(rank, pl.Int64).alias("rank"),
        _ms("step_ns", follows).alias("step_ms"),
        _ms("fetch_ns", reads_data).alias("data_wait_ms"),
        _ms("backward_ns", sees_waits).alias("backward_call_ms"),
        _ms("optimizer_ns", ~has_closure).alias("optimizer_call_ms"),
        _ms("gc_ns", follows).alias("gc_ms"),
        pl.when(sees_waits).then(pl.col("fetches").cast(pl.Int64)),
        pl.when(sees_waits).then(pl.col("backwards").cast(pl.Int64)),
        (pl.col("flags") & step_records.EVALUATES != 0).alias("evaluates"),
    )
    named = pl.col("data_wait_ms").fill_null(0.0) + pl.col("backward_call_ms") + pl.col("optimizer_call_ms")
    return times.with_columns((pl.col("step_ms") - named).alias("other_ms")).select(*SCHEMA)


def _ms(name: str, seen: pl.Expr) -> pl.Expr:
    return pl.when(seen).then(pl.col(name) / 1e6)
