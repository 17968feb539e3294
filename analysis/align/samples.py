"""A run -> its GPU readings, one GPU at a time, so that memory holds the rows of a single GPU.

Readings are ticks as sampled, or whole seconds (`gpu_1s`) if a recording has too many ticks to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from gputel.analysis.align.windows import Moments, Numbers, SampleAndHold, full, gaps_between, until_next
from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import frames
from gputel.telemetry.store.ticks import PartCache

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.recording import Recording

AVERAGED = ("util", "sm_mhz", "sm_active", "tensor_active", "dram_active")
WANTED = ("power_w", "energy_j", "temp_c", "mem_used_mib", "throttle", *AVERAGED)
OF_SECONDS = {"energy_j": "energy_j_last", "throttle": "throttle_any"}  # the others use their mean
MOST_GPUS = 1024  # upper bound on rows of one moment
Gpu: TypeAlias = tuple[str | None, str]  # node, if there are several, and index

MANY = 6_000_000  # rows: eight hours of two GPUs at 100 Hz
PART_S = 600


@dataclass(frozen=True)
class GpuTicks:
    """Readings of one GPU. `counted_at`: the moments at which the energy counter had its values."""

    holds: SampleAndHold
    counted_at: Moments
    rows: pl.DataFrame
    whole_seconds: bool

    def has(self, reading: str) -> bool:
        return self._column(reading) in self.rows.columns

    def get(self, reading: str) -> Numbers:
        return self._numbers(self._column(reading))

    def peak(self, reading: str) -> Numbers:
        """Returns the highest value in each row: a row of whole seconds covers many ticks."""
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
    """The GPUs of a run. `read` returns `time` and the named readings of one GPU."""

    gpus: Sequence[Gpu]
    whole_seconds: bool
    read: Callable[[Gpu, Sequence[str]], pl.DataFrame]

    @property
    def several_nodes(self) -> bool:
        return any(node is not None for node, _ in self.gpus)

    @cached_property
    def edges(self) -> tuple[int, int] | None:
        """The first and the last moment, in ns; None if nothing was sampled."""
        times = self.together(())["time"].dt.epoch("ns")
        return (int(times.min()), int(times.max())) if len(times) else None  # type: ignore[arg-type]

    def together(self, readings: Sequence[str]) -> pl.DataFrame:
        """Reads all GPUs at once; meant for few readings."""
        return pl.concat([self.read(gpu, readings) for gpu in self.gpus], how="diagonal_relaxed")

    def ticks(self, gpu: Gpu) -> GpuTicks | None:
        """Returns the readings of one GPU in order of time; None if there are none."""
        rows = self.read(gpu, WANTED)
        if rows.is_empty():
            return None
        ordered = rows if rows["time"].is_sorted() else rows.sort("time", maintain_order=True)
        times = ordered["time"].dt.epoch("ns").to_numpy()
        if not self.whole_seconds:
            return GpuTicks(until_next(times), times, ordered, whole_seconds=False)
        holds = hold_seconds(times, ordered["ticks"].fill_null(0).to_numpy())
        return GpuTicks(holds, holds.ends, ordered, whole_seconds=True)


def of_table(table: pl.DataFrame) -> Readings:
    """Wraps a frame of all GPUs: `Recording.gpu`, `Recording.gpu_1s` or a table of readings."""
    dated = table.filter(pl.col("time").is_not_null()) if table["time"].null_count() else table
    keys = [name for name in ("node", "gpu") if name in dated.columns]
    turns = _turns(dated, keys)
    first = dated.select(keys).head(turns) if turns else dated.select(keys).unique(maintain_order=True)
    gpus = [(row.get("node"), row["gpu"]) for row in first.to_dicts()]

    def read(gpu: Gpu, readings: Sequence[str]) -> pl.DataFrame:
        wanted = rf"^(time|ticks|({'|'.join(readings)})(_mean|_max|_any|_last)?)$"
        if turns:
            return dated.select(pl.selectors.matches(wanted).gather_every(turns, gpus.index(gpu)))
        is_gpu = [pl.col(name).eq_missing(gpu[("node", "gpu").index(name)]) for name in keys]
        return dated.lazy().filter(is_gpu).select(pl.selectors.matches(wanted)).collect()

    return Readings(gpus, "ticks" in dated.columns, read)


def hold_seconds(times: Moments, ticks: Moments) -> SampleAndHold:
    """Holds each second at its mean; before and after a gap, only for as long as it was sampled."""
    breaks = gaps_between(times, ticks, SECOND)
    begins, ends = np.insert(breaks.after, 0, True), np.append(breaks.after, True)
    share = np.minimum(ticks / full(ticks), 1.0)
    lacking = ((1 - share) * SECOND).astype(np.int64)
    alone = times + max(SECOND, breaks.usual_ns) - lacking * ~begins
    return SampleAndHold(times + lacking * begins, np.where(ends, alone, np.append(times[1:], alone[-1:])))


def gpu_samples(subject: RunData, most: float | None = None) -> Readings | None:
    """Returns a run's readings, None if nothing was sampled; whole seconds if there are more than `most` ticks."""
    recording = subject.recording
    if recording is not None:
        readings = _of_recording(recording, rows(recording) > (MANY if most is None else most))
        return readings if readings.gpus and readings.edges else None
    table = subject.gpu
    dated = table is not None and table["time"].null_count() < len(table)
    return of_table(table) if table is not None and dated else None


