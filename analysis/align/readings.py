"""Which telemetry a run is joined to: its ticks, or whole seconds where there are too many of them to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.align import gpus
from gputel.analysis.align.gpus import Gpu, Readings
from gputel.telemetry.store import frames
from gputel.telemetry.store.wide import Journals

if TYPE_CHECKING:
    from gputel.analysis.runs import Recording
    from gputel.analysis.subjects import Subject

MANY = 6_000_000  # rows: eight hours of two GPUs at 100 Hz
PART_S = 600


def of(subject: Subject, most: float | None = None) -> Readings | None:
    """None where nothing was sampled. So many ticks at most are read as they are (MANY), of more whole seconds."""
    recording = subject.recording
    if recording is not None:
        found = _of_recording(recording, rows(recording) > (MANY if most is None else most))
        return found if found.gpus and found.edges else None
    table = subject.gpu
    dated = table is not None and table["time"].null_count() < len(table)
    return gpus.of_table(table) if table is not None and dated else None


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
