"""What a run folder holds, ready for JSON: from descriptions, events and whole seconds, not from all ticks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from gputel.analysis import document, text
from gputel.analysis.runs import Recording, open_run
from gputel.telemetry import events
from gputel.telemetry.readings import READINGS
from gputel.telemetry.run import Segment


def of(path: Path) -> dict[str, Any]:
    recording = open_run(path)
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
            {**row, **_held(segment)}
            for row, segment in zip(segments, recording.folder.segments, strict=True)
        ],
        "telemetry": telemetry(recording),
    }
    return dict(document.as_json(answer))


def telemetry(recording: Recording) -> dict[str, Any] | None:
    """Rows and columns as `parse --json` tells them; a mean is that of the ticks, weighted by second."""
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


def _held(segment: Segment) -> dict[str, Any]:
    files = [path for path in segment.gpu.glob("*") if path.is_file()]
    kinds = Counter(str(event.get("kind")) for event in events.read(segment.path))
    return {
        "path": str(segment.path),
        "output_bytes": segment.output.stat().st_size if segment.output.exists() else None,
        "gpu_bytes": sum(path.stat().st_size for path in files),
        "events": dict(sorted(kinds.items())),
    }
