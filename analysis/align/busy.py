"""When GPUs worked: the stretches of time in which they drew power as under load, or were in use.

What is idle is judged by the recording itself, for an idle H100 draws what a small GPU does under load. A recording
that knows one level only cannot tell, and has no stretch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from gputel.analysis.align.held import Moments, Numbers
from gputel.telemetry.clock import SECOND

READINGS = ("power_w", "power_avg_w", "util")  # the first of them that was measured tells
LOAD = 0.25  # of the way from the lowest power to the usual highest
APART = 1.5  # times the lowest, that the highest must be to be told from it
PAUSE_S = 120  # a shorter pause belongs to the work


class Stretch(NamedTuple):
    """In ns. An edge is `seen` where the GPUs were seen idle on its other side."""

    start: int
    end: int
    start_seen: bool
    end_seen: bool

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


def stretches(gpu: pl.DataFrame) -> list[Stretch]:
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
        Stretch(int(seconds[own[0]]) * SECOND, (int(seconds[own[-1]]) + 1) * SECOND, bool(own[0] > 0),
                bool(own[-1] < len(seconds) - 1))
        for own in np.split(at, breaks)
    ]  # fmt: skip


def ends(gpu: pl.DataFrame) -> tuple[int, int] | None:
    """Where the first stretch begins and the last one ends: what is left when idle ends are cut off."""
    found = stretches(gpu)
    return (found[0].start, found[-1].end) if found else None


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
