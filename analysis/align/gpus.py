"""A run's readings, GPU by GPU: memory holds the rows of one, and of these one reading at a time as numbers.

They come as they were sampled, or as whole seconds (`gpu_1s`), which is what recordings of days are read by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import polars as pl

from gputel.analysis.align.held import Holds, Moments, Numbers, full, gaps_between, until_next
from gputel.telemetry.clock import SECOND

AVERAGED = ("util", "sm_mhz", "sm_active", "tensor_active", "dram_active")
WANTED = ("power_w", "energy_j", "temp_c", "mem_used_mib", "throttle", *AVERAGED)
OF_SECONDS = {"energy_j": "energy_j_last", "throttle": "throttle_any"}  # of the others the mean
MOST_GPUS = 1024  # rows of one moment

Gpu: TypeAlias = tuple[str | None, str]  # its node, where there are several, and its name


@dataclass(frozen=True)
class Ticks:
    """Of one GPU: what held when. `counted_at` is when the energy counter stood at its values."""

    holds: Holds
    counted_at: Moments
    rows: pl.DataFrame
    whole_seconds: bool

    def has(self, reading: str) -> bool:
        return self._column(reading) in self.rows.columns

    def get(self, reading: str) -> Numbers:
        return self._numbers(self._column(reading))

    def peak(self, reading: str) -> Numbers:
        """The highest in each row: one of whole seconds stands for many ticks."""
        peaks = f"{reading}_max"
        return self._numbers(peaks) if peaks in self.rows.columns else self.get(reading)

    def _column(self, reading: str) -> str:
        return OF_SECONDS.get(reading, f"{reading}_mean") if self.whole_seconds else reading

    def _numbers(self, column: str) -> Numbers:
        if column not in self.rows.columns:
            return np.full(len(self.rows), np.nan)
        numbers: Numbers = self.rows[column].cast(pl.Float64).to_numpy()  # of a null, NaN
        return numbers


@dataclass(frozen=True)
class Readings:
    """`read` gives `time` and some readings of one GPU."""

    gpus: Sequence[Gpu]
    whole_seconds: bool
    read: Callable[[Gpu, Sequence[str]], pl.DataFrame]

    @property
    def several_nodes(self) -> bool:
        return any(node is not None for node, _ in self.gpus)

    @cached_property
    def edges(self) -> tuple[int, int] | None:
        """The first and the last moment, in ns; None where nothing was sampled."""
        times = self.together(())["time"].dt.epoch("ns")
        return (int(times.min()), int(times.max())) if len(times) else None  # type: ignore[arg-type]

    def together(self, readings: Sequence[str]) -> pl.DataFrame:
        """Of all GPUs: for few readings."""
        return pl.concat([self.read(gpu, readings) for gpu in self.gpus], how="diagonal_relaxed")

    def ticks(self, gpu: Gpu) -> Ticks | None:
        """In the order of time; None where there is none."""
        rows = self.read(gpu, WANTED)
        if rows.is_empty():
            return None
        ordered = rows if rows["time"].is_sorted() else rows.sort("time", maintain_order=True)
        times = ordered["time"].dt.epoch("ns").to_numpy()
        if not self.whole_seconds:
            return Ticks(until_next(times), times, ordered, whole_seconds=False)
        holds = hold_seconds(times, ordered["ticks"].fill_null(0).to_numpy())
        return Ticks(holds, holds.ends, ordered, whole_seconds=True)


def of_table(table: pl.DataFrame) -> Readings:
    """Of a frame that holds all GPUs: `Recording.gpu`, `Recording.gpu_1s` or a table of readings."""
    told = table.filter(pl.col("time").is_not_null()) if table["time"].null_count() else table
    keys = [name for name in ("node", "gpu") if name in told.columns]
    turns = _turns(told, keys)
    first = told.select(keys).head(turns) if turns else told.select(keys).unique(maintain_order=True)
    gpus = [(row.get("node"), row["gpu"]) for row in first.to_dicts()]

    def read(gpu: Gpu, readings: Sequence[str]) -> pl.DataFrame:
        wanted = rf"^(time|ticks|({'|'.join(readings)})(_mean|_max|_any|_last)?)$"
        if turns:
            return told.select(pl.selectors.matches(wanted).gather_every(turns, gpus.index(gpu)))
        own = [pl.col(name).eq_missing(gpu[("node", "gpu").index(name)]) for name in keys]
        return told.lazy().filter(own).select(pl.selectors.matches(wanted)).collect()

    return Readings(gpus, "ticks" in told.columns, read)


def _turns(table: pl.DataFrame, keys: Sequence[str]) -> int:
    """How many GPUs take turns, row by row, as they do where all are sampled at once; 0 where they do not."""
    count = table.head(MOST_GPUS).select(keys).n_unique()
    if len(table) == 0 or len(table) % count:
        return 0
    rest = len(table) - count
    return count if all(table[k].slice(count).eq_missing(table[k].head(rest)).all() for k in keys) else 0


def hold_seconds(times: Moments, ticks: Moments) -> Holds:
    """A second stands for its mean; the first and the last of a stretch for as much as was sampled of it."""
    found = gaps_between(times, ticks, SECOND)
    begins, ends = np.insert(found.after, 0, True), np.append(found.after, True)
    share = np.minimum(ticks / full(ticks), 1.0)
    lacking = ((1 - share) * SECOND).astype(np.int64)
    alone = times + max(SECOND, found.usual_ns) - lacking * ~begins
    return Holds(times + lacking * begins, np.where(ends, alone, np.append(times[1:], alone[-1:])))
