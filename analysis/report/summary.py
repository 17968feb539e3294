"""A run folder -> the summary that ends a recording, and the contents that `gputel info` shows, both for JSON.

Both use descriptions, events and whole seconds instead of all ticks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gputel.analysis import document, text
from gputel.analysis.report.gpu_totals import gpu_totals
from gputel.analysis.runs.recording import Recording, open_recording, total
from gputel.analysis.runs.sensors import FEW_REFRESHES
from gputel.telemetry import events
from gputel.telemetry.readings import READINGS
from gputel.telemetry.run_folder import Segment
from gputel.telemetry.store import frames, parts

TELLING = ("power_w", "power_avg_w", "energy_j", "temp_c", "util", "sm_mhz")
"""Readings whose refresh rate is shown."""


def recording_summary(path: Path) -> dict[str, Any]:
    """Returns what the end of a recording shows: how long, how well, and what each GPU did."""
    recording = open_recording(path)
    gpus = gpu_totals(recording.folder.segments)
    return {
        "run": recording.name,
        "path": str(path),
        "simulated": recording.simulated,
        "segments": len(recording.folder.segments),
        "duration_s": recording.duration_s,
        "downtime_s": recording.downtime_s,
        "exit_code": recording.descriptions[-1].get("exit_code"),
        "stopped": recording.descriptions[-1].get("stopped"),
        "sampling": sampling(recording),
        "energy_j": total(_best(gpu) for gpu in gpus),
        "gpus": [{**gpu, "few_refreshes": few(gpu), **_facts(recording, gpu)} for gpu in gpus],
        "events": dict(Counter(str(event.get("kind")) for event in _events(recording))),
        "gpu_bytes": sum(_size(segment.gpu) for segment in recording.folder.segments),
        "output_bytes": total(_length(segment.output) for segment in recording.folder.segments),
    }


def sampling(recording: Recording) -> dict[str, Any] | None:
    """Returns the rate and cost of sampling, from the last sampler with statistics; None if nothing was sampled."""
    plans: list[dict[str, Any]] = [facts.get("sampling") or {} for facts in recording.descriptions]
    with_statistics = [(plan, plan["statistics"]) for plan in plans if plan.get("statistics")]
    if not with_statistics:
        return None
    plan, statistics = with_statistics[-1]
    seconds = statistics.get("sampled_s")
    inside = sum(statistics["inside_driver_s"].values())
    return {
        "asked_hz": plan["hz"],
        "polled_hz": polled_hz(segment.gpu for segment in recording.folder.segments),
        "ticks": statistics["ticks"],
        "late": statistics["late"],
        "missed": statistics["missed"],
        "lateness_max_ms": statistics["lateness_us"]["max"] and statistics["lateness_us"]["max"] / 1000,
        "cpu_share": seconds and statistics["cpu_s"] / seconds,
        "driver_share": seconds and inside / seconds,
        "resident_mib": statistics["resident_mib"],
        "lowered": statistics["lowered"],
    }


def polled_hz(folders: Iterable[Path]) -> float | None:
    """Returns samples per second of `gpu/` folders, from the first to the last sample, gaps included."""
    spans = [sampled for folder in folders if (sampled := frames.sampled(folder))]
    seconds = sum(sampled.seconds for sampled in spans)
    return sum(sampled.rows - 1 for sampled in spans) / seconds if seconds else None


def refreshed(gpu: dict[str, Any]) -> dict[str, float | None]:
    """Returns the refresh rates of a GPU's readings; None if there are too few changes to tell."""
    return {name: gpu["refresh_hz"][name] for name in TELLING if name in gpu["refresh_hz"]}


def few(gpu: dict[str, Any]) -> bool:
    """Returns whether a GPU was measured too briefly to compare integral and counter, each off by a refresh."""
    hz = gpu["refresh_hz"].get("power_w")
    return hz is not None and gpu["measured_s"] * hz < FEW_REFRESHES


def run_contents(path: Path) -> dict[str, Any]:
    """Returns what `gputel info` shows of a run folder."""
    recording = open_recording(path)
    first = recording.descriptions[0]
    segments = document.rows(recording.segments)
    answer = {
        "run": recording.name,
        "path": str(path),
        "simulated": recording.simulated,
        "argv": first.get("argv"),
        "host": (first.get("host") or {}).get("name"),
        "git": first.get("git"),
        "tags": first.get("tags") or {},
        "duration_s": recording.duration_s,
        "downtime_s": recording.downtime_s,
        "gpus": [gpu for facts in recording.descriptions for gpu in facts.get("gpus") or []],
        "segments": [
            {**row, **_segment_contents(segment)}
            for row, segment in zip(segments, recording.folder.segments, strict=True)
        ],
        "telemetry": telemetry(recording),
    }
    return dict(document.as_json(answer))


def telemetry(recording: Recording) -> dict[str, Any] | None:
    """Returns rows and columns as in `parse --json`; means are weighted by ticks."""
    import polars as pl

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
    return {
        "rows": int(seconds["ticks"].sum()),
        "gpus": sorted(seconds["gpu"].unique(), key=lambda gpu: [int(part) for part in gpu.split(":")]),
        "first": text.moment(int(times.min())),
        "last": text.moment(int(times.max())),
        "columns": columns,
    }


def _best(gpu: dict[str, Any]) -> float | None:
    """Returns energy by the driver's counter, which misses nothing between samples, else by the integral."""
    counter: float | None = gpu["energy_counter_j"]
    return gpu["energy_integral_j"] if counter is None else counter


def _facts(recording: Recording, gpu: dict[str, Any]) -> dict[str, Any]:
    """Returns a GPU's name and limits, from the last description of its node that has it."""
    for segment, facts in reversed(list(zip(recording.folder.segments, recording.descriptions, strict=True))):
        for described in facts.get("gpus") or []:
            if segment.node == gpu["node"] and described["gpu"] == gpu["gpu"]:
                limit = (described.get("limits") or {}).get("power_w")
                total = described.get("memory_total_mib")
                return {"name": described["name"], "power_limit_w": limit, "mem_total_mib": total}
    return {"name": None, "power_limit_w": None, "mem_total_mib": None}


def _events(recording: Recording) -> list[dict[str, object]]:
    return [event for segment in recording.folder.segments for event in events.read(segment.path)]


def _size(folder: Path) -> int:
    """Returns the size of the files that are read, without those that compaction is about to remove."""
    return sum(_length(part.path) or 0 for part in parts.current(folder))


def _length(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def _segment_contents(segment: Segment) -> dict[str, Any]:
    files = [path for path in segment.gpu.glob("*") if path.is_file()]
    kinds = Counter(str(event.get("kind")) for event in events.read(segment.path))
    return {
        "path": str(segment.path),
        "output_bytes": segment.output.stat().st_size if segment.output.exists() else None,
        "gpu_bytes": sum(path.stat().st_size for path in files),
        "events": dict(sorted(kinds.items())),
    }
