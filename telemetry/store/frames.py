"""Reads a gpu/ folder as frames: a row per tick and GPU, in physical units, null where nothing was measured.

The rows are those of each GPU's fastest tier. A slower reading joins as of its own time, never from the future,
and becomes null after its tier has been silent for a few periods. Journals and Parquet files give the same rows,
so it does not matter how far a recording has been compacted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import parts, wide
from gputel.telemetry.store import seconds as whole_seconds
from gputel.telemetry.store.parts import Part
from gputel.telemetry.store.seconds import one_second_rows
from gputel.telemetry.store.tiers import GpuColumn, Tier
from gputel.telemetry.store.wide import Journals

Schema: TypeAlias = dict[str, pl.DataType | type[pl.DataType]]

FRESH_PERIODS = 3
KEYS: Schema = {"time": pl.Datetime("ns", "UTC"), "gpu": pl.String}
HOUR = 3600  # rows per slice of a table of seconds
CARRIED = 8  # ticks of a slower tier that are carried into the next part

Files: TypeAlias = list[tuple[Part, Tier]]
Loaded: TypeAlias = list[tuple[Tier, pl.DataFrame]]
Seconds: TypeAlias = tuple[list[Tier], pl.DataFrame]
LoadSeconds: TypeAlias = Callable[..., Seconds]  # takes `last`, a number of rows, or none for all


def ticks(
    folder: Path,
    readings: Sequence[str] | None = None,
    gpu: str | None = None,
    journals: Journals | None = None,
) -> pl.DataFrame:
    """All ticks in one frame, or those of some readings or one GPU; use `scan` for what memory cannot hold."""
    files = _of_gpu(_files(folder), gpu)
    schema = _schema([tier.only(readings) for _, tier in files])
    frames = [pl.DataFrame(schema=schema), *_by_part(files, list(schema), journals)]
    return pl.concat(frames, how="diagonal").select(*schema)


def scan(folder: Path) -> pl.LazyFrame:
    """The rows of `ticks` as a lazy frame: reads only the columns it needs, with one part in memory."""
    files = _files(folder)
    schema = _schema([tier for _, tier in files])

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = {name: kind for name, kind in schema.items() if columns is None or name in columns}
        remaining = rows
        for frame in _by_part(files, list(wanted)):
            whole = pl.concat([pl.DataFrame(schema=wanted), frame], how="diagonal").select(*wanted)
            if remaining is not None:
                whole = whole.head(remaining)
                remaining -= len(whole)
            yield whole if predicate is None else whole.filter(predicate)
            if remaining == 0:
                return

    return register_io_source(source, schema=schema, is_pure=True)


def seconds(folder: Path) -> pl.DataFrame:
    """A row per second and GPU: `power_w_min`, `_mean`, `_max`, `_last` and so on, and the second's `energy_j`."""
    return _together([load() for _, load in _parts_of_seconds(folder)])


def last_seconds(folder: Path, count: int, before: int | None = None) -> pl.DataFrame:
    """The last `count` rows of `seconds`, from parts numbered below `before`; older parts are not read."""
    tables: list[Seconds] = []
    for number, load in reversed(_parts_of_seconds(folder)):
        missing = count - sum(len(table) for _, table in tables)
        if missing > 0 and (before is None or number < before):
            tables.insert(0, load(last=missing))
    return _together(tables)


def seconds_in_turn(
    folder: Path,
    readings: Sequence[str],
    usual: Sequence[str] = whole_seconds.USUAL,
    gpu: str | None = None,
    journals: Journals | None = None,
) -> Iterator[pl.DataFrame]:
    """The rows of `seconds` an hour at a time, for some readings and statistics; one GPU comes in whole parts."""
    for _, load in _parts_of_seconds(folder, readings, usual, gpu, journals):
        tiers, table = load()
        for frame in table.iter_slices(HOUR) if gpu is None else [table]:
            yield of_seconds(frame, tiers, gpu)


class Sampled(NamedTuple):
    """Number of rows of the fastest tier, and seconds from the first row to the last, gaps included."""

    rows: int
    seconds: float


