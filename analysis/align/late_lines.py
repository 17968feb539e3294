"""Records whose lines come late -> the same records with the times at which their steps ended.

A loop that reads a step's loss while the next step runs prints each line late, but the last one before an
evaluation or a checkpoint at once. So the gap before that line is short by as much as the gap behind the pause is
long. Printed step times tell this from a short step. In a log without them, the usual gap stands for a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from gputel.analysis.runs.record_gaps import FINE, STALLED, SURE, rounding_error

LATE = 0.1  # share of a step: lines that come later than this are late
LATEST = 1.5  # steps: what is longer is no wait for the next step
FEWEST = 3  # stretches, from which on their scatter is known


@dataclass(frozen=True)
class OnTime:
    """Records at the ends of their steps: `late_s` is how late their lines came, within `error_s`.

    `late_s` is 0 where only the last gap is short and no pause tells whether its step was: then no line has moved.
    """

    records: pl.DataFrame
    late_s: float
    error_s: float


def on_time(records: pl.DataFrame, others: pl.DataFrame, resolution_s: float) -> OnTime | None:
    """Moves records to the ends of their steps; None if nothing shows that their lines come late.

    `others` have `line` and `time` of evaluations and checkpoints.
    """
    place = [name for name in ("node", "phase", "attempt") if name in records.columns]
    timed = "dt_ms" in records.columns
    rows = _rows(records, others, place)
    if not timed:
        rows = rows.with_columns(dt_ms=_usual_gap_ms(rows))
    stretches = _stretches(rows)
    if stretches.is_empty():
        return None
    usual: Any = stretches["usual"].median()
    if not (timed or stretches["behind"].count()):
        short_s: Any = stretches["ahead"].median()
        doubtful = resolution_s < FINE * usual and short_s > LATE * usual
        return OnTime(records, 0.0, float(short_s)) if doubtful else None
    rounded_s = rounding_error(records["dt_ms"].drop_nulls()) / 1000 if timed else 0.0
    error_s = 0.0
    if resolution_s < FINE * usual:
        late = _by_last_gap(stretches)
    else:
        late, error_s = _by_whole_stretches(stretches, rounded_s, resolution_s)
    if late.is_empty():
        return None
    late_s: Any = late["late"].median()
    moved = rows.join(late, on="stretch").filter(pl.col("line") < pl.col("last_line"))
    return OnTime(_moved(records, moved, [*place, "step"]), float(late_s), error_s)


def _moved(records: pl.DataFrame, moved: pl.DataFrame, step: Sequence[str]) -> pl.DataFrame:
    """Moves every copy of the records of `moved` back by their seconds `late`."""
    late = moved.select(*step, late=pl.duration(microseconds=1e6 * pl.col("late")))
    each = records.select(*step, "time").join(
        late, on=step, how="left", maintain_order="left", nulls_equal=True
    )
    return records.with_columns(
        each.select(pl.coalesce(pl.col("time") - pl.col("late"), "time").alias("time")).to_series()
    )


def _rows(records: pl.DataFrame, others: pl.DataFrame, place: Sequence[str]) -> pl.DataFrame:
    """Returns the first copy of each record with its `stretch`, which no other line interrupts.

    `before` is the time of the line ahead of the stretch.
    """
    others = others.unique("line", keep="last").sort("line").select("line", before="time", other="line")
    timed = records.filter(pl.col("time").is_not_null() & pl.col("step").is_not_null())
    rows = timed.unique([*place, "step"], keep="first").sort("line")
    rows = rows.join_asof(others, on="line").sort(*place, "line")
    return rows.with_columns(stretch=pl.struct(*place, "other").rle_id())


def _usual_gap_ms(rows: pl.DataFrame) -> pl.Expr:
    """Returns the mean time between two lines; the last gap of a stretch is left out, as late lines shorten it."""
    gap = pl.col("time").diff().over("stretch").dt.total_nanoseconds() / 1e6
    inner = pl.col("line") < pl.col("line").max().over("stretch")
    known = rows.select(gap=gap.filter(inner)).drop_nulls()["gap"]
    usual: Any = known.median()
    steady = known.filter(known <= STALLED * usual) if usual else known
    return pl.lit(steady.mean(), dtype=pl.Float64)


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


def _by_whole_stretches(
    stretches: pl.DataFrame, rounded_s: float, resolution_s: float
) -> tuple[pl.DataFrame, float]:
    """Returns how late all lines came, and its error: timestamps that are too coarse for a gap tell it by many.

    The first line of a stretch came late and the last one did not, so that it took less time than its steps. Of few
    stretches, the last gap must lack more than the clock may have cut, too.
    """
    lacking = stretches["whole"] - rounded_s * (stretches["count"] - 1)
    mean, deviation, usual, ahead = (
        float(value) if isinstance(value, float) else math.nan
        for value in (lacking.mean(), lacking.std(), stretches["usual"].median(), stretches["ahead"].min())
    )
    few = len(lacking) < FEWEST
    spread_s = resolution_s / math.sqrt(6) if few else deviation  # of two cut timestamps
    error_s = SURE * spread_s / math.sqrt(len(lacking))
    shown = error_s + LATE * usual < mean < LATEST * usual and (not few or ahead > resolution_s)
    return stretches.filter(pl.lit(shown)).with_columns(late=pl.lit(mean)), error_s
