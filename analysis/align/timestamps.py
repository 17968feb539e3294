"""A run -> the time of each line and its uncertainty; GPU readings -> the periods in which the GPUs were busy.

Times come from timestamps in the log. Without them they come from the log's own clock (step times or total time),
anchored at the modification time of its file, or at the period in which the GPUs were busy. That clock leaves out
whatever the log does not time, so a step may be off by the difference between the GPUs' work and the log's own
time.

Busy is relative to the recording itself, as an idle H100 draws as much as a small GPU under load. A recording with
a single level of power has no busy period.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.align.late_lines import on_time
from gputel.analysis.align.timed_log import WHOLE_SECOND, TimedLog
from gputel.analysis.align.windows import Moments, Numbers
from gputel.analysis.logs.file_times import time_in_name
from gputel.analysis.runs.printed_times import seconds_by_dt, usual_dt
from gputel.telemetry.clock import SECOND

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs import RunData

MILLISECOND = 0.001  # resolution of timestamps, in s
UNDATED = "counted from 1970, as the date is unknown"
ROUNDED_S = 0.6  # total times are printed in hundredths of a minute

READINGS = ("power_w", "power_avg_w", "util")  # the first that was measured decides
LOAD = 0.25  # share of the way from the lowest power to the usual highest
APART = 1.5  # times the lowest: below this, load and idle cannot be distinguished
PAUSE_S = 120  # shorter pauses belong to the busy period


def timed_log(subject: RunData) -> TimedLog:
    """Returns the tables of a run's log with a time in every row, as far as it is known."""
    return replace(_placed_log(subject), dt_digit_ms=subject.log.digits.get("dt_ms", 0.0))


def _placed_log(subject: RunData) -> TimedLog:
    log = subject.log
    stamps = log.records["time"]
    if log.records.is_empty():
        return TimedLog(log.records, log.evals, log.events, None, None)
    if subject.recording is not None:
        return _on_time(TimedLog(log.records, log.evals, log.events, "per-line timestamps", 0.0))
    if stamps.null_count() < len(stamps):
        placed = _on_time(_by_stamps(log))
        dated = f"{placed.how}; they have no date, so the readings tell the day"
        how = dated if log.dated_by == "the readings" else placed.how
        return replace(placed, how=how, last_save=log.last_save)
    clock = _own_clock(log)
    if clock is None:
        return TimedLog(log.records, log.evals, log.events, None, None)
    seconds, source, rounding_s = clock
    end_ns, set_by, uncertainty_s = _anchor(log, subject.readings, float(seconds[-1] - seconds[0]))
    if end_ns is None:
        return TimedLog(log.records, log.evals, log.events, None, None)
    moments = end_ns + ((seconds - seconds[-1]) * 1e9).astype(np.int64)
    how = f"by {source}, which times steps alone, {set_by}"
    error_s = None if uncertainty_s is None else max(uncertainty_s, rounding_s)
    placed = _by_line(log, _moments(moments), how, error_s)
    return replace(placed, stamped=False, resolution_s=rounding_s)


def _on_time(placed: TimedLog) -> TimedLog:
    saved = placed.events.filter(pl.col("kind") == "checkpoint")
    others = pl.concat([table.select("line", "time") for table in (placed.evals, saved)])
    found = on_time(placed.records, others, placed.resolution_s)
    if found is None:
        return placed
    how = f"{placed.how}; lines that came {found.late_s:.2g} s late are moved back"
    if not found.late_s:
        how = f"{placed.how}; lines may come {found.error_s:.2g} s late, as the last one comes so much early"
    return replace(placed, records=found.records, how=how, late_error_s=found.error_s)


class BusyPeriod(NamedTuple):
    """A period in ns. `start_seen`: the GPUs were seen idle before it; `end_seen`: after it."""

    start: int
    end: int
    start_seen: bool
    end_seen: bool

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