def sampled(folder: Path) -> Sampled | None:
    """What was actually sampled, not what was planned; None with fewer than two rows."""
    files = _files(folder)
    fastest = max((tier for _, tier in files), key=lambda tier: tier.hz, default=None)
    of_fastest = [(part, tier) for part, tier in files if fastest and tier.name == fastest.name]
    first, last = _stamps(of_fastest), _stamps(reversed(of_fastest))
    rows = sum(int(table[whole_seconds.TICKS_COLUMN].sum()) for table in _counts(folder))
    if first is None or last is None or rows < 2:
        return None
    return Sampled(rows, (int(last[-1]) - int(first[0])) / SECOND)


def columns(folder: Path) -> dict[tuple[str, str], pl.DataType | type[pl.DataType]]:
    """What was recorded, by GPU and reading, without reading a tick."""
    tiers = sorted((tier for _, tier in _files(folder)), key=lambda tier: -tier.hz)
    kinds = _schema(tiers)
    return {(column.gpu, column.name): kinds[column.name] for tier in tiers for column in tier.columns}


def count_chunks(folder: Path) -> int:
    return len({part.first for part, _ in _files(folder)})


def chunks(
    folder: Path,
    readings: Sequence[str] | None = None,
    most: int | None = None,
    gpu: str | None = None,
    journals: Journals | None = None,
) -> Iterator[pl.DataFrame]:
    """The rows of `ticks`, ten minutes at a time; at most `most` chunks, spread over the recording."""
    files = _of_gpu(_files(folder), gpu)
    wanted = list(_schema([tier for _, tier in files])) if readings is None else readings
    numbers = sorted({part.first for part, _ in files})
    if most is not None and len(numbers) > most:
        chosen = {numbers[round(i * (len(numbers) - 1) / (most - 1))] for i in range(most)}
        files = [(part, tier) for part, tier in files if part.first in chosen]
    yield from _by_part(files, wanted, journals)


def one_reading(folder: Path, reading: str) -> Iterator[pl.DataFrame]:
    """One reading of all GPUs, ten minutes at a time: `time_ns` and a column per GPU. Faster than `chunks`."""
    for part, tier in sorted(_files(folder), key=lambda pair: pair[0].first):
        columns = [column for column in tier.columns if column.name == reading]
        if columns:
            values = [wide.in_units(pl.col(wide.column_name(c)), c.per_unit).alias(c.gpu) for c in columns]
            yield _load(part, tier, [reading]).select(wide.WALL.alias("time_ns"), *values)


def _stamps(files: Iterable[tuple[Part, Tier]]) -> pl.Series | None:
    """Monotonic times of the rows in the first of these files that has any."""
    loaded = (_load(part, tier, ()).select(wide.STAMP.alias("stamp"))["stamp"] for part, tier in files)
    return next((stamps for stamps in loaded if len(stamps)), None)


def _counts(folder: Path) -> Iterator[pl.DataFrame]:
    """Tables of seconds with only the number of ticks in each."""
    for _, load in _parts_of_seconds(folder, readings=()):
        yield load()[1]


def _files(folder: Path) -> Files:
    """The readable files with their tiers; lists again if compaction removed one in the meantime."""
    while True:
        try:
            sampled_parts = [part for part in parts.current(folder) if part.tier != parts.SECONDS]
            tiers = [(part, wide.tier_of(part)) for part in sampled_parts]
        except FileNotFoundError:
            continue
        return [(part, tier) for part, tier in tiers if tier is not None and tier.columns]


def _of_gpu(files: Files, gpu: str | None) -> Files:
    """The files and columns of one GPU."""
    narrowed = files if gpu is None else [(part, tier.only(gpu=gpu)) for part, tier in files]
    return [(part, tier) for part, tier in narrowed if tier.columns]


def _schema(tiers: Sequence[Tier]) -> Schema:
    schema: Schema = {**KEYS}
    for tier in sorted(tiers, key=lambda tier: -tier.hz):
        for column in tier.columns:
            schema.setdefault(column.name, pl.Int64 if column.per_unit == 1 else pl.Float64)
    return schema


def _by_part(files: Files, wanted: Sequence[str], journals: Journals | None = None) -> Iterator[pl.DataFrame]:
    """One frame per part, in order. The last ticks of slow tiers are carried into the next part."""
    carried: dict[str, Loaded] = {}
    for number in sorted({part.first for part, _ in files}):
        needed = _needed([(part, tier) for part, tier in files if part.first == number], wanted)
        loaded = [(tier, _load(part, tier, wanted, journals)) for part, tier in needed]
        before = {tier.name: carried.get(tier.name, []) for tier, _ in loaded}
        yield _joined(loaded, before, wanted)
        carried = {tier.name: [(tier, frame.tail(CARRIED))] for tier, frame in loaded}


