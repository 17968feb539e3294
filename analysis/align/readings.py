"""Which telemetry a run is joined to: its ticks, or whole seconds where memory should not hold that many ticks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.align.join import WANTED
from gputel.telemetry.store import frames

if TYPE_CHECKING:
    from gputel.analysis.runs import Recording
    from gputel.analysis.subjects import Subject
    from gputel.telemetry.run import Segment

MANY = 6_000_000  # rows: eight hours of two GPUs at 100 Hz
PART_S = 600
MEANS = r"^(power_w|temp_c|util|sm_mhz|\w+_active)_mean$"
OTHERS = r"^(power_w|temp_c|mem_used_mib)_max$|^throttle_any$|^energy_j_last$"


def of(subject: Subject, most: float | None = None) -> pl.DataFrame | None:
    """With the readings that spans are measured by, and no others; None where nothing was sampled.

    So many ticks at most are read as they are (MANY); whole seconds are, where there are more.
    """
    recording = subject.recording
    if recording is None:
        table = subject.gpu
        dated = table is not None and table["time"].null_count() < len(table)
        return table if dated else None
    frame = _seconds(recording) if rows(recording) > (MANY if most is None else most) else _ticks(recording)
    return None if frame.is_empty() else frame


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


def _ticks(recording: Recording) -> pl.DataFrame:
    lazy = recording.scan()
    names = lazy.collect_schema().names()
    return lazy.select(name for name in names if name in ("time", "gpu", "node", *WANTED)).collect()


def _seconds(recording: Recording) -> pl.DataFrame:
    several = any(segment.node is not None for segment in recording.folder.segments)
    found = [_seconds_of(segment, several=several) for segment in recording.folder.segments]
    return pl.concat(found, how="diagonal_relaxed")


def _seconds_of(segment: Segment, *, several: bool) -> pl.DataFrame:
    """Only what is looked at, for a day has a million rows; a second that two parts share becomes one again."""
    tables = [
        table.select("time", "gpu", "ticks", pl.selectors.matches(f"{MEANS}|{OTHERS}"))
        for table in frames.seconds_in_turn(segment.gpu, WANTED, ("mean", "max"))
    ]
    if not tables:
        return pl.DataFrame()
    whole = pl.concat(tables, how="diagonal_relaxed")
    if not whole["time"].is_sorted() or _shared(tables):
        whole = _once(whole)
    return whole.with_columns(pl.lit(segment.node).alias("node")) if several else whole


def _shared(tables: list[pl.DataFrame]) -> bool:
    """Whether one table goes on in the second in which the one before it ended."""
    held = [table["time"] for table in tables if len(table)]
    return any(before[-1] == after[0] for before, after in pairwise(held))


def _once(whole: pl.DataFrame) -> pl.DataFrame:
    weight = pl.col("ticks").fill_null(0)
    means = [name for name in whole.columns if name.endswith("_mean")]
    others = [name for name in whole.columns if name.endswith(("_any", "_last"))]
    rows = whole.group_by("gpu", "time", maintain_order=True).agg(
        weight.sum(),
        *((pl.col(name) * weight).sum() / weight.filter(pl.col(name).is_not_null()).sum() for name in means),
        pl.col([name for name in whole.columns if name.endswith("_max")]).max(),
        pl.col(others).last(),
    )
    return rows.with_columns(pl.col(means).fill_nan(None))
