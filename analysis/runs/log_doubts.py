"""A log -> doubts: figures that it prints and that cannot both be right.

Tokens are checked against throughput, step times and total time against timestamps. Doubts about the reading itself
come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.doubts import Doubt
from gputel.analysis.runs.batch import unit_factor
from gputel.analysis.runs.record_gaps import StepTime, record_gaps, time_by_gaps
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

FEWEST_GAPS = 3  # between records, that tell the time of a step
LONGER = 1.15  # times the time between records, above which a printed step time cannot be
SHORTER = 2.0  # times the printed step time, above which the time between records is not explained by it
SET_S, SLEWED = 1.0, 0.001  # difference of two clocks that is none: NTP slews by 0.05 % at most


def log_doubts(subject: RunData) -> tuple[Doubt, ...]:
    """Returns the doubts about what a run printed: about its reading, then about its figures."""
    if subject.log.records.is_empty():
        return subject.log.doubts
    between = _between_records(subject)
    return (
        *subject.log.doubts,
        *subject.step_tokens.doubts,
        *_clock_set(subject),
        *_step_time(subject, between),
        *_total_time(subject),
    )


def _clock_set(subject: RunData) -> Iterator[Doubt]:
    """Yields a doubt for each segment whose length by the wall clock is not that by the clock since boot."""
    for facts in subject.recording.descriptions if subject.recording else ():
        if (lengths := run_folder.lengths_s(facts)) is None:
            continue
        boot_s, wall_s = lengths
        if abs(wall_s - boot_s) <= SET_S + SLEWED * boot_s:
            continue
        way = "forward" if wall_s > boot_s else "back"
        yield Doubt(
            "run",
            "clock",
            f"the recording took {text.duration(boot_s)} by the clock since boot, and the wall clock was set "
            f"{way} by {text.duration(abs(wall_s - boot_s))} in that time",
            "times across that moment are wrong, and with them tok/s and what spans cost",
            {"boot_s": boot_s, "wall_s": wall_s},
        )


def _between_records(subject: RunData) -> StepTime | None:
    """Returns the time of a step by timestamps; None of too few records."""
    log = subject.log
    stamps = log.records["time"].drop_nulls().dt.epoch("ns")
    whole = subject.recording is None and bool((stamps % SECOND == 0).all())
    saved = log.events.filter(pl.col("kind") == "checkpoint")
    gaps = record_gaps(log.records, log.evals, saved)
    return time_by_gaps(gaps, 1.0 if whole else 0.001) if gaps.height >= FEWEST_GAPS else None


def _step_time(subject: RunData, between: StepTime | None) -> Iterator[Doubt]:
    records = subject.log.records
    if between is None:
        return
    stamped, error_s = between.seconds, between.error_s
    if "dt_ms" in records.columns:
        values = records.filter(pl.col("dt_ms").is_finite() & (pl.col("dt_ms") > 0))["dt_ms"]
        median: Any = values.median()
        if median is None:
            return
        printed = float(median) / 1000
        if printed > LONGER * stamped + error_s or stamped > SHORTER * printed + error_s:
            yield Doubt(
                "run",
                "step-time",
                f"a step takes {text.duration(printed)} as printed, and {text.duration(stamped)} by timestamps",
                _why_of_time(stamped / printed),
                {"printed_s": printed, "stamped_s": stamped},
            )
    elif "tok_per_sec" in records.columns and subject.facts.tokens_per_step:
        tokens = float(subject.facts.tokens_per_step.value)
        rates = records.filter(pl.col("tok_per_sec").is_finite() & (pl.col("tok_per_sec") > 0))["tok_per_sec"]
        rate: Any = rates.median()
        factor = None if rate is None else unit_factor(tokens / stamped / float(rate))
        if factor is not None and stamped > 10 * error_s:
            yield Doubt(
                "run",
                "tok-per-sec",
                f"the log prints {float(rate):,.4g} tok/s, and {tokens:,.0f} tokens in "
                f"{text.duration(stamped)} are {tokens / stamped:,.4g} tok/s",
                "it is printed per GPU, or in another unit",
                {"printed": float(rate), "by_stamps": tokens / stamped, "factor": factor},
            )


def _why_of_time(ratio: float) -> str:
    factor = unit_factor(ratio)
    if factor in (1000.0, 0.001):
        return "seconds and milliseconds are mixed up"
    if factor is not None and factor > 1:
        return "it is printed for one of several micro-batches"
    return (
        "it covers several steps"
        if ratio < 1
        else "it leaves out part of each step, such as waiting for data"
    )


def _total_time(subject: RunData) -> Iterator[Doubt]:
    """A total time may leave out steps, but cannot be longer than the log."""
    records = subject.log.records
    if "total_time_min" not in records.columns or (subject.recording is None and len(subject.log.places) > 1):
        return
    rows = records.filter(pl.col("time").is_not_null() & pl.col("total_time_min").is_finite())
    if rows.height < 3:
        return
    totals, times = rows["total_time_min"], rows["time"].dt.epoch("ns")
    grown, passed = 60 * float(totals[-1] - totals[0]), (int(times[-1]) - int(times[0])) / SECOND
    if grown > LONGER * passed + 1:
        yield Doubt(
            "run",
            "total-time",
            f"the log's own time grows by {text.duration(grown)} within {text.duration(passed)} of timestamps",
            "its unit is another, or lines of several runs are mixed",
            {"printed_s": grown, "stamped_s": passed},
        )
