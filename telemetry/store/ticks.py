"""One part of a tier as a frame, the same from a journal and from Parquet: a row per tick and GPU, GPU by GPU.

Each GPU of the tier has a row for each tick. Readings are in their units, and null where a GPU lacks them. The
time of a row is `second + offset_us + late_us`: where a tick should have been, and how late it was. Each of these
repeats from second to second and from GPU to GPU; one timestamp would take more space than the readings.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.telemetry.characters import parse_json
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.store import blocks, checksum, journal, parquet_pages, parts
from gputel.telemetry.store.blocks import Ticks
from gputel.telemetry.store.damage import attempt
from gputel.telemetry.store.parts import Part
from gputel.telemetry.store.tiers import Tier, TierColumn, tier_from_table

KEY = "gputel"  # of the Parquet file's metadata, where the tier is described
VERSION = 2
PARTLY = "has a part that cannot be read and is left out"
TIME: dict[str, pl.DataType | type[pl.DataType]] = {
    "second": pl.Datetime("us", "UTC"),
    "offset_us": pl.Int64,
    "late_us": pl.Int64,
    "to_monotonic_ns": pl.Int64,
    "to_boot_ns": pl.Int64,
}
READ_TIME = [name for name in TIME if name != "to_boot_ns"]
KEPT_VALUES = 8_000_000  # in memory, 64 MB: twenty minutes of three readings of eight GPUs at 100 Hz
MILLION, THOUSAND = 1_000_000, 1000
WALL = (pl.col("second").dt.epoch("us") + pl.col("offset_us") + pl.col("late_us")) * THOUSAND
STAMP = WALL + pl.col("to_monotonic_ns")
DEADLINE = STAMP - pl.col("late_us") * THOUSAND


class PartCache:
    """Keeps what was read of parts, for a reader that goes GPU by GPU: journals, and some of the Parquet files."""

    def __init__(self) -> None:
        self._frames: dict[tuple[Path, tuple[str, ...]], pl.DataFrame] = {}
        self._values = 0

    def frame(self, part: Part, tier: Tier, names: Sequence[str]) -> pl.DataFrame:
        """Columns of a part; those of a journal in its state when it was first read."""
        key = (part.path, tuple(names) if part.compacted else ())
        if key in self._frames:
            return self._frames[key].select(names)
        frame = read(part, tier, names if part.compacted else list(schema(tier)))
        if part.compacted:
            self._values += frame.height * frame.width
        if self._values <= KEPT_VALUES or not part.compacted:
            self._frames[key] = frame
        return frame.select(names)


def tier_of(part: Part) -> Tier | None:
    """The tier in a file, without reading its ticks."""
    if part.compacted:
        file = part.path.stat()
        return _tier_of_parquet(part.path, file.st_mtime_ns, file.st_size)
    tier = journal.read_tier(part.path)
    # killed before its first write
    if tier is None and part.path.stat().st_size and not parts.is_newest(part):
        raise ValueError("its description is damaged")
    return tier


@lru_cache(maxsize=8192)
def _tier_of_parquet(path: Path, _mtime_ns: int, _size: int) -> Tier:
    """The tier in a file's metadata; cached, because a week has thousands of files that never change."""
    facts = metadata(path)
    if facts.get("version") != VERSION:
        raise ValueError(f"version {facts.get('version')} of the format is not {VERSION}")
    return tier_from_table(facts)


def metadata(path: Path) -> Any:
    """What the metadata of a Parquet file say, once its checksum and what it says of its pages are right."""
    content = path.read_bytes()
    checksum.check(content)
    parquet_pages.check(content)
    return parse_json(pl.read_parquet_metadata(path)[KEY].encode())


def load(
    part: Part,
    tier: Tier,
    readings: Sequence[str] | None = None,
    gpu: str | None = None,
    cache: PartCache | None = None,
) -> pl.DataFrame:
    """The ticks of a part of this tier: READ_TIME and all readings, or some; of all GPUs, or of one."""
    names = [*READ_TIME, *(name for name in tier.readings if readings is None or name in readings)]
    frame = cache.frame(part, tier, names) if cache else read(part, tier, names)
    if gpu is None:
        return frame
    count = len(frame) // len(tier.subjects)
    return frame.slice(tier.subjects.index(gpu) * count, count)


def read(part: Part, tier: Tier, names: Sequence[str] | None = None) -> pl.DataFrame:
    """Columns of a part of this tier, or all; no rows if it is damaged."""
    kinds = schema(tier)
    wanted = pl.DataFrame(schema={name: kinds[name] for name in (kinds if names is None else names)})
    return attempt(part.path, lambda: _content(part, tier, wanted.columns), wanted)


