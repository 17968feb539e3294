"""Reads the folder of a table, such as gpu/, as frames: a row per tick and GPU or other subject, in its units.

The rows are those of each GPU's fastest tier. A slower reading joins as of its own time, never from the future,
and becomes null after its tier has been silent for a few periods. Journals and Parquet files give the same rows,
so it does not matter how far a recording has been compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.io.plugins import register_io_source

from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import parts, tier_join
from gputel.telemetry.store import seconds as whole_seconds
from gputel.telemetry.store import ticks as stored
from gputel.telemetry.store.damage import attempt
from gputel.telemetry.store.parts import Part
from gputel.telemetry.store.seconds import SecondRows, one_second_rows
from gputel.telemetry.store.ticks import PartCache, kind
from gputel.telemetry.store.tier_join import TierTicks
from gputel.telemetry.store.tiers import GPU, Tier

Schema: TypeAlias = dict[str, pl.DataType | type[pl.DataType]]

TIME: Schema = {"time": pl.Datetime("ns", "UTC")}
KEYS: Schema = {**TIME, GPU: pl.String}
CARRIED = 8  # ticks of a slower tier that are carried into the next part

Files: TypeAlias = list[tuple[Part, Tier]]
LoadSeconds: TypeAlias = Callable[..., SecondRows]  # takes `last`, a number of seconds, or none for all


class TickSelection(NamedTuple):
    """Some readings and one GPU, or all; files come from `cache`, if given."""

    readings: Sequence[str] | None = None
    gpu: str | None = None
    cache: PartCache | None = None


EVERYTHING = TickSelection()


def ticks(
    folder: Path,
    readings: Sequence[str] | None = None,
    gpu: str | None = None,
    cache: PartCache | None = None,
) -> pl.DataFrame:
    """All ticks in one frame, or those of some readings or one GPU; use `scan` for what memory cannot hold."""
    files = _of_gpu(tier_files(folder), gpu)
    schema = _schema([tier.only(readings, gpu) for _, tier in files])
    frames = [pl.DataFrame(schema=schema), *_by_part(files, TickSelection(list(schema), gpu, cache))]
    return pl.concat(frames, how="diagonal").select(*schema)


def scan(folder: Path) -> pl.LazyFrame:
    """The rows of `ticks` as a lazy frame: reads only the columns it needs, with one part in memory."""
    files = tier_files(folder)
    return lazy(_schema([tier for _, tier in files]), lambda names: _by_part(files, TickSelection(names)))


def lazy(schema: Schema, read: Callable[[Sequence[str]], Iterable[pl.DataFrame]]) -> pl.LazyFrame:
    """A lazy frame of the frames that `read` yields, given the columns that are needed; adds those they lack."""

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = {name: kind for name, kind in schema.items() if columns is None or name in columns}
        remaining = rows
        for frame in read(list(wanted)):
            whole = pl.concat([pl.DataFrame(schema=wanted), frame], how="diagonal").select(*wanted)
            if remaining is not None:
                whole = whole.head(remaining)
                remaining -= len(whole)
            yield whole if predicate is None else whole.filter(predicate)
            if remaining == 0:
                return

    return register_io_source(source, schema=schema, is_pure=True)


def seconds(folder: Path, readings: Sequence[str] | None = None) -> pl.DataFrame:
    """A row per second and GPU: `power_w_min`, `_mean`, `_max` and so on, and the second's `energy_j`."""
    return _together([load() for _, load in _parts_of_seconds(folder, TickSelection(readings))])


def last_seconds(folder: Path, count: int, before: int | None = None) -> pl.DataFrame:
    """The last `count` seconds of `seconds`, from parts numbered below `before`; older parts are not read."""
    tables: list[SecondRows] = []
    for number, load in reversed(_parts_of_seconds(folder)):
        missing = count - sum(table.frame["time"].n_unique() for table in tables)
        if missing > 0 and (before is None or number < before):
            tables.insert(0, load(last=missing))
    return _together(tables)


def seconds_in_turn(
    folder: Path,
    readings: Sequence[str],
    usual: Sequence[str] = whole_seconds.USUAL,
    gpu: str | None = None,
    cache: PartCache | None = None,
) -> Iterator[pl.DataFrame]:
    """The rows of `seconds` an hour at a time, for some readings and statistics; one GPU comes in whole parts."""
    for _, load in _parts_of_seconds(folder, TickSelection(readings, gpu, cache), usual):
        whole = whole_seconds.readable(load())
        if gpu is not None:
            yield whole
            continue
        for _, hour in whole.group_by(pl.col("time").dt.truncate("1h"), maintain_order=True):
            yield hour


