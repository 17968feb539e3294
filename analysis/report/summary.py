"""A run folder -> the summary that ends a recording, and the contents that `gputel info` shows.

Both use descriptions, events and whole seconds instead of all ticks.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from gputel.analysis import document, text
from gputel.analysis.report.gpu_totals import GpuTotals, gpu_totals
from gputel.analysis.report.machine import (
    MachineSampling,
    MachineSummary,
    machine_sampling,
    machine_summaries,
)
from gputel.analysis.runs.facts import distinct_gpus
from gputel.analysis.runs.recording import Recording, open_recording, total
from gputel.telemetry import completeness, events, run_folder
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.host.columns import TABLES
from gputel.telemetry.readings import READINGS
from gputel.telemetry.run_folder import Segment
from gputel.telemetry.store import frames, parts

FEWEST_ROWS = 100
"""Fewer rows give no rate: one more or less would change it by more than 1 %."""
TELLING = ("power_w", "power_avg_w", "energy_j", "temp_c", "util", "sm_mhz")
"""Readings whose refresh rate is shown."""


class MinuteRate(NamedTuple):
    """A rate of a tier, and the minute from which it held."""

    minute: int
    hz: float


@dataclass(frozen=True)
class TierRows:
    """The rows that exist of a tier, over the time, and by the minute where their rate changed."""

    tier: str
    rows: int
    hz: float | None
    minutes: Sequence[MinuteRate]

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "minutes": [change._asdict() for change in self.minutes]}


@dataclass(frozen=True)
class SamplingSummary:
    """How fast and at what cost the GPUs were sampled, from the last sampler with statistics."""

    asked_hz: float
    polled_hz: float | None
    ticks: int
    late: int
    missed: int
    not_kept: int
    """Rows of all tiers that the disk did not take."""
    lateness_max_ms: float | None
    cpu_share: float | None  # of one core, start-up left out
    startup_cpu_s: float
    driver_share: float | None
    resident_mib: float
    lowered: Sequence[Mapping[str, Any]]  # tiers, and readings, whose rate was lowered, with their rates
    tiers: Sequence[TierRows]

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "tiers": [tier.as_json() for tier in self.tiers]}


@dataclass(frozen=True)
class RecordingSummary:
    """The closing report of a recording: how long, how well, and the totals of each GPU."""

    run: str
    path: str
    simulated: str | None
    segments: int
    duration_s: float | None
    downtime_s: float | None
    exit_code: int | None
    stopped: Mapping[str, Any] | None
    sampling: SamplingSummary | None
    not_sampled: Sequence[str]  # what says that telemetry is missing, of a GPU or of a segment
    energy_j: float | None
    gpus: Sequence[GpuTotals]
    events: Mapping[str, int]
    telemetry_bytes: int
    output_bytes: float | None
    machines: Sequence[MachineSummary]

    def as_json(self) -> dict[str, Any]:
        parts = {
            "sampling": self.sampling and self.sampling.as_json(),
            "gpus": [gpu.as_json() for gpu in self.gpus],
            "machines": [machine.as_json() for machine in self.machines],
        }
        return dict(document.as_json({**vars(self), **parts}))


@dataclass(frozen=True)
class SegmentContents:
    """One segment: a row of `Recording.segments`, with the sizes of its files and its events by kind."""

    attempt: int
    node: str | None
    started: str | None
    ended: str | None
    duration_s: float | None
    downtime_s: float | None
    exit_code: int | None
    path: str
    output_bytes: int | None
    telemetry_bytes: int
    events: Mapping[str, int]


@dataclass(frozen=True)
class RecordedReadings:
    """Rows and columns of the readings as in `parse --json`; means are weighted by ticks."""

    rows: int
    gpus: Sequence[str]
    first: str
    last: str
    columns: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class RunContents:
    """The answer of `gputel info`; `telemetry` is None if nothing was sampled."""

    run: str
    path: str
    simulated: str | None
    argv: Sequence[str] | None
    host: str | None
    git: Mapping[str, Any] | None
    tags: Mapping[str, str]
    duration_s: float | None
    downtime_s: float | None
    gpus: Sequence[Mapping[str, Any]]
    segments: Sequence[SegmentContents]
    telemetry: RecordedReadings | None
    machine: MachineSampling | None

    def as_json(self) -> dict[str, Any]:
        parts = {
            "segments": [vars(segment) for segment in self.segments],
            "telemetry": self.telemetry and vars(self.telemetry),
            "machine": self.machine and self.machine.as_json(),
        }
        return dict(document.as_json({**vars(self), **parts}))


def recording_summary(path: Path) -> RecordingSummary:
    """Summarizes the run folder at `path`."""
    recording = open_recording(path)
    gpus = [_named(recording, gpu) for gpu in gpu_totals(recording.folder.segments)]
    last, segments = recording.descriptions[-1], recording.folder.segments
    return RecordingSummary(
        run=recording.name,
        path=str(path),
        simulated=recording.simulated,
        segments=len(segments),
        duration_s=recording.duration_s,
        downtime_s=recording.downtime_s,
        exit_code=last.get("exit_code"),
        stopped=last.get("stopped"),
        sampling=sampling(recording),
        not_sampled=[text for segment in segments for text in completeness.not_sampled(segment.path)],
        energy_j=total(gpu.energy_j for gpu in gpus),
        gpus=gpus,
        events=dict(Counter(event["kind"] for event in _events(recording))),
        telemetry_bytes=telemetry_bytes(recording),
        output_bytes=total(_length(segment.output) for segment in segments),
        machines=machine_summaries(recording),
    )


def telemetry_bytes(recording: Recording) -> int:
    """Returns the size of all tables of a recording, without files that compaction is about to remove."""
    return sum(_size(table) for segment in recording.folder.segments for table in _tables(segment))


def sampling(recording: Recording) -> SamplingSummary | None:
    """Returns the rate and cost of sampling; None if nothing was sampled."""
    plans: list[dict[str, Any]] = [facts.get("sampling") or {} for facts in recording.descriptions]
    with_statistics = [(plan, plan["statistics"]) for plan in plans if plan.get("statistics")]
    if not with_statistics:
        return None
    plan, statistics = with_statistics[-1]
    try:
        return _sampling(recording, plan, statistics)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        path = recording.path / run_folder.DESCRIPTION
        warnings.warn(DamagedFile(path, "sampling", run_folder.WRONG_TYPES), stacklevel=2)
        return None


def _sampling(
    recording: Recording, plan: Mapping[str, Any], statistics: Mapping[str, Any]
) -> SamplingSummary:
    seconds, startup = statistics.get("sampled_s"), statistics.get("startup")
    steady_s = seconds - startup["sampled_s"] if seconds and startup else 0.0
    lateness_us = statistics["lateness_us"]["max"]
    return SamplingSummary(
        asked_hz=float(plan["hz"]),
        polled_hz=polled_hz(segment.gpu for segment in recording.folder.segments),
        ticks=int(statistics["ticks"]),
        late=int(statistics["late"]),
        missed=int(statistics["missed"]),
        not_kept=sum(statistics["not_kept"].values()),
        lateness_max_ms=lateness_us and lateness_us / 1000,
        cpu_share=(statistics["cpu_s"] - startup["cpu_s"]) / steady_s if startup and steady_s else None,
        startup_cpu_s=float(startup["cpu_s"] if startup else statistics["cpu_s"]),
        driver_share=sum(statistics["inside_driver_s"].values()) / seconds if seconds else None,
        resident_mib=float(statistics["resident_mib"]),
        lowered=[_lowered(part) for part in statistics["lowered"]],
        tiers=_tiers(statistics, seconds + 1 / plan["hz"] if seconds else None),
    )


def _lowered(part: Mapping[str, Any]) -> Mapping[str, Any]:
    named = {"readings": [*map(str, part["readings"])]} if "readings" in part else {"tier": str(part["tier"])}
    return {**part, **named, "hz": float(part["hz"])}


def _tiers(statistics: Mapping[str, Any], whole_s: float | None) -> list[TierRows]:
    """The kept rows and the rate of each tier over `whole_s`, which counts the last tick's period as well."""
    summaries = []
    for name, counted in statistics.get("tiers", {}).items():
        rows = int(counted["rows"]) - statistics["not_kept"].get(name, 0)
        minutes = [MinuteRate(int(minute), float(hz)) for minute, hz in counted["minutes"]]
        hz = rows / whole_s if whole_s and rows >= FEWEST_ROWS else None
        summaries.append(TierRows(name, rows, hz, minutes))
    return summaries