def stretches(gpu: pl.DataFrame) -> list[BusyPeriod]:
    """Returns the busy periods of all GPUs together, in order."""
    seconds, level = _levels(gpu)
    if len(level) == 0:
        return []
    low, high = np.quantile(level, (0.02, 0.9))
    if high <= max(APART * low, 1.0):
        return []
    busy = np.flatnonzero(level >= low + LOAD * (high - low))
    breaks = np.flatnonzero(np.diff(seconds[busy]) > PAUSE_S) + 1
    return [
        BusyPeriod(int(seconds[period[0]]) * SECOND, (int(seconds[period[-1]]) + 1) * SECOND, bool(period[0] > 0),
                bool(period[-1] < len(seconds) - 1))
        for period in np.split(busy, breaks)
    ]  # fmt: skip


def ends(gpu: pl.DataFrame) -> tuple[int, int] | None:
    """Returns the begin of the first busy period and the end of the last."""
    periods = stretches(gpu)
    return (periods[0].start, periods[-1].end) if periods else None


def _by_stamps(log: Log) -> TimedLog:
    """Spreads whole-second timestamps within their second, so that no step has zero length."""
    times = log.records["time"].dt.epoch("ns")
    stamps = times.drop_nulls().to_numpy()
    whole = len(stamps) > 0 and bool((stamps % SECOND == 0).all())
    if not whole:
        placed = _by_line(log, log.records["time"], "by the stamps of its lines", MILLISECOND)
        return replace(placed, resolution_s=MILLISECOND)
    frames = {name: getattr(log, name) for name in ("records", "evals", "events")}
    lines = pl.concat(
        [frame.select("line", "time", record=pl.lit(name == "records")) for name, frame in frames.items()]
    )
    lines = lines.filter(pl.col("time").is_not_null()).unique("line", keep="first").sort("line")
    printed_ms = usual_dt(log.records, log).median() if "dt_ms" in log.records.columns else None
    step_s = printed_ms / 1000 if isinstance(printed_ms, float) else 1.0
    spread, chained = _spread(lines["time"].dt.epoch("ns").to_numpy(), lines["record"].to_numpy(), step_s)
    placed_lines = lines.select("line", placed=_moments(spread))
    later = {name: _placed(frame, placed_lines) for name, frame in frames.items()}
    how = "by the stamps of its lines, which are whole seconds"
    filled = later["records"]["time"].forward_fill().backward_fill()
    others = {name: later[name] for name in ("evals", "events")}
    placed = _by_line(log.with_results(**others), filled, how, WHOLE_SECOND)
    return replace(
        placed, resolution_s=WHOLE_SECOND, brief=2 * chained > lines.height - lines["record"].sum()
    )