class Sampled(NamedTuple):
    """Number of rows of the fastest tier, and seconds from the first row to the last, gaps included.

    By deadlines: a first row that was late, as on a busy machine, would make a short recording faster than it was.
    """

    rows: int
    seconds: float


def sampled(folder: Path) -> Sampled | None:
    """What was actually sampled, not what was planned; None with fewer than two rows."""
    files = tier_files(folder)
    fastest = max((tier for _, tier in files), key=lambda tier: tier.hz, default=None)
    of_fastest = [(part, tier) for part, tier in files if fastest and tier.name == fastest.name]
    first, last = _deadlines(of_fastest), _deadlines(reversed(of_fastest))
    rows = sum(_count(load().frame) for _, load in _parts_of_seconds(folder, TickSelection(())))
    if first is None or last is None or rows < 2:
        return None
    return Sampled(rows, (int(last[-1]) - int(first[0])) / SECOND)


def columns(folder: Path) -> dict[tuple[str, str], pl.DataType | type[pl.DataType]]:
    """The recorded columns, by GPU and reading, without reading a tick."""
    tiers = sorted((tier for _, tier in tier_files(folder)), key=lambda tier: -tier.hz)
    kinds = _schema(tiers)
    return {(column.subject, column.name): kinds[column.name] for tier in tiers for column in tier.columns}


def read_hz(folder: Path) -> dict[str, dict[str, float]]:
    """How often each reading of each GPU was read; of several rates the lowest."""
    rates: dict[str, dict[str, float]] = {}
    for tier in sorted((tier for _, tier in tier_files(folder)), key=lambda tier: -tier.hz):
        for column in tier.columns:
            rates.setdefault(column.subject, {})[column.name] = tier.hz
    return rates


def count_chunks(folder: Path) -> int:
    return len({part.first for part, _ in tier_files(folder)})


def chunks(
    folder: Path,
    readings: Sequence[str] | None = None,
    most: int | None = None,
    gpu: str | None = None,
    cache: PartCache | None = None,
) -> Iterator[pl.DataFrame]:
    """The rows of `ticks`, ten minutes at a time; at most `most` chunks, spread over the recording."""
    files = _of_gpu(tier_files(folder), gpu)
    wanted = list(_schema([tier.only(subject=gpu) for _, tier in files])) if readings is None else readings
    numbers = sorted({part.first for part, _ in files})
    if most is not None and len(numbers) > most:
        chosen = {numbers[round(i * (len(numbers) - 1) / (most - 1))] for i in range(most)}
        files = [(part, tier) for part, tier in files if part.first in chosen]
    yield from _by_part(files, TickSelection(wanted, gpu, cache))


def one_reading(folder: Path, reading: str) -> Iterator[pl.DataFrame]:
    """One reading of all GPUs, ten minutes at a time: `time_ns` and a column per GPU. Faster than `chunks`."""
    for part, tier in sorted(tier_files(folder), key=lambda pair: pair[0].first):
        if reading in tier.readings:
            ticks_of_tier = _load(part, tier, TickSelection([reading]))
            values, count = ticks_of_tier.readings[reading], len(ticks_of_tier.stamps)
            by_gpu = [
                values.slice(place * count, count).alias(gpu)
                for place, gpu in enumerate(ticks_of_tier.gpus)
                if (gpu, reading) in {(column.subject, column.name) for column in tier.columns}
            ]
            yield pl.DataFrame([ticks_of_tier.times.dt.epoch("ns").alias("time_ns"), *by_gpu])


def _deadlines(files: Iterable[tuple[Part, Tier]]) -> npt.NDArray[np.int64] | None:
    """Monotonic deadlines of the rows in the first of these files that has any."""
    loaded = (part_ticks(part, tier, TickSelection((), tier.subjects[0])) for part, tier in files)
    frame = next((frame for frame in loaded if len(frame)), None)
    return None if frame is None else frame.select(stored.DEADLINE).to_series().to_numpy()


def _count(seconds_of_part: pl.DataFrame) -> int:
    """The ticks in a table of seconds; each GPU has a row for the same tick."""
    by_gpu = seconds_of_part.group_by(GPU).agg(pl.col(whole_seconds.TICKS_COLUMN).sum())
    most: int | None = by_gpu[whole_seconds.TICKS_COLUMN].max()  # type: ignore[assignment]
    return most or 0


def tier_files(folder: Path) -> Files:
    """The readable files with their tiers; lists again if compaction removed one in the meantime."""
    while True:
        try:
            sampled_parts = [part for part in parts.current(folder) if part.tier != parts.SECONDS]
            tiers = [
                (part, attempt(part.path, partial(stored.tier_of, part), None)) for part in sampled_parts
            ]
        except FileNotFoundError:
            continue
        return [(part, tier) for part, tier in tiers if tier is not None and tier.columns]


