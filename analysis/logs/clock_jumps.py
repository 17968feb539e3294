"""Timestamps of a log -> where its clock was set, or its time zone changed: they fall, or go on by hours.

Such timestamps time nothing across that place, so a log with one has none: its own step times tell how long it
took.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from gputel.telemetry.clock import SECOND

FEWEST = 20  # timestamps of one rank
HOUR, MOST_HOURS = 3600.0, 14  # by which time zones differ
CUT_S = 2.0  # by which timestamps of whole seconds, and lines in wrong order, may be off


class ClockJump(NamedTuple):
    """The first of `jumps`: `seconds` between two records that are usually `usual_s` apart."""

    seconds: float
    usual_s: float
    step: int | None
    line: int
    jumps: int


def clock_jump(records: pl.DataFrame) -> ClockJump | None:
    """Returns where timestamps fall, or go on by whole hours while each step takes less than a minute."""
    apart = records.select(pl.col("time").diff().dt.total_nanoseconds() / SECOND).to_series().drop_nulls()
    if len(apart) < FEWEST or not ((apart < -CUT_S) | (apart > HOUR - CUT_S)).any():
        return None
    gap_s = pl.col("time").diff().over("phase", "attempt", "rank").dt.total_nanoseconds() / SECOND
    rows = records.select("step", "line", seconds=gap_s).filter(pl.col("seconds").is_not_null())
    usual = rows["seconds"].median()
    if rows.height < FEWEST or not isinstance(usual, float):
        return None
    gap, hours = pl.col("seconds"), (pl.col("seconds") / HOUR).round()
    longest = rows.filter(gap < HOUR / 2)["seconds"].max()  # such as one with an evaluation
    rest, slack = gap - hours * HOUR - usual, max(CUT_S, usual / 2)
    whole = rest.is_between(
        -slack, max(slack, longest - usual + CUT_S if isinstance(longest, float) else 0.0)
    )
    jumps = rows.filter((gap < -CUT_S) | (whole & hours.is_between(1, MOST_HOURS) & (usual < HOUR / 60)))
    if jumps.is_empty():
        return None
    step, line, seconds = jumps.row(0)
    return ClockJump(seconds, usual, step, line, jumps.height)