def _needed(files: Files, wanted: Sequence[str]) -> Files:
    """Each GPU's fastest tier, whose ticks are its rows, and the tiers with a wanted reading."""
    by_rate = sorted(files, key=lambda pair: -pair[1].hz)
    fastest = {column.gpu: tier.name for _, tier in reversed(by_rate) for column in tier.columns}
    return [
        (part, tier) for part, tier in files if tier.name in fastest.values() or tier.only(wanted).columns
    ]


def _load(
    part: Part, tier: Tier, wanted: Sequence[str] | None, journals: Journals | None = None
) -> pl.DataFrame:
    columns = [wide.column_name(column) for column in tier.only(wanted).columns]
    try:
        return wide.load(part, columns, journals)
    except FileNotFoundError:  # compacted since it was listed
        files = parts.current(part.path.parent)
        return wide.load(next(p for p in files if (p.tier, p.first) == (part.tier, part.first)), columns)


def _joined(loaded: Loaded, before: dict[str, Loaded], wanted: Sequence[str]) -> pl.DataFrame:
    by_rate = sorted(loaded, key=lambda pair: -pair[0].hz)
    gpus = list(dict.fromkeys(column.gpu for tier, _ in by_rate for column in tier.columns))
    frames = [_one_gpu(gpu, by_rate, before, wanted) for gpu in gpus]
    return pl.concat(frames, how="diagonal").sort("_stamp_ns", maintain_order=True).drop("_stamp_ns")


def _one_gpu(gpu: str, by_rate: Loaded, before: dict[str, Loaded], wanted: Sequence[str]) -> pl.DataFrame:
    of_gpu = [(tier, frame) for tier, frame in by_rate if any(column.gpu == gpu for column in tier.columns)]
    fastest, frame = of_gpu[0]
    rows = frame.select(
        wide.STAMP.alias("_stamp_ns"),
        pl.from_epoch(wide.WALL, "ns").dt.replace_time_zone("UTC").alias("time"),
        pl.lit(gpu).alias("gpu"),
        *_readings(fastest, gpu, wanted),
    ).sort("_stamp_ns", maintain_order=True)
    for tier, slower in of_gpu[1:]:
        rows = _as_of(rows, [*before[tier.name], (tier, slower)], gpu, wanted)
    return rows


def _as_of(rows: pl.DataFrame, loaded: Loaded, gpu: str, wanted: Sequence[str]) -> pl.DataFrame:
    """Joins to each row the last sample taken before it, while that is fresh."""
    tier = loaded[-1][0]
    names = [column.name for column in tier.only(wanted, gpu).columns]
    if not names:
        return rows
    samples = pl.concat(
        [
            frame.select(wide.STAMP.alias("_stamp_ns"), *_readings(of_part, gpu, wanted))
            for of_part, frame in loaded
        ],
        how="diagonal",
    ).sort("_stamp_ns", maintain_order=True)
    samples = samples.with_columns(_fresh_until(tier).alias("_fresh_ns"))
    joined = rows.join_asof(samples, on="_stamp_ns", strategy="backward")
    fresh = pl.col("_stamp_ns") <= pl.col("_fresh_ns")
    return joined.with_columns(pl.when(fresh).then(pl.col(names))).drop("_fresh_ns")


def _fresh_until(tier: Tier) -> pl.Expr:
    """Until when a sample counts. Two long gaps in a row are a lowered rate; a single one is missing data."""
    gap = pl.col("_stamp_ns").diff()
    usual = pl.min_horizontal(gap, gap.shift(1)).fill_null(tier.period_ns)
    return pl.col("_stamp_ns") + FRESH_PERIODS * pl.max_horizontal(usual, pl.lit(tier.period_ns))


def _readings(tier: Tier, gpu: str, wanted: Sequence[str]) -> list[pl.Expr]:
    return [
        wide.in_units(pl.col(wide.column_name(column)), column.per_unit).alias(column.name)
        for column in tier.only(wanted, gpu).columns
    ]