def _placed(frame: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Sets the times of rows by their lines; a row without a time keeps none."""
    times = frame.select("line", "time").join(lines, on="line", how="left", maintain_order="left")
    known = pl.when(pl.col("time").is_not_null()).then("placed").alias("time")
    return frame.with_columns(times.select(known).to_series())


def _spread(stamps: Moments, is_record: npt.NDArray[np.bool_], step_s: float) -> tuple[Moments, int]:
    """Places lines within the second that their stamp was cut to; counts the lines placed by another.

    A line that is no record, and whose stamp is at most a second after that of the line before, is as long after it
    as their stamps differ: that is right on average, however short the time between them. Others are in the middle,
    or where a record is due before.
    """
    spread = stamps + SECOND // 2
    spread[is_record] = _spread_records(stamps[is_record], step_s)
    due = np.minimum.accumulate(spread[::-1])[::-1]
    chained = 0
    for place in np.flatnonzero(~is_record).tolist():
        apart = int(stamps[place] - stamps[place - 1]) if place else 2 * SECOND
        if 0 <= apart <= SECOND:
            spread[place] = spread[place - 1] + apart
            chained += 1
        else:
            spread[place] = due[place]
    ordered: Moments = np.maximum.accumulate(spread)
    return ordered, chained


def _spread_records(stamps: Moments, step_s: float) -> Moments:
    """Places records within their seconds, so that no step has zero length.

    In a second throughout which records came they are even. Before a pause the first came when it was due, and
    after a pause the last did: there records are as far apart as usual, and the rest of the second is the pause.
    So it is on both sides of those that came between two pauses. `step_s` tells where no such second does.
    """
    seconds, first, inverse, count = np.unique(
        stamps, return_index=True, return_inverse=True, return_counts=True
    )
    place = np.clip(np.arange(len(stamps)) - first[inverse], 0, None)
    apart = np.diff(seconds, prepend=0, append=np.iinfo(np.int64).max) > SECOND
    after, before = apart[:-1], apart[1:]
    throughout = count[~after & ~before]
    if len(throughout):
        step_s = 1 / float(throughout[np.abs(throughout - np.median(throughout)) <= 1].mean())
    width = np.where(~after & ~before, 1 / count, np.minimum(step_s, 1 / count))
    begin = np.where(after, (1 - width * count) / (1 + before), 0.0)
    share = begin[inverse] + (np.minimum(place, count[inverse] - 1) + 0.5) * width[inverse]
    spread: Moments = stamps + (share * SECOND).astype(np.int64)
    return spread


def _moments(nanoseconds: Moments | pl.Series) -> pl.Series:
    counted = pl.Series("time", nanoseconds, dtype=pl.Int64).cast(pl.Datetime("ns"))
    stamped: pl.Series = counted.dt.replace_time_zone("UTC")
    return stamped


def _by_line(log: Log, times: pl.Series, how: str, uncertainty_s: float | None) -> TimedLog:
    """Dates every row; one without a time of its own gets that of the record before it, or of the first."""
    records = log.records.with_columns(times.alias("time"))
    dated = records.filter(pl.col("time").is_not_null())
    lines = dated["line"].to_numpy()

    def timed(frame: pl.DataFrame) -> pl.DataFrame:
        if dated.is_empty() or frame.is_empty():
            return frame
        place = np.searchsorted(lines, frame["line"].to_numpy(), side="right") - 1
        near = dated["time"].gather(np.maximum(place, 0))
        return frame.with_columns(pl.coalesce(pl.col("time"), near))

    return TimedLog(records, timed(log.evals), timed(log.events), how, uncertainty_s)


def _own_clock(log: Log) -> tuple[Numbers, str, float] | None:
    """Returns seconds at each record by the log's own clock, its name, and its rounding; None if it has none.

    Step times are finer than a total time, but only if every step is printed.
    """
    records = log.records
    steps = records.select(pl.col("step").diff().over("phase", "attempt").fill_null(1).clip(0))["step"]
    by_dt = seconds_by_dt(records, log, steps) if "dt_ms" in records.columns else None
    ways = [("the sum of its times of steps", by_dt, 0.0)]
    if "total_time_min" in records.columns:
        ways.append(("its own total time", _by_total_time(records, by_dt), ROUNDED_S))
    for source, gaps, rounding_s in ways if steps.max() == 1 else reversed(ways):
        known = pl.Series(dtype=pl.Float64) if gaps is None else gaps.fill_nan(None).fill_null(0.0).clip(0.0)
        if known.sum() > 0:
            return known.cum_sum().to_numpy(), source, rounding_s
    return None


def _by_total_time(records: pl.DataFrame, by_dt: pl.Series | None) -> pl.Series:
    """Returns seconds by the growth of the total time; by step times, until it grows.

    Some logs leave their first steps out: where it begins to grow, it may be of a part of the steps.
    """
    total = pl.col("total_time_min").forward_fill()
    grown = total.diff() * 60
    if by_dt is None:
        return records.select(grown).to_series()
    begins = total.shift() <= total.min()
    by_total = pl.when(begins).then(pl.max_horizontal(grown, pl.lit(by_dt))).otherwise(grown)
    return records.select(pl.when(total <= total.min()).then(by_dt).otherwise(by_total)).to_series()


def _anchor(log: Log, readings: pl.DataFrame | None, length_s: float) -> tuple[int | None, str, float | None]:
    """Returns the time of the last record, how it was determined, and its uncertainty.

    A start time in the log's name is a clock; the modification time of a file is one only if it was not copied.
    """
    named = time_in_name(log.source)
    if named is not None:
        return _by_name(named, readings, length_s)
    written = _written(log.source)
    by_file = "set by the time of its file, if that was not copied since"
    if readings is None or readings.is_empty():
        return (round(length_s * 1e9), UNDATED, None) if written is None else (written, by_file, None)
    periods = stretches(readings)
    fitting = min(periods, key=lambda stretch: abs(stretch.seconds - length_s), default=None)
    if written is not None and _overlaps(written, length_s, readings):
        near = min(periods, key=lambda stretch: abs(stretch.end - written), default=None)
        return written, by_file, near and _off(near, written, length_s)
    if fitting is None or fitting.seconds < length_s / 2 or not (fitting.start_seen or fitting.end_seen):
        return None, "", None
    end = fitting.end if fitting.end_seen else fitting.start + round(length_s * 1e9)
    set_by = f"set into the {fitting.seconds:,.0f} s in which the GPUs were busy"
    both = fitting.start_seen and fitting.end_seen
    return end, set_by, max(abs(fitting.seconds - length_s), WHOLE_SECOND) if both else None


def _by_name(began: int, readings: pl.DataFrame | None, length_s: float) -> tuple[int, str, float | None]:
    """Starts the log where the GPUs began to work after the time in its name, else at that time.

    What precedes the first step is in between, so that time alone is right to an unknown part of it.
    """
    periods = stretches(readings) if readings is not None and not readings.is_empty() else []
    after = [period for period in periods if period.start_seen and period.end > began]
    by_name = "set by the start time in its name"
    if not after:
        return began + round(length_s * 1e9), by_name, None
    end = after[0].end if after[0].end_seen else after[0].start + round(length_s * 1e9)
    error_s = max(abs(after[0].seconds - length_s), WHOLE_SECOND)
    return end, f"{by_name} and the {after[0].seconds:,.0f} s in which the GPUs were busy", error_s


def _off(stretch: BusyPeriod, end: int, length_s: float) -> float | None:
    """Returns how far the ends of the log are from those of the GPUs' work."""
    distances = []
    if stretch.start_seen:
        distances.append(abs(end / 1e9 - length_s - stretch.start / 1e9))
    if stretch.end_seen:
        distances.append(abs(end - stretch.end) / 1e9)
    return max(distances) + WHOLE_SECOND if distances else None


def _overlaps(end: int, length_s: float, readings: pl.DataFrame) -> bool:
    """Returns whether most of the log, or of the readings, lies within the other."""
    times = readings["time"].dt.epoch("ns").drop_nulls().to_numpy()
    first, last = int(times.min()), int(times.max())
    begun = end - round(length_s * 1e9)
    shared = min(end, last) - max(begun, first)
    return bool(shared > 0.5 * min(end - begun, last - first))


def _written(source: str) -> int | None:
    path = Path(source)
    return path.stat().st_mtime_ns if path.is_file() else None


def _levels(gpu: pl.DataFrame) -> tuple[Moments, Numbers]:
    """Returns whole seconds, and the mean power or utilization in each."""
    columns = [column for reading in READINGS for column in (f"{reading}_mean", reading)]
    name = next((n for n in columns if n in gpu.columns and gpu[n].null_count() < len(gpu)), None)
    if name is None:
        return np.empty(0, dtype=np.int64), np.empty(0)
    second = pl.col("time").dt.epoch("s").alias("second")
    levels = gpu.select(second, pl.col(name).cast(pl.Float64).alias("level")).drop_nulls()
    by_second = levels.group_by("second").agg(pl.col("level").mean()).sort("second")
    return by_second["second"].to_numpy(), by_second["level"].to_numpy()
