"""A table of counters, such as host/ or disk/, as whole seconds: what each counter grew by, over the time it took.

The time is that between the two reads, so that a late tick makes no rate too high. A counter that fell has been
reset: its rate is null, as it is after a gap and of a subject's first read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import polars as pl

from gputel.telemetry.clock import SECOND
from gputel.telemetry.host import process_seconds
from gputel.telemetry.host.columns import HOST, RATES, STORED, Rate
from gputel.telemetry.store import ticks
from gputel.telemetry.store.frames import EVERYTHING, TIME, Schema, part_ticks, tier_files
from gputel.telemetry.store.tiers import PROCESS, WITHOUT_SUBJECT, Tier

LONGEST_S = 65
"""Between two reads of a counter: a source that is too expensive is read once a minute."""
SUBJECT = "_subject"
KEYS = (SUBJECT, "time")
DECIMALS = 6
LOOK = "_look"
NUMBERS_OF_PROCESS = ("pid", "start")


def schema(table: str) -> Schema:
    """The columns of `seconds`."""
    subject: Schema = {} if table in WITHOUT_SUBJECT else {table: pl.String}
    rates = [rate.name for rate in RATES[table]]
    figures: Schema = dict.fromkeys([*rates, *_gauges(table)], pl.Float64)
    if table == PROCESS:
        words: Schema = dict.fromkeys(process_seconds.WORDS, pl.String)
        return {**TIME, **process_seconds.LABELS, **figures, **words}
    return {**TIME, **subject, **figures}


def tick_schema(table: str) -> Schema:
    """The columns of its ticks."""
    subject: Schema = {} if table in WITHOUT_SUBJECT else {table: pl.String}
    columns = [column for tier in STORED[table].values() for column in tier]
    return {**TIME, **subject, **{column.name: ticks.kind(column.per_unit) for column in columns}}


def seconds(folder: Path) -> pl.DataFrame:
    """A row a second and subject of the table in this folder, in the order of time."""
    frame = _rates(folder.name, _parts(folder))
    if folder.name == PROCESS and not frame.is_empty():
        frame = process_seconds.labeled(frame, folder)
    return _typed(folder.name, frame)


def of_ticks(table: str, loaded: Sequence[tuple[Tier, pl.DataFrame]]) -> pl.DataFrame:
    """Whole seconds of the ticks of one part; not of processes, whose names are in a file."""
    return _typed(table, _rates(table, [_side_by_side(loaded)]))


def _rates(table: str, tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    whole = pl.concat([pl.DataFrame(schema={SUBJECT: pl.String, **TIME}), *tables], how="diagonal")
    whole = _once(whole.sort(KEYS, maintain_order=True))
    rates = [
        _rate(rate, looked=table == PROCESS).alias(rate.name)
        for rate in RATES[table]
        if rate.counter in whole.columns
    ]
    return whole.with_columns(rates).rename({SUBJECT: table} if table != HOST else {})


def _typed(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Keeps the columns of `schema` alone, in the order of time."""
    kinds = schema(table)
    missing = [pl.lit(None, kind).alias(name) for name, kind in kinds.items() if name not in frame.columns]
    typed = [pl.col(name).cast(kind) for name, kind in kinds.items()]
    return frame.with_columns(missing).select(typed).sort("time", maintain_order=True)


def _gauges(table: str) -> list[str]:
    names = [column.name for tier in STORED[table].values() for column in tier]
    return [name for name in names if not _is_counter(name) and name not in NUMBERS_OF_PROCESS]


def _is_counter(name: str) -> bool:
    return name.endswith("_total")


def _parts(folder: Path) -> Iterator[pl.DataFrame]:
    """The seconds of each part, all its tiers side by side."""
    by_number = sorted(tier_files(folder), key=lambda pair: pair[0].first)
    for _, group in groupby(by_number, key=lambda pair: pair[0].first):
        yield _side_by_side([(tier, part_ticks(part, tier, EVERYTHING)) for part, tier in group])