def polled_hz(folders: Iterable[Path]) -> float | None:
    """Returns samples per second of `gpu/` folders, from the first to the last sample, gaps included."""
    spans = [sampled for folder in folders if (sampled := frames.sampled(folder))]
    seconds = sum(sampled.seconds for sampled in spans)
    return sum(sampled.rows - 1 for sampled in spans) / seconds if seconds else None


def refreshed(gpu: GpuTotals) -> dict[str, float | None]:
    """Returns the refresh rates of a GPU's readings; None if there are too few changes to tell."""
    return {name: gpu.refresh_hz[name] for name in TELLING if name in gpu.refresh_hz}


def run_contents(path: Path) -> RunContents:
    """Returns what a run folder holds."""
    recording = open_recording(path)
    first = recording.descriptions[0]
    rows = document.rows(recording.segments)
    return RunContents(
        run=recording.name,
        path=str(path),
        simulated=recording.simulated,
        argv=first.get("argv"),
        host=(first.get("host") or {}).get("name"),
        git=first.get("git"),
        tags=first.get("tags") or {},
        duration_s=recording.duration_s,
        downtime_s=recording.downtime_s,
        gpus=distinct_gpus(recording.descriptions),
        segments=[
            SegmentContents(**row, **_files_and_events(segment))
            for row, segment in zip(rows, recording.folder.segments, strict=True)
        ],
        telemetry=telemetry(recording),
        machine=machine_sampling(recording),
    )


