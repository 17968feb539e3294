"""One part of a tier as a wide table of integers, as Parquet keeps it: a row per tick, a column `<gpu>.<reading>`.

Five columns hold a row's time: its block's first deadline, how far wall and boot clock were ahead of it, the
row's deadline after it, and how late the row was. Each row can be read without the others, and most of it repeats
from second to second; single timestamps would take more space than the readings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl

from gputel.telemetry.store import blocks, journal
from gputel.telemetry.store.blocks import Ticks
from gputel.telemetry.store.parts import Part
from gputel.telemetry.store.tiers import GpuColumn, Tier, tier_from_json

KEY = "gputel"  # of the Parquet file's metadata, where the tier is described as in a journal's schema block
TIME = ("anchor_ns", "to_wall_ns", "to_boot_ns", "offset_ns", "late_us")
KEPT = 4  # journals in memory: those of the part that is being written; older parts are compacted
STAMP = pl.col("anchor_ns") + pl.col("offset_ns") + pl.col("late_us") * 1000
WALL = STAMP + pl.col("to_wall_ns")


class Journals:
    """Reads each journal once and keeps its state of that moment, for a reader that goes GPU by GPU."""

    def __init__(self) -> None:
        self._frames: dict[Path, pl.DataFrame] = {}

    def frame(self, path: Path) -> pl.DataFrame | None:
        """The ticks of a journal; None if nothing of it can be read."""
        if path in self._frames:
            return self._frames[path]
        content = journal.read(path)
        if content is None:
            return None
        frame = from_journal(content)
        if len(self._frames) < KEPT:
            self._frames[path] = frame
        return frame


def column_name(column: GpuColumn) -> str:
    return f"{column.gpu}.{column.name}"


def in_units(raw: pl.Expr, per_unit: int) -> pl.Expr:
    """The reading in its unit. Divides by a column: polars turns division by a constant into 70.06400000000001."""
    return raw if per_unit == 1 else raw / (raw * 0 + per_unit)


def tier_of(part: Part) -> Tier | None:
    """The tier in a file, without reading its ticks."""
    if part.compacted:
        file = part.path.stat()
        return _tier_of_parquet(part.path, file.st_mtime_ns, file.st_size)
    return journal.read_tier(part.path)


@lru_cache(maxsize=8192)
def _tier_of_parquet(path: Path, _mtime_ns: int, _size: int) -> Tier:
    """The tier in a file's metadata; cached, because a week has thousands of files that never change."""
    return tier_from_json(json.loads(pl.read_parquet_metadata(path)[KEY]))


def load(part: Part, columns: Sequence[str] | None = None, journals: Journals | None = None) -> pl.DataFrame:
    """The ticks of a file: its time and all columns, or those named. A journal comes from `journals`, if given."""
    if part.compacted:
        return pl.read_parquet(part.path, columns=None if columns is None else [*TIME, *columns])
    frame = (journals or Journals()).frame(part.path)
    if frame is None:
        return pl.DataFrame(schema=dict.fromkeys(TIME, pl.Int64))
    return frame if columns is None else frame.select(*TIME, *columns)


def from_journal(content: journal.Journal) -> pl.DataFrame:
    """The ticks of a journal as a wide table."""
    ticks, columns = content.ticks, content.tier.columns
    times = {name: pl.Series(name, _joined(ticks, index), pl.Int64) for index, name in enumerate(TIME)}
    values = _joined_values(ticks, len(columns))
    valid = _joined_valid(ticks, values.shape)
    readings = {
        column_name(column): _series(values[:, index], valid[:, index])
        for index, column in enumerate(columns)
    }
    return pl.DataFrame({**times, **readings})


def _series(values: blocks.Integers, valid: blocks.Bits) -> pl.Series:
    series = pl.Series(values)
    return series if valid.all() else pl.select(pl.when(pl.Series(valid)).then(series)).to_series()


def _joined(ticks: Sequence[Ticks], index: int) -> blocks.Integers:
    columns = [_time(block)[index] for block in ticks]
    return np.concatenate(columns) if columns else np.zeros(0, np.int64)


def _time(block: Ticks) -> list[blocks.Integers]:
    """The columns of TIME for one block."""

    anchor = block.anchor
    rows = len(block.deadlines)
    clocks = (anchor.monotonic, anchor.wall - anchor.monotonic, anchor.boot - anchor.monotonic)
    constant = [np.full(rows, clock, np.int64) for clock in clocks]
    return [*constant, block.deadlines - anchor.monotonic, block.late_us]


def _joined_values(ticks: Sequence[Ticks], columns: int) -> blocks.Integers:
    return np.concatenate([block.values for block in ticks]) if ticks else np.zeros((0, columns), np.int64)


def _joined_valid(ticks: Sequence[Ticks], shape: tuple[int, ...]) -> blocks.Bits:
    whole = [np.ones(t.values.shape, np.bool_) if t.valid is None else t.valid for t in ticks]
    return np.concatenate(whole) if whole else np.ones(shape, np.bool_)