def _content(part: Part, tier: Tier, names: Sequence[str]) -> pl.DataFrame:
    if not part.compacted:
        content = journal.read(part.path)
        if content is not None and (damaged := _damaged(part, content)):
            warnings.warn(DamagedFile(part.path, f"{damaged:,} bytes", PARTLY), stacklevel=2)
        frame = pl.DataFrame(schema=schema(tier)) if content is None else from_journal(content)
        return frame.select(names)
    frame = pl.read_parquet(part.path, columns=list(names), glob=False)
    kinds = schema(tier)
    if any(frame.schema[name] != kinds[name] for name in names) or len(frame) % len(tier.subjects):
        raise ValueError("its columns are not those of its description")
    return frame


def _damaged(part: Part, content: journal.Journal) -> int:
    """Bytes that were written and cannot be read; the newest part may be torn at its end."""
    torn = 0 if not content.torn or parts.is_newest(part) else content.torn
    return torn + sum(fault.length for fault in content.faults)


def schema(tier: Tier) -> dict[str, pl.DataType | type[pl.DataType]]:
    """The columns of a tier's frame."""
    kinds = {name: kind(column.per_unit) for name, column in tier.readings.items()}
    return {**TIME, **subject_column(tier), **kinds}


def subject_column(tier: Tier) -> dict[str, pl.DataType | type[pl.DataType]]:
    """The column that names the subject of a row, if the table has one."""
    return {} if tier.subject_name is None else {tier.subject_name: pl.String}


def kind(per_unit: int) -> type[pl.DataType]:
    """The type of a reading in its unit, of which the driver's integers are `1 / per_unit`."""
    return pl.Int64 if per_unit == 1 else pl.Float64


def from_journal(content: journal.Journal) -> pl.DataFrame:
    """The ticks of a journal as a frame."""
    ticks, tier = content.ticks, content.tier
    gpus = tier.subjects
    columns: dict[str, pl.Series] = {}
    for name, times in _times(ticks).items():
        columns[name] = pl.Series(name, np.tile(times, len(gpus)), pl.Int64).cast(TIME[name])
    rows = sum(len(block.deadlines) for block in ticks)
    for name in subject_column(tier):
        columns[name] = pl.Series(name, gpus, pl.String).gather(np.repeat(np.arange(len(gpus)), rows))
    values, valid = _values(ticks, len(tier.columns)), _valid(ticks, (rows, len(tier.columns)))
    places = {(column.name, column.subject): index for index, column in enumerate(tier.columns)}
    for name, column in tier.readings.items():
        having = [places.get((name, gpu)) for gpu in gpus]
        columns[name] = _in_units(column, having, values, valid)
    return pl.DataFrame(columns)


def _in_units(
    column: TierColumn, places: Sequence[int | None], values: blocks.Integers, valid: blocks.Bits
) -> pl.Series:
    """One reading of all GPUs, one after the other; null where a GPU lacks it or a tick has none."""
    lacking = np.zeros(len(values), np.bool_)
    integers = np.concatenate([lacking.astype(np.int64) if p is None else values[:, p] for p in places])
    present = np.concatenate([lacking if p is None else valid[:, p] for p in places])
    series = pl.Series(column.name, integers if column.per_unit == 1 else integers / column.per_unit)
    if present.all():
        return series
    return pl.select(pl.when(pl.Series(present)).then(series).alias(column.name)).to_series()


def _times(ticks: Sequence[Ticks]) -> dict[str, npt.NDArray[np.int64]]:
    """The columns of TIME for the ticks of one GPU, in whole microseconds.

    The difference of two clocks is rounded before it is added: so two tiers that were read at one moment have
    one time on the monotonic clock.
    """
    nothing = np.zeros(0, np.int64)
    by_block = [_times_of_block(block) for block in ticks]
    return {name: np.concatenate([nothing, *(times[name] for times in by_block)]) for name in TIME}


def _times_of_block(block: Ticks) -> dict[str, blocks.Integers]:
    anchor = block.anchor
    to_wall_us = (anchor.wall - anchor.monotonic) // THOUSAND
    to_boot_us = (anchor.boot - anchor.monotonic) // THOUSAND
    deadlines_us = block.deadlines // THOUSAND + to_wall_us
    offset_us = deadlines_us % MILLION
    return {
        "second": deadlines_us - offset_us,
        "offset_us": offset_us,
        "late_us": block.late_us,
        "to_monotonic_ns": np.full(len(offset_us), -to_wall_us * THOUSAND, np.int64),
        "to_boot_ns": np.full(len(offset_us), (to_boot_us - to_wall_us) * THOUSAND, np.int64),
    }


def _values(ticks: Sequence[Ticks], columns: int) -> blocks.Integers:
    return np.concatenate([block.values for block in ticks]) if ticks else np.zeros((0, columns), np.int64)


def _valid(ticks: Sequence[Ticks], shape: tuple[int, ...]) -> blocks.Bits:
    whole = [np.ones(t.values.shape, np.bool_) if t.valid is None else t.valid for t in ticks]
    return np.concatenate(whole) if whole else np.ones(shape, np.bool_)