def telemetry(recording: Recording) -> RecordedReadings | None:
    seconds = recording.gpu_1s
    if seconds.is_empty():
        return None
    columns: dict[str, dict[str, Any]] = {}
    for reading in READINGS:
        mean = f"{reading.name}_mean"
        measured = pl.col(mean).is_not_null() if mean in seconds.columns else None
        if measured is None or not seconds.select(measured.any()).item():
            continue
        weight = pl.col("ticks").filter(measured)
        low, middle, high = seconds.select(
            pl.col(f"{reading.name}_min").min(),
            ((pl.col(mean).filter(measured) * weight).sum() / weight.sum()).alias(mean),
            pl.col(f"{reading.name}_max").max(),
        ).row(0)
        columns[reading.name] = {"unit": reading.unit, "min": low, "mean": middle, "max": high}
    times = seconds["time"].dt.epoch("ns").to_numpy()
    return RecordedReadings(
        rows=int(seconds["ticks"].sum()),
        gpus=sorted(seconds["gpu"].unique(), key=lambda gpu: [int(part) for part in gpu.split(":")]),
        first=text.moment(int(times.min())),
        last=text.moment(int(times.max())),
        columns=columns,
    )


def _named(recording: Recording, gpu: GpuTotals) -> GpuTotals:
    """Adds a GPU's name and limits, from the last description of its node that has it."""
    for segment, facts in reversed(list(zip(recording.folder.segments, recording.descriptions, strict=True))):
        for described in facts.get("gpus") or []:
            if segment.node == gpu.node and described["gpu"] == gpu.gpu:
                return replace(
                    gpu,
                    name=described.get("name"),
                    power_limit_w=(described.get("limits") or {}).get("power_w"),
                    mem_total_mib=described.get("memory_total_mib"),
                )
    return gpu


def _events(recording: Recording) -> list[dict[str, Any]]:
    return [event for segment in recording.folder.segments for event in events.read(segment.path)]


def _size(folder: Path) -> int:
    """Returns the size of the files that are read, without those that compaction is about to remove."""
    return sum(_length(part.path) or 0 for part in parts.current(folder))


def _tables(segment: Segment) -> list[Path]:
    return [segment.gpu, *(segment.path / table for table in TABLES)]


def _length(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def _files_and_events(segment: Segment) -> dict[str, Any]:
    files = [path for table in _tables(segment) for path in table.glob("*") if path.is_file()]
    kinds = Counter(event["kind"] for event in events.read(segment.path))
    return {
        "path": str(segment.path),
        "output_bytes": segment.output.stat().st_size if segment.output.exists() else None,
        "telemetry_bytes": sum(path.stat().st_size for path in files),
        "events": dict(sorted(kinds.items())),
    }
