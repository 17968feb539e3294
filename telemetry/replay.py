"""Replays a recording as a `Machine`: its GPUs answer what they measured, from the first sample on.

Takes a run folder, or any frame of telemetry (`time`, `gpu`, and columns named like readings). Answers with the
last value recorded before each moment; a null stays null, and after the last sample every value is None.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.telemetry import run_folder
from gputel.telemetry.clock import Clock
from gputel.telemetry.errors import GputelError
from gputel.telemetry.machine import Answer, Gpu, GpuUsers, MachineWithoutDriver, ReaderWithoutDriver, Values
from gputel.telemetry.readings import BY_NAME, Reading

if TYPE_CHECKING:
    import polars as pl

Column = Sequence[int | None]


@dataclass(frozen=True)
class Track:
    """The samples of one GPU: nanoseconds since the recording's start, and a column of values per reading."""

    times: Sequence[int]
    columns: Mapping[str, Column]

    def at(self, elapsed: int) -> int | None:
        """Index of the last sample taken by then."""
        index = bisect_right(self.times, elapsed) - 1
        return None if index < 0 or elapsed > self.times[-1] else index


class Replay(MachineWithoutDriver):
    """A machine whose recording starts when it is opened."""

    def __init__(self, name: str, tracks: Mapping[Gpu, Track], clock: Clock) -> None:
        self.simulated: str | None = f"replay of {name}"
        self.gpus = tuple(tracks)
        self._tracks, self._start = tracks, clock.monotonic()

    def probe(self, gpu: Gpu, reading: Reading) -> Answer:
        column = self._tracks[gpu].columns.get(reading.name)
        if column is None or all(value is None for value in column):
            return Answer(None, None, "NotRecorded")
        return Answer(column[0], "replay")

    def reader(self, gpu: Gpu, readings: Sequence[Reading]) -> ReplayReader:
        return ReplayReader(self._tracks[gpu], self._start, [reading.name for reading in readings])

    def users(self, gpu: Gpu, now: int) -> GpuUsers:
        return GpuUsers((), "NotRecorded")


class ReplayReader(ReaderWithoutDriver):
    """Answers from one GPU's track."""

    def __init__(self, track: Track, start: int, names: Sequence[str]) -> None:
        nothing: Column = [None] * len(track.times)
        self._track, self._start = track, start
        self._columns = [track.columns.get(name, nothing) for name in names]

    def answer(self, now: int) -> Values:
        index = self._track.at(now - self._start)
        return [None if index is None else column[index] for column in self._columns]


def from_frame(name: str, frame: pl.DataFrame, clock: Clock, gpus: Mapping[str, Gpu] | None = None) -> Replay:
    """A machine from a frame of telemetry; `gpus` gives names and limits by index."""
    rows = frame.filter(frame["time"].is_not_null() & frame["gpu"].is_not_null()).sort("time")
    if rows.is_empty():
        raise GputelError(name, "has no GPU samples", "replay a run that has some")
    start = rows["time"].dt.epoch("ns")[0]
    gpus = gpus or {}
    tracks = {
        gpus.get(index) or Gpu(index, "recorded", f"GPU-replayed-{index}", None): _track(part, start)
        for (index,), part in rows.partition_by("gpu", as_dict=True, maintain_order=True).items()
    }
    return Replay(name, dict(sorted(tracks.items(), key=lambda item: item[0].index)), clock)


def open_machine(path: Path, clock: Clock) -> Replay:
    """A machine that replays the first segment of a run folder."""
    from gputel.telemetry.store import frames

    segment = run_folder.open_folder(path).segments[0]
    return from_frame(str(path), frames.ticks(segment.gpu), clock, _gpus(segment.path))


def _track(frame: pl.DataFrame, start: int) -> Track:
    times = (frame["time"].dt.epoch("ns") - start).to_list()
    names = [name for name in frame.columns if name in BY_NAME]
    return Track(times, {name: _counts(frame[name], BY_NAME[name].per_unit) for name in names})


def _counts(values: pl.Series, per_unit: int) -> Column:
    """Values as the driver's integers of `1 / per_unit`; NaN becomes None."""
    import polars as pl

    scaled = (values.cast(pl.Float64, strict=False) * per_unit).round()
    counts: list[int | None] = scaled.fill_nan(None).cast(pl.Int64).to_list()
    return counts


def _gpus(segment: Path) -> dict[str, Gpu]:
    """The GPUs listed in run.json, by index."""
    gpus = run_folder.describe(segment).get("gpus")
    return {str(facts["gpu"]): _gpu(facts) for facts in (gpus if isinstance(gpus, list) else [])}


def _gpu(facts: Mapping[str, object]) -> Gpu:
    limits, memory = facts.get("limits"), facts.get("memory_total_mib")
    return Gpu(
        str(facts["gpu"]),
        str(facts.get("name")),
        str(facts.get("uuid")),
        None if facts.get("driver") is None else str(facts["driver"]),
        memory if isinstance(memory, int) else None,
        limits if isinstance(limits, dict) else {},
        None if facts.get("parent") is None else str(facts["parent"]),
    )