def _of_gpu(files: Files, gpu: str | None) -> Files:
    """The files that have this GPU."""
    return [(part, tier) for part, tier in files if gpu is None or gpu in tier.subjects]


def _schema(tiers: Sequence[Tier]) -> Schema:
    schema: Schema = {**TIME, **stored.subject_column(tiers[0])} if tiers else {**KEYS}
    for tier in sorted(tiers, key=lambda tier: -tier.hz):
        for column in tier.columns:
            schema.setdefault(column.name, kind(column.per_unit))
    return schema


def _by_part(files: Files, selection: TickSelection) -> Iterator[pl.DataFrame]:
    """One frame per part, in order. The last ticks of slow tiers are carried into the next part."""
    earlier: dict[str, TierTicks] = {}
    numbers = sorted({part.first for part, _ in files})
    for number in numbers:
        needed = _needed([(part, tier) for part, tier in files if part.first == number], selection.readings)
        loaded = [_load(part, tier, selection) for part, tier in needed]
        yield tier_join.joined(loaded, earlier)
        if number < numbers[-1]:
            earlier = {ticks_of_tier.tier.name: ticks_of_tier.last(CARRIED) for ticks_of_tier in loaded}


def _needed(files: Files, readings: Sequence[str] | None) -> Files:
    """Each GPU's fastest tier, whose ticks are its rows, and the tiers with a wanted reading."""
    by_rate = sorted(files, key=lambda pair: -pair[1].hz)
    fastest = {gpu: tier.name for _, tier in reversed(by_rate) for gpu in tier.subjects}
    return [
        (part, tier) for part, tier in files if tier.name in fastest.values() or tier.only(readings).columns
    ]


def _load(part: Part, tier: Tier, selection: TickSelection) -> TierTicks:
    return tier_join.of_frame(tier, part_ticks(part, tier, selection), selection.gpu)


def part_ticks(part: Part, tier: Tier, selection: TickSelection) -> pl.DataFrame:
    """The ticks of one file, compacted since it was listed or not."""
    try:
        return stored.load(part, tier, *selection)
    except FileNotFoundError:  # compacted since it was listed
        files = parts.current(part.path.parent)
        again = next(p for p in files if (p.tier, p.first) == (part.tier, part.first))
        return stored.load(again, tier, *selection)


def _parts_of_seconds(
    folder: Path, selection: TickSelection = EVERYTHING, usual: Sequence[str] = whole_seconds.USUAL
) -> list[tuple[int, LoadSeconds]]:
    """The parts of the table of seconds: last number and how to load it. Parts not compacted are reduced then."""
    compacted = [part for part in parts.current(folder) if part.tier == parts.SECONDS]
    done = {number for part in compacted for number in range(part.first, part.last + 1)}
    files = _of_gpu(tier_files(folder), selection.gpu)
    loaders: list[tuple[int, LoadSeconds]] = [
        (part.last, partial(_loaded, part, files, selection, usual)) for part in compacted
    ]
    for number in sorted({part.first for part, _ in files if part.first not in done}):
        of_part = [(part, tier) for part, tier in files if part.first == number]
        loaders.append((number, partial(_reduced, of_part, selection)))
    return loaders


def _loaded(
    part: Part, files: Files, selection: TickSelection, usual: Sequence[str], last: int | None = None
) -> SecondRows:
    """A table of seconds, or the ticks of its parts as seconds if it is damaged."""
    load = partial(whole_seconds.load, part, selection.readings, usual, selection.gpu, last)
    table = attempt(part.path, load, None)
    if table is not None:
        return table
    numbers = sorted({ticked.first for ticked, _ in files if part.first <= ticked.first <= part.last})
    tables = [_reduced([pair for pair in files if pair[0].first == n], selection, last) for n in numbers]
    return whole_seconds.merged(tables) if tables else whole_seconds.NOTHING


def _reduced(files: Files, selection: TickSelection, last: int | None = None) -> SecondRows:
    loaded = [(tier, part_ticks(part, tier, selection)) for part, tier in files]
    table = one_second_rows(loaded, selection.gpu)
    return table if last is None else SecondRows(table.slow, whole_seconds.latest(table.frame, last))


def _together(tables: Sequence[SecondRows]) -> pl.DataFrame:
    if not tables:
        return pl.DataFrame(schema={**KEYS, whole_seconds.TICKS_COLUMN: pl.Int64})
    return whole_seconds.readable(whole_seconds.merged(tables))
