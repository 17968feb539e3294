"""Which telemetry a page is drawn from: ticks of a short recording; of a long one whole seconds, reduced at once.

Each row of the reduced ones is a mean between the lowest and the highest tick of its stretch; so no peak is lost,
and a week of eight GPUs needs as little memory as an hour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis.align import samples as aligned
from gputel.analysis.document import Numbers
from gputel.analysis.documents.panels.gpus import KINDS
from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import frames
from gputel.telemetry.store.ticks import PartCache

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.recording import Recording
    from gputel.telemetry.run_folder import Segment

FEW = 1_000_000  # ticks of GPUs, which are drawn as they are
POINTS = 8000  # of a curve: more than any page carries
READINGS = tuple(name for kind in KINDS for name, _ in kind.readings)


def drawn_samples(subject: RunData) -> pl.DataFrame | None:
    """The rows that `gpus.panels` draws; None where nothing was sampled."""
    recording = subject.recording
    if recording is not None:
        frame = _ticks(recording) if aligned.rows(recording) <= FEW else _reduced(recording)
    elif subject.gpu is not None:
        frame = subject.gpu.filter(pl.col("time").is_not_null())
    else:
        return None
    return None if frame.is_empty() else frame


def power(subject: RunData, start_ns: int) -> Iterator[tuple[Numbers, Numbers]]:
    """All GPUs together, tick by tick, in stretches: seconds since `start_ns`, and watts."""
    recording = subject.recording
    if recording is None:
        ticks = drawn_samples(subject)
        if ticks is not None and "power_w" in ticks.columns:
            yield _together(ticks, "power_w", start_ns)
        return
    for segment in _of_first_node(recording):
        for stretch in frames.one_reading(segment.gpu, "power_w"):
            gpus = [name for name in stretch.columns if name != "time_ns"]
            watts = stretch.select(pl.sum_horizontal(gpus, ignore_nulls=False).alias("watts"))["watts"]
            yield _seconds(stretch["time_ns"], start_ns), watts.fill_null(np.nan).to_numpy()


def polled_hz(subject: RunData) -> float | None:
    """The polling rate by the ticks themselves; None where no power was measured."""
    times, _ = next(power(subject, 0), (np.zeros(0), None))
    gaps = np.diff(times)
    usual = float(np.median(gaps)) if len(gaps) else 0.0
    return 1 / usual if usual > 0 else None


def _of_first_node(recording: Recording) -> list[Segment]:
    """Uses the first node only: nodes sample at different moments but run the same job."""
    segments = recording.folder.segments
    return [segment for segment in segments if segment.node == segments[0].node]


def _together(rows: pl.DataFrame, column: str, start_ns: int) -> tuple[Numbers, Numbers]:
    whole = rows.group_by("time", maintain_order=True).agg(_whole(column)).sort("time")
    return _seconds(whole["time"].dt.epoch("ns"), start_ns), whole[column].to_numpy()


def _ticks(recording: Recording) -> pl.DataFrame:
    lazy = recording.scan()
    wanted = ("time", "gpu", "node", *READINGS)
    return lazy.select(name for name in lazy.collect_schema().names() if name in wanted).collect()


def _reduced(recording: Recording) -> pl.DataFrame:
    """Reduces one GPU at a time: the whole seconds of all would be the largest frame here."""
    length = recording.duration_s or 0.0
    width = f"{max(1, math.ceil(length / POINTS))}s"
    several = any(segment.node is not None for segment in recording.folder.segments)
    parts, cache = [], PartCache()
    for segment in recording.folder.segments:
        for reduced in _of_segment(segment, width, cache):
            node = pl.lit(segment.node).alias("node")
            parts.append(reduced.with_columns(node) if several else reduced)
    nothing = pl.DataFrame(schema={"gpu": pl.String, "time": pl.Datetime("ns", "UTC"), "ticks": pl.Int64})
    whole = _merged(pl.concat([nothing, *parts], how="diagonal_relaxed"), width, first=False)
    return whole.sort("time", maintain_order=True)


def _of_segment(segment: Segment, width: str, cache: PartCache) -> Iterator[pl.DataFrame]:
    """Each table of seconds of each GPU in stretches of `width`."""
    for gpu in dict.fromkeys(gpu for gpu, name in frames.columns(segment.gpu) if name in READINGS):
        for seconds in frames.seconds_in_turn(segment.gpu, READINGS, ("min", "mean", "max"), gpu, cache):
            yield _merged(seconds, width, first=True)


def _merged(rows: pl.DataFrame, width: str, *, first: bool) -> pl.DataFrame:
    """Stretches of `width`; one that two tables share becomes one row in the second pass."""
    keys = [name for name in ("gpu", "node") if name in rows.columns]
    weight = pl.col("ticks")
    kept = {ending: [n for n in rows.columns if n.endswith(ending)] for ending in ("_mean", "_min", "_max")}
    means = [
        pl.col(name).mean()
        if first
        else (pl.col(name) * weight).sum() / weight.filter(pl.col(name).is_not_null()).sum()
        for name in kept["_mean"]
    ]
    return (
        rows.group_by(*keys, pl.col("time").dt.truncate(width), maintain_order=True)
        .agg(weight.sum(), *means, pl.col(kept["_min"]).min(), pl.col(kept["_max"]).max())
        .with_columns(pl.col(kept["_mean"]).fill_nan(None))
    )


def _whole(column: str) -> pl.Expr:
    """The sum over GPUs; null, as NaN, where any of them is missing."""
    return (
        pl.when(pl.col(column).null_count() == 0).then(pl.col(column).sum()).otherwise(np.nan).alias(column)
    )


def _seconds(times_ns: pl.Series, start_ns: int) -> Numbers:
    seconds: Numbers = (times_ns.to_numpy() - start_ns) / SECOND
    return seconds
