"""A part of one tier as a wide table of integers: a row a tick, a column `<gpu>.<reading>`; as kept in Parquet.

A row's time stands in five columns: its block's first deadline, what wall and boot clock were ahead, how long after
that its own deadline was, and how late it was. That way each row can be read without the others, and nearly all of
it repeats from second to second: stamps as single numbers would cost more than the readings.
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
KEPT = 4  # journals: those of the part that is being written, for what is before it was compacted
STAMP = pl.col("anchor_ns") + pl.col("offset_ns") + pl.col("late_us") * 1000
WALL = STAMP + pl.col("to_wall_ns")


class Journals:
    """Reads each journal once and keeps it as it was then, for a reader that goes through a folder GPU by GPU."""

    def __init__(self) -> None:
        self._frames: dict[Path, pl.DataFrame] = {}

    def frame(self, path: Path) -> pl.DataFrame | None:
        """The ticks of a journal; None where nothing of it can be read."""
        if path in self._frames:
            return self._frames[path]
        held = journal.read(path)
        if held is None:
            return None
        frame = from_journal(held)
        if len(self._frames) < KEPT:
            self._frames[path] = frame
        return frame


def column_name(column: GpuColumn) -> str:
    return f"{column.gpu}.{column.name}"


def in_units(raw: pl.Expr, per_unit: int) -> pl.Expr:
    """Whole numbers stay whole. By a constant polars would multiply with 1/1000: 70.06400000000001."""
    return raw if per_unit == 1 else raw / (raw * 0 + per_unit)


def tier_of(part: Part) -> Tier | None:
    """What a file holds, without reading its ticks."""
    if part.compacted:
        held = part.path.stat()
        return _tier_of_parquet(part.path, held.st_mtime_ns, held.st_size)
    return journal.read_tier(part.path)


@lru_cache(maxsize=8192)
def _tier_of_parquet(path: Path, _mtime_ns: int, _size: int) -> Tier:
    """Asked for by every reader of a folder, and a week has thousands of files that never change."""
    return tier_from_json(json.loads(pl.read_parquet_metadata(path)[KEY]))


def load(part: Part, columns: Sequence[str] | None = None, journals: Journals | None = None) -> pl.DataFrame:
    """The ticks of a file, all columns or those named and the time; of a journal as `journals` have it."""
    if part.compacted:
        return pl.read_parquet(part.path, columns=None if columns is None else [*TIME, *columns])
    frame = (journals or Journals()).frame(part.path)
    if frame is None:
        return pl.DataFrame(schema=dict.fromkeys(TIME, pl.Int64))
    return frame if columns is None else frame.select(*TIME, *columns)


def from_journal(held: journal.Journal) -> pl.DataFrame:
    times = {name: pl.Series(name, _joined(held.ticks, index), pl.Int64) for index, name in enumerate(TIME)}
    values = _joined_values(held.ticks, len(held.tier.columns))
    valid = _joined_valid(held.ticks, values.shape)
    readings = {
        column_name(column): _series(values[:, index], valid[:, index])
        for index, column in enumerate(held.tier.columns)
    }
    return pl.DataFrame({**times, **readings})


def _series(values: blocks.Integers, valid: blocks.Bits) -> pl.Series:
    series = pl.Series(values)
    return series if valid.all() else pl.select(pl.when(pl.Series(valid)).then(series)).to_series()


def _joined(ticks: Sequence[Ticks], index: int) -> blocks.Integers:
    columns = [_time(block)[index] for block in ticks]
    return np.concatenate(columns) if columns else np.zeros(0, np.int64)


def _time(block: Ticks) -> list[blocks.Integers]:
    """The columns of TIME."""
    anchor = block.anchor
    rows = len(block.deadlines)
    clocks = (anchor.monotonic, anchor.wall - anchor.monotonic, anchor.boot - anchor.monotonic)
    same = [np.full(rows, clock, np.int64) for clock in clocks]
    return [*same, block.deadlines - anchor.monotonic, block.late_us]


def _joined_values(ticks: Sequence[Ticks], columns: int) -> blocks.Integers:
    return np.concatenate([block.values for block in ticks]) if ticks else np.zeros((0, columns), np.int64)


def _joined_valid(ticks: Sequence[Ticks], shape: tuple[int, ...]) -> blocks.Bits:
    whole = [np.ones(t.values.shape, np.bool_) if t.valid is None else t.valid for t in ticks]
    return np.concatenate(whole) if whole else np.ones(shape, np.bool_)