def _side_by_side(loaded: Sequence[tuple[Tier, pl.DataFrame]]) -> pl.DataFrame:
    tables = [_reduced(tier, frame) for tier, frame in loaded]
    whole = tables[0]
    for table in tables[1:]:
        whole = whole.join(table, on=KEYS, how="full", coalesce=True)
    return whole


def _reduced(tier: Tier, frame: pl.DataFrame) -> pl.DataFrame:
    """A row a second and subject: each counter's first and last value and when it was read."""
    second = pl.from_epoch(ticks.WALL // SECOND, "s").cast(TIME["time"])
    keyed = frame.with_columns(_subject(frame, tier), second.alias("time"), ticks.STAMP.alias("_stamp"))
    looks = keyed.select(pl.col("_stamp").unique().sort()).with_columns(pl.col("_stamp").shift(1).alias(LOOK))
    keyed = keyed.join(looks, on="_stamp", how="left", maintain_order="left")
    return keyed.group_by(KEYS, maintain_order=True).agg(
        *(expression for name in tier.readings for expression in _statistics(name)),
        *([pl.col(LOOK).first()] if tier.table == PROCESS else []),
    )


def _subject(frame: pl.DataFrame, tier: Tier) -> pl.Expr | pl.Series:
    if tier.table == PROCESS:
        return pl.format("{}.{}", *NUMBERS_OF_PROCESS).alias(SUBJECT)
    place = np.repeat(np.arange(len(tier.subjects)), len(frame) // len(tier.subjects))
    return pl.Series(SUBJECT, tier.subjects, pl.String).gather(place)


def _statistics(name: str) -> list[pl.Expr]:
    values = pl.col(name)
    if not _is_counter(name):
        return [values.last() if name in process_seconds.WORDS else values.mean()]
    read = pl.col("_stamp").filter(values.is_not_null())
    return [
        values.drop_nulls().last(),
        values.drop_nulls().first().alias(f"{name}_first"),
        read.last().alias(f"{name}_at"),
        read.first().alias(f"{name}_first_at"),
    ]


def _once(frame: pl.DataFrame) -> pl.DataFrame:
    """A second that a restart cut in two as one row."""
    if not frame.select(KEYS).is_duplicated().any():
        return frame
    firsts = [name for name in frame.columns if name.endswith(("_first", "_first_at"))]
    rest = [name for name in frame.columns if name not in (*KEYS, *firsts)]
    return frame.group_by(KEYS, maintain_order=True).agg(
        pl.col(rest).drop_nulls().last(), pl.col(firsts).drop_nulls().first()
    )


def _rate(rate: Rate, *, looked: bool) -> pl.Expr:
    """A rate; with `looked`, since the last look at any process: one without a change has no row."""
    grew, took_s = _growth(rate.counter), _took_s(rate.counter, [pl.col(LOOK)] if looked else [])
    known = (took_s > 0) & (took_s <= LONGEST_S)
    if rate.per == "second":
        value = grew / took_s
    elif rate.per is None:
        value = grew.cast(pl.Float64)
    else:
        over = _growth(rate.per)
        value, known = grew / over, known & (over > 0)
    return pl.when(known & (grew >= 0)).then((value * rate.scale).round(DECIMALS))


def _growth(counter: str) -> pl.Expr:
    return pl.col(counter) - _before(counter, f"{counter}_first")


def _took_s(counter: str, looks: Sequence[pl.Expr]) -> pl.Expr:
    since = pl.max_horizontal(_before(f"{counter}_at", f"{counter}_first_at"), *looks)
    return (pl.col(f"{counter}_at") - since) / SECOND


def _before(last: str, first: str) -> pl.Expr:
    """The value at the last read before this second, else at the first within it."""
    return pl.coalesce(pl.col(last).forward_fill().shift(1).over(SUBJECT), first)
