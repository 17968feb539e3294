"""The table of whole seconds, which keeps reports, live views and comparisons fast for a recording of a week.

Turns the ticks of all tiers into a row per second of wall time and GPU: the minimum, mean and maximum of a reading
that was sampled faster than once a second, the value of a slower one. It is computed when a part is compacted, or
when it is read before that, so it costs the sampler nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import ticks
from gputel.telemetry.store.parts import Part
from gputel.telemetry.store.tier_join import FRESH_PERIODS
from gputel.telemetry.store.tiers import GPU, MEAN_PARTS, Tier, TierColumn

STATISTICS = {
    "throttle": ("any", "last"),  # a mask of bits: `any` is each bit that was set
    "energy_j": ("first", "last"),  # a counter
}
USUAL = ("min", "mean", "max")
LAST = "last"  # of every reading, only while it is recorded
TIME_COLUMN, TICKS_COLUMN = "time", "ticks"
KEYS = (TIME_COLUMN, GPU)


class SecondRows(NamedTuple):
    """Rows of seconds, and the rate in Hz of each reading that was sampled once a second or more rarely."""

    slow: dict[str, float]
    frame: pl.DataFrame


NOTHING = SecondRows(
    {}, pl.DataFrame(schema={TIME_COLUMN: pl.Datetime("us", "UTC"), GPU: pl.String, TICKS_COLUMN: pl.Int64})
)


def one_second_rows(
    loaded: Sequence[tuple[Tier, pl.DataFrame]], gpu: str | None = None, *, last: bool = False
) -> SecondRows:
    """The seconds of one part, given its ticks of all GPUs, or of one.

    `last` adds the last value of every reading, for those who follow a recording.
    """
    by_rate = sorted(loaded, key=lambda pair: -pair[0].hz)
    gpus = (
        list(dict.fromkeys(name for tier, _ in by_rate for name in tier.subjects)) if gpu is None else [gpu]
    )
    tables = [_of_tier(tier, frame, gpus, last=last) for tier, frame in by_rate]
    whole = tables[0]
    for table in tables[1:]:
        whole = _joined(whole, table.with_columns(pl.lit(None, pl.Int64).alias(TICKS_COLUMN)))
    return SecondRows(
        slow_readings(tier for tier, _ in loaded), _named(whole.sort("_gpu", TIME_COLUMN), gpus)
    )


def load(
    part: Part,
    readings: Sequence[str] | None = None,
    usual: Sequence[str] = USUAL,
    gpu: str | None = None,
    last: int | None = None,
) -> SecondRows:
    """A compacted table of seconds.

    Reads all of it, or only some readings, some statistics of USUAL, one GPU, or the `last` seconds.
    """
    file = part.path.stat()
    slow, columns = _description(part.path, file.st_mtime_ns, file.st_size)
    names = [name for name in columns if _is_wanted(name, readings, usual)]
    lazy = pl.scan_parquet(part.path, glob=False).select(*KEYS, TICKS_COLUMN, *names)
    if gpu is not None:
        lazy = lazy.filter(pl.col(GPU) == gpu)
    frame = lazy.collect()
    return SecondRows(slow, frame if last is None else latest(frame, last))


def latest(frame: pl.DataFrame, seconds: int) -> pl.DataFrame:
    """The last seconds of each GPU."""
    return frame.group_by(GPU, maintain_order=True).tail(seconds).select(frame.columns)


def slow_readings(tiers: Iterable[Tier]) -> dict[str, float]:
    """The rate of each reading that is sampled once a second or more rarely."""
    return {name: tier.hz for tier in tiers if is_slow(tier) for name in tier.readings}


def is_slow(tier: Tier) -> bool:
    return tier.hz <= 1


def merged(tables: Sequence[SecondRows]) -> SecondRows:
    """Tables of several parts as one. A second that a restart cut in two becomes one row."""
    if len(tables) == 1:
        return tables[0]
    slow = {name: hz for table in tables for name, hz in table.slow.items()}
    whole = pl.concat([table.frame for table in tables], how="diagonal")
    gpus = whole[GPU].unique(maintain_order=True).to_list()
    keyed = _keyed(whole.drop(GPU), whole[GPU], gpus).sort("_gpu", TIME_COLUMN, maintain_order=True)
    if ((keyed["_gpu"].diff() == 0) & (keyed[TIME_COLUMN].diff() == timedelta())).any():
        again = [_statistic_again(name) for name in keyed.columns[3:]]
        ticks_of_both = pl.col(TICKS_COLUMN).sum()
        keyed = keyed.group_by("_gpu", TIME_COLUMN, maintain_order=True).agg(ticks_of_both, *again)
    return SecondRows(slow, _named(keyed, gpus))


def readable(table: SecondRows) -> pl.DataFrame:
    """The table as readers get it: second by second, the slow readings and the energy filled in."""
    frame = table.frame.with_columns(pl.col(TIME_COLUMN).cast(pl.Datetime("ns", "UTC")))
    for name, hz in table.slow.items():
        frame = _with_slow(frame, name, math.ceil(FRESH_PERIODS / hz))
    if "energy_j_last" in frame.columns:
        frame = frame.with_columns(_energy_of_second()).drop("energy_j_first")
    return _second_by_second(frame)


@lru_cache(maxsize=1024)
def _description(path: Path, _mtime_ns: int, _size: int) -> tuple[dict[str, float], list[str]]:
    """The slow readings and the columns of a file; cached, because every reader asks for each GPU."""
    facts = ticks.metadata(path)
    schema = pl.read_parquet_schema(path)
    kinds = {TIME_COLUMN: pl.Datetime("us", "UTC"), GPU: pl.String, TICKS_COLUMN: pl.Int64}
    if any(schema.get(name) != of_column for name, of_column in kinds.items()):
        raise ValueError("its columns are not those of a table of seconds")
    if not all(0 < hz <= 1 for hz in facts["slow"].values()):
        raise ValueError("its slow readings are not slow")
    return facts["slow"], [name for name in schema if name not in kinds]


def _is_wanted(column: str, readings: Collection[str] | None, usual: Collection[str]) -> bool:
    reading, _, statistic = column.rpartition("_")
    if readings is not None and column not in readings and reading not in readings:
        return False
    return statistic not in USUAL or statistic in usual


def _of_tier(tier: Tier, frame: pl.DataFrame, gpus: Sequence[str], *, last: bool) -> pl.DataFrame:
    """A row per second and GPU, which is named by its place in `gpus`."""
    reduced = [
        _statistic(column, name)
        for column in tier.readings.values()
        if column.name in frame.columns
        for name in _statistics(column, tier, last)
    ]
    places = [gpus.index(gpu) for gpu in tier.subjects if gpu in gpus]
    place = pl.Series("_gpu", np.repeat(places, len(frame) // len(places)), pl.Int64)
    second = pl.from_epoch(ticks.WALL // SECOND, "s").dt.cast_time_unit("us").dt.replace_time_zone("UTC")
    return frame.group_by(place, second.alias(TIME_COLUMN), maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias(TICKS_COLUMN), *reduced
    )


def _joined(whole: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """Adds the readings of a slower tier. One that is fast on one GPU and slow on another gets both."""
    joined = whole.join(table, on=["_gpu", TIME_COLUMN], how="full", coalesce=True, suffix="_again")
    again = [name for name in whole.columns[2:] if name in table.columns]
    filled = [pl.coalesce(name, f"{name}_again").alias(name) for name in again]
    return joined.with_columns(filled).drop(f"{name}_again" for name in again)


def _keyed(frame: pl.DataFrame, names: pl.Series, gpus: Sequence[str]) -> pl.DataFrame:
    """Replaces the GPU's name by its number in `gpus`, by which rows are grouped and sorted."""
    number = names.cast(pl.Enum(gpus)).to_physical().alias("_gpu")
    return frame.insert_column(0, number)