def _parts_of_seconds(
    folder: Path,
    readings: Sequence[str] | None = None,
    usual: Sequence[str] = whole_seconds.USUAL,
    gpu: str | None = None,
    journals: Journals | None = None,
) -> list[tuple[int, LoadSeconds]]:
    """The parts of the table of seconds: last number and how to load it. Parts not compacted are reduced then."""
    compacted = [part for part in parts.current(folder) if part.tier == parts.SECONDS]
    done = {number for part in compacted for number in range(part.first, part.last + 1)}
    files = _of_gpu([(part, tier) for part, tier in _files(folder) if part.first not in done], gpu)
    loaders: list[tuple[int, LoadSeconds]] = []
    for part in compacted:
        loaders.append((part.last, partial(whole_seconds.load, part, readings, usual, gpu)))
    for number in sorted({part.first for part, _ in files}):
        of_part = [(part, tier) for part, tier in files if part.first == number]
        loaders.append((number, partial(_reduced, of_part, readings, journals)))
    return loaders


def _reduced(
    files: Files, readings: Sequence[str] | None, journals: Journals | None, last: int | None = None
) -> Seconds:
    table = one_second_rows(
        [(tier.only(readings), _load(part, tier, readings, journals)) for part, tier in files]
    )
    return [tier.only(readings) for _, tier in files], table if last is None else table.tail(last)


def _together(tables: Sequence[Seconds]) -> pl.DataFrame:
    tiers = list(dict.fromkeys(tier for tiers_of_table, _ in tables for tier in tiers_of_table))
    whole = whole_seconds.merged([table for _, table in tables], tiers) if tables else pl.DataFrame()
    return of_seconds(whole, tiers)


def of_seconds(whole: pl.DataFrame, tiers: Sequence[Tier], gpu: str | None = None) -> pl.DataFrame:
    """A wide table of seconds as a row per second and GPU, in units."""
    gpus = [gpu] if gpu else dict.fromkeys(column.gpu for tier in tiers for column in tier.columns)
    frames = [_seconds_of_gpu(whole, gpu, tiers) for gpu in gpus]
    if not frames:
        return pl.DataFrame(schema={**KEYS, whole_seconds.TICKS_COLUMN: pl.Int64})
    by_gpu = pl.concat(frames, how="diagonal", rechunk=True)
    by_second = np.arange(len(by_gpu)).reshape(len(frames), -1).T.ravel()  # six times faster than a sort
    return by_gpu.select(pl.all().gather(by_second)).with_columns(pl.col("time").set_sorted())


def _seconds_of_gpu(whole: pl.DataFrame, gpu: str, tiers: Sequence[Tier]) -> pl.DataFrame:
    tier_of = {column: tier for tier in tiers for column in tier.columns if column.gpu == gpu}
    readings = [
        _statistic(column, name, tier)
        for column, tier in tier_of.items()
        for name in whole_seconds.statistics(column)
        if whole_seconds.statistic_name(column, name) in whole.columns
    ]
    second = pl.col(whole_seconds.SECOND_COLUMN)
    time = pl.from_epoch(second * SECOND, "ns").dt.replace_time_zone("UTC").alias("time")
    frame = whole.select(time, pl.lit(gpu).alias("gpu"), whole_seconds.TICKS_COLUMN, *readings)
    if "energy_j_last" not in frame.columns:
        return frame
    return frame.with_columns(_energy_of_second()).drop("energy_j_first")


def _statistic(column: GpuColumn, name: str, tier: Tier) -> pl.Expr:
    """One statistic in its unit; the value of a tier of 1 Hz or less stays valid for a few periods."""
    raw = pl.col(whole_seconds.statistic_name(column, name))
    if tier.hz <= 1:
        raw = raw.forward_fill(limit=math.ceil(FRESH_PERIODS / tier.hz))
    return wide.in_units(raw, whole_seconds.per_unit(column, name)).alias(f"{column.name}_{name}")


def _energy_of_second() -> pl.Expr:
    """Energy since the second before, by the counter; null if the driver reset it."""
    last = pl.col("energy_j_last")
    follows = pl.col("time").diff() == pl.duration(seconds=1)
    before = pl.when(follows).then(last.shift(1)).otherwise(None)
    energy = last - pl.coalesce(before, pl.col("energy_j_first"))
    return pl.when(energy >= 0).then(energy).alias("energy_j")
