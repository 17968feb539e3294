"""A timed log whose lines come late -> the same log with the times at which its steps ended.

A loop that reads a step's loss while the next step runs prints each line late, but the last one before an
evaluation or a checkpoint at once. So the gap before that line is short by as much as the gap behind the pause is
long. Only printed step times tell this from a short step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.runs.record_gaps import FINE, SURE, rounding_error

if TYPE_CHECKING:
    from gputel.analysis.align.timed_log import TimedLog

LATE = 0.1  # of a step: lines that come later than this are late
LATEST = 1.5  # steps: what is longer is no wait for the next step
FEWEST = 3  # stretches, from which on coarse timestamps show how late lines come


def on_time(placed: TimedLog) -> TimedLog:
    """Moves records to the ends of their steps, if the log shows that its lines come late."""
    if "dt_ms" not in placed.records.columns:
        return placed
    place = [name for name in ("node", "phase", "attempt") if name in placed.records.columns]
    rows = _records(placed, place)
    stretches = _stretches(rows)
    if stretches.is_empty():
        return placed
    usual: Any = stretches["usual"].median()
    rounded_s = rounding_error(placed.records["dt_ms"].drop_nulls()) / 1000
    error_s = 0.0
    if placed.resolution_s < FINE * usual:
        late = _by_last_gap(stretches)
    else:
        late, error_s = _by_whole_stretches(stretches, rounded_s)
    if late.is_empty():
        return placed
    moved = rows.join(late, on="stretch").filter(pl.col("line") < pl.col("last_line"))
    records = _moved(placed.records, moved, [*place, "step"])
    usually_s: Any = late["late"].median()
    how = f"{placed.how}; lines that came {usually_s:.2g} s late are moved back"
    return replace(placed, records=records, how=how, late_error_s=error_s)


def _moved(records: pl.DataFrame, moved: pl.DataFrame, step: Sequence[str]) -> pl.DataFrame:
    """Moves every copy of the records of `moved` back by their seconds `late`."""
    late = moved.select(*step, late=pl.duration(microseconds=1e6 * pl.col("late")))
    each = records.select(*step, "time").join(
        late, on=step, how="left", maintain_order="left", nulls_equal=True
    )
    return records.with_columns(
        each.select(pl.coalesce(pl.col("time") - pl.col("late"), "time").alias("time")).to_series()
    )


def _records(placed: TimedLog, place: Sequence[str]) -> pl.DataFrame:
    """Returns the first copy of each record with its `stretch`, which no other line interrupts.

    `before` is the time of the line ahead of the stretch.
    """
    saved = placed.events.filter(pl.col("kind") == "checkpoint")
    others = pl.concat([table.select("line", before="time") for table in (placed.evals, saved)])
    others = others.unique("line", keep="last").sort("line").with_columns(other="line")
    timed = placed.records.filter(pl.col("time").is_not_null() & pl.col("step").is_not_null())
    rows = timed.unique([*place, "step"], keep="first").sort("line")
    rows = rows.join_asof(others, on="line").sort(*place, "line")
    return rows.with_columns(stretch=pl.struct(*place, "other").rle_id())


def _stretches(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the stretches of which every step is printed with its time, in seconds."""
    dt_s, seconds = pl.col("dt_ms") / 1000, pl.col("time").dt.epoch("ns") / 1e9
    usual = dt_s.median()
    first_s = pl.min_horizontal(dt_s.first(), usual)
    stretches = rows.group_by("stretch", maintain_order=True).agg(
        last_line=pl.col("line").last(),
        count=pl.len(),
        known=(dt_s.is_finite() & (dt_s > 0)).fill_null(False).all()
        & (pl.col("step").diff().drop_nulls() == 1).all(),
        usual=usual,
        behind=seconds.first() - pl.col("before").first().dt.epoch("ns") / 1e9 - first_s,
        ahead=dt_s.last() - seconds.diff().last(),
        whole=dt_s.slice(1).sum() - (seconds.last() - seconds.first()),
    )
    return stretches.filter("known", pl.col("count") > 1)


def _by_last_gap(stretches: pl.DataFrame) -> pl.DataFrame:
    """Returns how late the lines of each stretch came: what its last gap lacks, if the gap before it has it."""
    late = stretches.with_columns(late=pl.min_horizontal("ahead", "behind"))
    usually: Any = late.select((pl.col("late") / pl.col("usual")).median()).item()
    return late.filter(usually is not None and usually > LATE).with_columns(
        pl.col("late").clip(0, LATEST * pl.col("usual"))
    )


def _by_whole_stretches(stretches: pl.DataFrame, rounded_s: float) -> tuple[pl.DataFrame, float]:
    """Returns how late all lines came, and its error: timestamps that are too coarse for a gap tell it by many.

    The first line of a stretch came late and the last one did not, so that it took less time than its steps.
    """
    lacking = stretches["whole"] - rounded_s * (stretches["count"] - 1)
    mean, deviation, usual = (
        float(value) if isinstance(value, float) else math.nan
        for value in (lacking.mean(), lacking.std(), stretches["usual"].median())
    )
    error_s = SURE * deviation / math.sqrt(len(lacking))
    shown = len(lacking) >= FEWEST and error_s + LATE * usual < mean < LATEST * usual
    return stretches.filter(pl.lit(shown)).with_columns(late=pl.lit(mean)), error_s