def _named(keyed: pl.DataFrame, gpus: Sequence[str]) -> pl.DataFrame:
    names = pl.Series(GPU, gpus, pl.String).gather(keyed["_gpu"])
    return keyed.select(TIME_COLUMN, names, pl.exclude("_gpu", TIME_COLUMN))


def _statistics(column: TierColumn, tier: Tier, last: bool) -> tuple[str, ...]:
    """The statistics of a reading; "" is its value alone."""
    if column.name in STATISTICS:
        return STATISTICS[column.name]
    return (("",) if is_slow(tier) else USUAL) + ((LAST,) if last else ())


def _statistic(column: TierColumn, statistic: str) -> pl.Expr:
    values = pl.col(column.name)
    name = f"{column.name}_{statistic}" if statistic else column.name
    if statistic == "mean":
        parts = column.per_unit * MEAN_PARTS
        counts = (values.mean() * parts).round()
        # divided by a constant, 0.367 is 0.36700000000000005
        return (counts / (counts * 0 + parts)).alias(name)
    return _aggregated(values, statistic or LAST).alias(name)


def _statistic_again(name: str) -> pl.Expr:
    values, (_, _, statistic) = pl.col(name), name.rpartition("_")
    if statistic == "mean":
        weight = pl.when(values.is_not_null()).then(pl.col(TICKS_COLUMN))
        return ((values * weight).sum() / weight.sum()).fill_nan(None)
    return _aggregated(values, statistic)


