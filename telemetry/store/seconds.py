"""The table of whole seconds, which keeps reports, live views and comparisons fast for a recording of a week.

Turns wide tables of ticks into one wide table of integers: a row per second of wall time with the minimum, mean,
maximum and last value of each reading (the mean in hundredths). It is computed when a part is compacted, or when
it is read before that, so it costs the sampler nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import polars as pl

from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import wide
from gputel.telemetry.store.parts import Part
from gputel.telemetry.store.tiers import GpuColumn, Tier, tier_from_json

MEAN_PARTS = 100
STATISTICS = {
    "throttle": ("any", "last"),  # a mask of bits: `any` is each bit that was set
    "energy_j": ("first", "last"),  # a counter
}
USUAL = ("min", "mean", "max", "last")
SECOND_COLUMN, TICKS_COLUMN = "second", "ticks"


def one_second_rows(loaded: Sequence[tuple[Tier, pl.DataFrame]]) -> pl.DataFrame:
    """The seconds of one part. A tier slower than 1 Hz has seconds without a value."""
    by_rate = sorted(loaded, key=lambda pair: -pair[0].hz)
    tables = [_of_tier(tier, frame, counts=index == 0) for index, (tier, frame) in enumerate(by_rate)]
    whole = tables[0]
    for table in tables[1:]:
        whole = whole.join(table, on=SECOND_COLUMN, how="full", coalesce=True)
    return whole.sort(SECOND_COLUMN)


def load(
    part: Part,
    readings: Sequence[str] | None = None,
    usual: Sequence[str] = USUAL,
    gpu: str | None = None,
    last: int | None = None,
) -> tuple[list[Tier], pl.DataFrame]:
    """A compacted table of seconds and the tiers it was made from.

    Reads all of it, or only some readings, some statistics of USUAL, one GPU, or the `last` rows.
    """
    file = part.path.stat()
    tiers = [tier.only(readings, gpu) for tier in _tiers_of(part.path, file.st_mtime_ns, file.st_size)]
    names = [
        statistic_name(column, name)
        for tier in tiers
        for column in tier.columns
        for name in statistics(column)
        if name in usual or column.name in STATISTICS
    ]
    columns = list(dict.fromkeys([SECOND_COLUMN, TICKS_COLUMN, *names]))
    if last is not None:
        return tiers, pl.scan_parquet(part.path).tail(last).select(columns).collect()
    return tiers, pl.read_parquet(part.path, columns=columns)


@lru_cache(maxsize=1024)
def _tiers_of(path: Path, _mtime_ns: int, _size: int) -> list[Tier]:
    """The tiers in a file's metadata; cached, because every reader asks for each GPU."""
    facts = json.loads(pl.read_parquet_metadata(path)[wide.KEY])
    return [tier_from_json(tier) for tier in facts["tiers"]]


def merged(frames: Sequence[pl.DataFrame], tiers: Sequence[Tier]) -> pl.DataFrame:
    """Tables of several parts as one. A second that a restart cut in two becomes one row."""
    whole = pl.concat([*frames], how="diagonal")
    if (whole[SECOND_COLUMN].diff() > 0).all():
        return whole
    columns = dict.fromkeys(column for tier in tiers for column in tier.columns)
    again = [
        _statistic_again(statistic_name(column, name), name)
        for column in columns
        for name in statistics(column)
    ]
    ticks = pl.col(TICKS_COLUMN).sum()
    return whole.group_by(SECOND_COLUMN, maintain_order=True).agg(ticks, *again).sort(SECOND_COLUMN)


def statistics(column: GpuColumn) -> tuple[str, ...]:
    """The statistics kept of a reading in each second."""
    return STATISTICS.get(column.name, USUAL)


def statistic_name(column: GpuColumn, statistic: str) -> str:
    """The name of a statistic's column: `0.power_w.mean`."""
    return f"{wide.column_name(column)}.{statistic}"


def per_unit(column: GpuColumn, statistic: str) -> int:
    """The divisor that turns a statistic's integers into the reading's unit."""
    return column.per_unit * (MEAN_PARTS if statistic == "mean" else 1)


def _of_tier(tier: Tier, frame: pl.DataFrame, *, counts: bool) -> pl.DataFrame:
    second = wide.WALL.floordiv(SECOND).alias(SECOND_COLUMN)
    reduced = [
        _statistic(column, name).alias(statistic_name(column, name))
        for column in tier.columns
        for name in statistics(column)
    ]
    ticks = [pl.len().cast(pl.Int64).alias(TICKS_COLUMN)] if counts else []
    return frame.group_by(second, maintain_order=True).agg(*ticks, *reduced)


def _statistic(column: GpuColumn, statistic: str) -> pl.Expr:
    values = pl.col(wide.column_name(column))
    if statistic == "mean":
        return _whole(values.mean() * MEAN_PARTS)
    return _aggregated(values, statistic)


def _statistic_again(name: str, statistic: str) -> pl.Expr:
    values = pl.col(name)
    if statistic == "mean":
        weight = pl.when(values.is_not_null()).then(pl.col(TICKS_COLUMN))
        return _whole((values * weight).sum() / weight.sum())
    return _aggregated(values, statistic)


def _aggregated(values: pl.Expr, statistic: str) -> pl.Expr:
    present = values.drop_nulls()
    return {
        "min": values.min,
        "max": values.max,
        "first": present.first,
        "last": present.last,
        "any": values.bitwise_or,
    }[statistic]()


def _whole(values: pl.Expr) -> pl.Expr:
    return values.round().cast(pl.Int64, strict=False)
