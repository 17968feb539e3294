"""A run's readings, GPU by GPU: memory holds the rows of one, and of these one reading at a time as numbers.

They come as they were sampled, or as whole seconds (`gpu_1s`), which is what recordings of days are read by.

Which telemetry a run is joined to: its ticks, or whole seconds where there are too many of them to read.
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
from gputel.telemetry.store.wide import Journals

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.recording import Recording

AVERAGED = ("util", "sm_mhz", "sm_active", "tensor_active", "dram_active")
WANTED = ("power_w", "energy_j", "temp_c", "mem_used_mib", "throttle", *AVERAGED)
OF_SECONDS = {"energy_j": "energy_j_last", "throttle": "throttle_any"}  # of the others the mean
MOST_GPUS = 1024  # rows of one moment
Gpu: TypeAlias = tuple[str | None, str]  # its node, where there are several, and its name

MANY = 6_000_000  # rows: eight hours of two GPUs at 100 Hz
PART_S = 600


@dataclass(frozen=True)
class GpuTicks:
    """Of one GPU: what held when. `counted_at` is when the energy counter stood at its values."""

    holds: SampleAndHold
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

    def ticks(self, gpu: Gpu) -> GpuTicks | None:
        """In the order of time; None where there is none."""
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


def hold_seconds(times: Moments, ticks: Moments) -> SampleAndHold:
    """A second stands for its mean; the first and the last of a stretch for as much as was sampled of it."""
    found = gaps_between(times, ticks, SECOND)
    begins, ends = np.insert(found.after, 0, True), np.append(found.after, True)
    share = np.minimum(ticks / full(ticks), 1.0)
    lacking = ((1 - share) * SECOND).astype(np.int64)
    alone = times + max(SECOND, found.usual_ns) - lacking * ~begins
    return SampleAndHold(times + lacking * begins, np.where(ends, alone, np.append(times[1:], alone[-1:])))


def gpu_samples(subject: RunData, most: float | None = None) -> Readings | None:
    """None where nothing was sampled. So many ticks at most are read as they are (MANY), of more whole seconds."""
    recording = subject.recording
    if recording is not None:
        found = _of_recording(recording, rows(recording) > (MANY if most is None else most))
        return found if found.gpus and found.edges else None
    table = subject.gpu
    dated = table is not None and table["time"].null_count() < len(table)
    return of_table(table) if table is not None and dated else None


def rows(recording: Recording) -> float:
    """About how many ticks of GPUs there are, by the descriptions; a segment without an end by its files."""
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
    """How many GPUs take turns, row by row, as they do where all are sampled at once; 0 where they do not."""
    count = table.head(MOST_GPUS).select(keys).n_unique()
    if len(table) == 0 or len(table) % count:
        return 0
    rest = len(table) - count
    return count if all(table[k].slice(count).eq_missing(table[k].head(rest)).all() for k in keys) else 0


def _of_recording(recording: Recording, whole_seconds: bool) -> Readings:
    """The segments of a GPU follow each other."""
    folders: dict[Gpu, list[Path]] = {}
    for segment in recording.folder.segments:
        for name in dict.fromkeys(gpu for gpu, _ in frames.columns(segment.gpu)):
            folders.setdefault((segment.node, name), []).append(segment.gpu)
    journals = Journals()

    def one(folder: Path, readings: Sequence[str], gpu: str) -> pl.DataFrame:
        if whole_seconds:
            return _seconds(folder, readings, gpu, journals)
        return frames.ticks(folder, readings, gpu, journals)

    def read(gpu: Gpu, readings: Sequence[str]) -> pl.DataFrame:
        found = [one(folder, readings, gpu[1]) for folder in folders[gpu]]
        return pl.concat(found, how="diagonal_relaxed")

    return Readings(list(folders), whole_seconds, read)


def _seconds(folder: Path, readings: Sequence[str], gpu: str, journals: Journals) -> pl.DataFrame:
    """A second that two parts share becomes one again."""
    tables = frames.seconds_in_turn(folder, readings, ("mean", "max"), gpu, journals)
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
