"""A comparison -> panels: its metric on every axis that the runs have, what lies between them, bands of groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis.document import Axis, Curves, Level, Numbers, Series
from gputel.analysis.figures import metrics
from gputel.analysis.figures.metrics import AXES, Line

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison

BESIDE = ("val_loss", "val_bpb", "loss", "tok_per_sec", "mfu", "grad_norm")


def lines(found: Comparison) -> list[Line]:
    """Every run in a colour of its own; runs of a group in the group's, switched on and off with it."""
    tints = {run: tint for tint, run in enumerate(found.runs)}
    of = found.groups or {curve.track.name: curve.track.name for curve in found.lines}
    return [
        Line(curve.track, of[curve.track.name], tints.get(of[curve.track.name], 0)) for curve in found.lines
    ]


def panels(found: Comparison) -> Iterator[Curves]:
    """The metric first, by what it is compared by; then what else tells the runs apart."""
    held = lines(found)
    axes = (found.by, *(name for name in AXES if name != found.by))
    for name in (found.metric, *(name for name in BESIDE if name != found.metric)):
        panel = metrics.panel(name, held, axes)
        if panel:
            yield panel


def differences(found: Comparison) -> Curves | None:
    """From the first run, both smoothed, at equal steps, tokens or whatever they are compared by."""
    common = found.common.filter(pl.col("difference").is_not_null() & (pl.col("run") != found.runs[0]))
    series = [
        Series(run, {found.by: _numbers(own["x"])}, _numbers(own["difference"]), run=run, tint=tint)
        for tint, run in enumerate(found.runs)
        if len(own := common.filter(pl.col("run") == run))
    ]
    if not series:
        return None
    return Curves(
        name="difference",
        title=f"{metrics.title(found.metric)}: difference from {found.runs[0]}",
        axes=(AXES[found.by],),
        y=Axis("difference", "difference"),
        series=tuple(series),
        levels=(Level(0.0, found.runs[0]),),
        note=f"Means over {found.smoothing:,.0f} steps, interpolated where a run has no step.",
        link="runs",
    )


def bands(found: Comparison) -> Curves | None:
    """Of groups of runs: the mean, and one deviation on either side."""
    if found.groups is None:
        return None
    series = []
    for tint, group in enumerate(found.runs):
        own = found.common.filter(pl.col("run") == group)
        mean, off = _numbers(own["value"]), np.nan_to_num(_numbers(own["deviation"]))
        series.append(
            Series(group, {found.by: _numbers(own["x"])}, mean, mean - off, mean + off, run=group, tint=tint)
        )
    return Curves(
        name="groups",
        title=f"{metrics.title(found.metric)}: mean of each group",
        axes=(AXES[found.by],),
        y=Axis(found.metric, found.metric),
        series=tuple(series),
        note=f"The band is one standard deviation; smoothed over {found.smoothing:,.0f} steps.",
        link="runs",
    )


def _numbers(column: pl.Series) -> Numbers:
    numbers: Numbers = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return numbers