def rows(recording: Recording) -> float:
    """Estimates the number of ticks from the descriptions; for a segment without an end, from its files."""
    count = 0.0
    durations = recording.segments["duration_s"].to_list()
    for segment, facts, duration in zip(
        recording.folder.segments, recording.descriptions, durations, strict=True
    ):
        hz = (facts.get("sampling") or {}).get("hz") or 0.0
        seconds = PART_S * frames.count_chunks(segment.gpu) if duration is None else duration
        count += hz * seconds * len(facts.get("gpus") or ())
    return count


def _turns(table: pl.DataFrame, keys: Sequence[str]) -> int:
    """Returns the number of GPUs if their rows alternate in fixed order (all sampled at once), else 0."""
    count = table.head(MOST_GPUS).select(keys).n_unique()
    if len(table) == 0 or len(table) % count:
        return 0
    rest = len(table) - count
    return count if all(table[k].slice(count).eq_missing(table[k].head(rest)).all() for k in keys) else 0


def _of_recording(recording: Recording, whole_seconds: bool) -> Readings:
    """Reads a recording; the segments of a GPU follow each other."""
    folders: dict[Gpu, list[Path]] = {}
    for segment in recording.folder.segments:
        for name in dict.fromkeys(gpu for gpu, _ in frames.columns(segment.gpu)):
            folders.setdefault((segment.node, name), []).append(segment.gpu)
    cache = PartCache()

    def one(folder: Path, readings: Sequence[str], gpu: str) -> pl.DataFrame:
        if whole_seconds:
            return _seconds(folder, readings, gpu, cache)
        return frames.ticks(folder, readings, gpu, cache)

    def read(gpu: Gpu, readings: Sequence[str]) -> pl.DataFrame:
        tables = [one(folder, readings, gpu[1]) for folder in folders[gpu]]
        return pl.concat(tables, how="diagonal_relaxed")

    return Readings(list(folders), whole_seconds, read)


def _seconds(folder: Path, readings: Sequence[str], gpu: str, cache: PartCache) -> pl.DataFrame:
    """Reads whole seconds, and merges a second that two files share."""
    tables = frames.seconds_in_turn(folder, readings, ("mean", "max"), gpu, cache)
    whole = pl.concat([pl.DataFrame(schema=frames.KEYS), *tables], how="diagonal_relaxed")
    return whole if (whole["time"].dt.epoch("s").diff() > 0).all() else _once(whole)


def _once(whole: pl.DataFrame) -> pl.DataFrame:
    weight = pl.col("ticks").fill_null(0)
    means = [name for name in whole.columns if name.endswith("_mean")]
    others = [name for name in whole.columns if name.endswith(("_any", "_last"))]
    rows = whole.group_by("time", maintain_order=True).agg(
        weight.sum(),
        *((pl.col(name) * weight).sum() / weight.filter(pl.col(name).is_not_null()).sum() for name in means),
        pl.col([name for name in whole.columns if name.endswith("_max")]).max(),
        pl.col(others).last(),
    )
    return rows.with_columns(pl.col(means).fill_nan(None))
