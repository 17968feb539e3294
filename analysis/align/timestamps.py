"""When a log's lines were written, and how sure that is.

By their stamps, where they have some. Else by the log's own clock (its times of steps, its total time), which is
set by the time of its file, or by the stretch in which the GPUs beside it were busy. That clock leaves out whatever
the log does not time, so a step may lie off by as much as the GPUs' work is longer than the log's own time.

When GPUs worked: the stretches of time in which they drew power as under load, or were in use.

What is idle is judged by the recording itself, for an idle H100 draws what a small GPU does under load. A recording
that knows one level only cannot tell, and has no stretch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from gputel.analysis.align.windows import Moments, Numbers
from gputel.telemetry.clock import SECOND

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs import RunData

AROUND = 51  # records, by which the usual time of a step is judged
SLOW = 1.5  # times the usual
WHOLE_SECOND = 1.0  # to which the GPUs' work is known
UNDATED = "counted from 1970, for nothing says on which day"
ROUNDED_S = 0.6  # total times are printed in hundredths of a minute

READINGS = ("power_w", "power_avg_w", "util")  # the first of them that was measured tells
LOAD = 0.25  # of the way from the lowest power to the usual highest
APART = 1.5  # times the lowest, that the highest must be to be told from it
PAUSE_S = 120  # a shorter pause belongs to the work


@dataclass(frozen=True)
class TimedLog:
    """A log's tables, every row with its `time`; `how` says where the times come from, None where nobody knows.

    `uncertainty_s` is how far off a line may be, None where that cannot be told. Where lines were not `stamped`,
    nobody knows how long anything but the steps took.
    """

    records: pl.DataFrame
    evals: pl.DataFrame
    events: pl.DataFrame
    how: str | None
    uncertainty_s: float | None
    stamped: bool = True

    def of_node(self, node: str | None) -> TimedLog:
        def own(frame: pl.DataFrame) -> pl.DataFrame:
            return frame.filter(pl.col("node").eq_missing(node))

        return replace(self, records=own(self.records), evals=own(self.evals), events=own(self.events))


def timed_log(subject: RunData) -> TimedLog:
    log = subject.log
    stamps = log.records["time"]
    if log.records.is_empty():
        return TimedLog(log.records, log.evals, log.events, None, None)
    if subject.recording is not None:
        return TimedLog(log.records, log.evals, log.events, "each line was stamped as it was recorded", 0.0)
    if stamps.null_count() < len(stamps):
        return _by_stamps(log)
    clock = _own_clock(log.records)
    if clock is None:
        return TimedLog(log.records, log.evals, log.events, None, None)
    seconds, told_by, rounding_s = clock
    end_ns, set_by, uncertainty_s = _anchor(log, subject.readings, float(seconds[-1] - seconds[0]))
    if end_ns is None:
        return TimedLog(log.records, log.evals, log.events, None, None)
    moments = end_ns + ((seconds - seconds[-1]) * 1e9).astype(np.int64)
    how = f"by {told_by}, which times steps alone, {set_by}"
    sure = None if uncertainty_s is None else max(uncertainty_s, rounding_s)
    return replace(_by_line(log, _moments(moments), how, sure), stamped=False)


def usual_near(times: pl.Expr) -> pl.Expr:
    """The usual time of a step near each record: the median of the records around it that have one."""
    return times.rolling_median(AROUND, min_samples=1, center=True)


class BusyPeriod(NamedTuple):
    """In ns. An edge is `seen` where the GPUs were seen idle on its other side."""

    start: int
    end: int
    start_seen: bool
    end_seen: bool

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


def stretches(gpu: pl.DataFrame) -> list[BusyPeriod]:
    """Of all GPUs together, in order."""
    seconds, level = _levels(gpu)
    if len(level) == 0:
        return []
    low, high = np.quantile(level, (0.02, 0.9))
    if high <= max(APART * low, 1.0):
        return []
    at = np.flatnonzero(level >= low + LOAD * (high - low))
    breaks = np.flatnonzero(np.diff(seconds[at]) > PAUSE_S) + 1
    return [
        BusyPeriod(int(seconds[own[0]]) * SECOND, (int(seconds[own[-1]]) + 1) * SECOND, bool(own[0] > 0),
                bool(own[-1] < len(seconds) - 1))
        for own in np.split(at, breaks)
    ]  # fmt: skip


def ends(gpu: pl.DataFrame) -> tuple[int, int] | None:
    """Where the first stretch begins and the last one ends: what is left when idle ends are cut off."""
    found = stretches(gpu)
    return (found[0].start, found[-1].end) if found else None


def _by_stamps(log: Log) -> TimedLog:
    """Those of whole seconds are spread within theirs, so that every step has a length."""
    times = log.records["time"].dt.epoch("ns")
    known = times.drop_nulls().to_numpy()
    whole = len(known) > 0 and bool((known % SECOND == 0).all())
    if not whole:
        return _by_line(log, log.records["time"], "by the stamps of its lines", 0.001)
    spread = pl.Series(_spread(known)).cast(pl.Int64)
    place = times.is_not_null().cast(pl.Int64).cum_sum() - 1
    filled = pl.select(pl.when(times.is_not_null()).then(spread.gather(place.clip(0)))).to_series()
    return _by_line(log, _moments(filled), "by the stamps of its lines, which are whole seconds", 1.0)


def _spread(stamps: Moments) -> Moments:
    """Lines of one second follow each other evenly within it."""
    _, first, inverse, count = np.unique(stamps, return_index=True, return_inverse=True, return_counts=True)
    place = np.arange(len(stamps)) - first[inverse]
    spread: Moments = stamps + np.clip(place, 0, None) * SECOND // count[inverse]
    return np.maximum.accumulate(spread)


def _moments(nanoseconds: Moments | pl.Series) -> pl.Series:
    counted = pl.Series("time", nanoseconds, dtype=pl.Int64).cast(pl.Datetime("ns"))
    stamped: pl.Series = counted.dt.replace_time_zone("UTC")
    return stamped


def _by_line(log: Log, times: pl.Series, how: str, uncertainty_s: float | None) -> TimedLog:
    """What has no time of its own was written when the record before it was, or the first one."""
    records = log.records.with_columns(times.alias("time"))
    known = records.filter(pl.col("time").is_not_null())
    lines = known["line"].to_numpy()

    def timed(frame: pl.DataFrame) -> pl.DataFrame:
        if known.is_empty() or frame.is_empty():
            return frame
        place = np.searchsorted(lines, frame["line"].to_numpy(), side="right") - 1
        near = known["time"].gather(np.maximum(place, 0))
        return frame.with_columns(pl.coalesce(pl.col("time"), near))

    return TimedLog(records, timed(log.evals), timed(log.events), how, uncertainty_s)


def _own_clock(records: pl.DataFrame) -> tuple[Numbers, str, float] | None:
    """Seconds at each record, what told them, and what they are rounded to; None where nothing does.

    Times of steps are finer than a total, but only where every step has told its own.
    """
    steps = records.select(pl.col("step").diff().over("phase", "attempt").fill_null(1).clip(0))["step"]
    ways = [
        ("dt_ms", _stepped(steps), "the sum of its times of steps", 0.0),
        (
            "total_time_min",
            pl.col("total_time_min").forward_fill().diff() * 60,
            "its own total time",
            ROUNDED_S,
        ),
    ]
    for column, gap, told_by, rounding_s in ways if steps.max() == 1 else reversed(ways):
        if column in records.columns:
            gaps = records.select(gap.fill_nan(None).fill_null(0.0).clip(0.0)).to_series()
            if gaps.sum() > 0:
                return gaps.cum_sum().to_numpy(), told_by, rounding_s
    return None


def _stepped(steps: pl.Series) -> pl.Expr:
    """Seconds of all steps that a record stands for. A slow one speaks for itself alone, not for the others."""
    dt = pl.col("dt_ms") / 1000
    others: pl.Expr = (steps - 1).clip(0) * pl.min_horizontal(dt, SLOW * usual_near(dt))
    return dt.clip(0) * (steps > 0) + others


def _anchor(log: Log, readings: pl.DataFrame | None, length_s: float) -> tuple[int | None, str, float | None]:
    """The moment of the last record, what it was set by, and how far off that may be."""
    written = _written(log.source)
    by_file = "set by the time of its file, if that was not copied since"
    if readings is None or readings.is_empty():
        return (round(length_s * 1e9), UNDATED, None) if written is None else (written, by_file, None)
    found = stretches(readings)
    fitting = min(found, key=lambda stretch: abs(stretch.seconds - length_s), default=None)
    if written is not None and _overlaps(written, length_s, readings):
        near = min(found, key=lambda stretch: abs(stretch.end - written), default=None)
        return written, by_file, near and _off(near, written, length_s)
    if fitting is None or fitting.seconds < length_s / 2 or not (fitting.start_seen or fitting.end_seen):
        return None, "", None
    end = fitting.end if fitting.end_seen else fitting.start + round(length_s * 1e9)
    set_by = f"set into the {fitting.seconds:,.0f} s in which the GPUs were busy"
    both = fitting.start_seen and fitting.end_seen
    return end, set_by, max(abs(fitting.seconds - length_s), WHOLE_SECOND) if both else None


def _off(stretch: BusyPeriod, end: int, length_s: float) -> float | None:
    """How far the ends of the log lie from those of the GPUs' work."""
    apart = []
    if stretch.start_seen:
        apart.append(abs(end / 1e9 - length_s - stretch.start / 1e9))
    if stretch.end_seen:
        apart.append(abs(end - stretch.end) / 1e9)
    return max(apart) + WHOLE_SECOND if apart else None