def _aggregated(values: pl.Expr, statistic: str) -> pl.Expr:
    if statistic == "min":
        return values.min()
    if statistic == "max":
        return values.max()
    if statistic == "first":
        return values.drop_nulls().first()
    return values.bitwise_or() if statistic == "any" else values.drop_nulls().last()


def _with_slow(frame: pl.DataFrame, name: str, seconds_fresh: int) -> pl.DataFrame:
    """Gives a slow reading the columns of a fast one; its value stays valid for a few periods."""
    if name not in frame.columns:
        return frame
    value = pl.col(name).forward_fill(seconds_fresh).over(GPU)
    filled = []
    for statistic in USUAL:
        column = f"{name}_{statistic}"
        of_statistic = value.cast(pl.Float64) if statistic == "mean" else value
        fast = [pl.col(column)] if column in frame.columns else []
        filled.append(pl.coalesce(*fast, of_statistic).alias(column))
    return frame.with_columns(filled).drop(name)


def _second_by_second(frame: pl.DataFrame) -> pl.DataFrame:
    """Orders rows by time; a gather is six times faster than a sort where all GPUs have the same seconds."""
    gpus = frame[GPU].n_unique()
    if not len(frame) or len(frame) % gpus:
        return frame.sort(TIME_COLUMN, maintain_order=True)
    by_gpu = frame[TIME_COLUMN].to_physical().to_numpy().reshape(gpus, -1)
    if not (by_gpu == by_gpu[0]).all():
        return frame.sort(TIME_COLUMN, maintain_order=True)
    order = np.arange(len(frame)).reshape(gpus, -1).T.ravel()
    return frame.select(pl.all().gather(order)).with_columns(pl.col(TIME_COLUMN).set_sorted())


def _energy_of_second() -> pl.Expr:
    """Energy since the second before, by the counter; null if the driver reset it."""
    last = pl.col("energy_j_last")
    follows = (pl.col(TIME_COLUMN).diff() == pl.duration(seconds=1)) & (pl.col(GPU) == pl.col(GPU).shift(1))
    before = pl.when(follows).then(last.shift(1)).otherwise(None)
    energy = last - pl.coalesce(before, pl.col("energy_j_first"))
    return pl.when(energy >= 0).then(energy).alias("energy_j")