def _overlaps(end: int, length_s: float, readings: pl.DataFrame) -> bool:
    """Whether most of the log, or of the readings, lies within the other."""
    times = readings["time"].dt.epoch("ns").drop_nulls().to_numpy()
    first, last = int(times.min()), int(times.max())
    begun = end - round(length_s * 1e9)
    shared = min(end, last) - max(begun, first)
    return bool(shared > 0.5 * min(end - begun, last - first))


def _written(source: str) -> int | None:
    path = Path(source)
    return path.stat().st_mtime_ns if path.is_file() else None


def _levels(gpu: pl.DataFrame) -> tuple[Moments, Numbers]:
    """Whole seconds, and the mean power or utilisation in each."""
    columns = [column for reading in READINGS for column in (f"{reading}_mean", reading)]
    name = next((n for n in columns if n in gpu.columns and gpu[n].null_count() < len(gpu)), None)
    if name is None:
        return np.empty(0, dtype=np.int64), np.empty(0)
    second = pl.col("time").dt.epoch("s").alias("second")
    known = gpu.select(second, pl.col(name).cast(pl.Float64).alias("level")).drop_nulls()
    by_second = known.group_by("second").agg(pl.col("level").mean()).sort("second")
    return by_second["second"].to_numpy(), by_second["level"].to_numpy()
