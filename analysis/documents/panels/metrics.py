"""A printed metric of some runs -> one panel: loss, throughput, MFU, gradient norm, learning rate, validation.

What is known of a metric is a row of a table; any other that a log prints is drawn under its own name.

A comparison -> panels: its metric on every axis that the runs have, what lies between them, bands of groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis.columns import MAIN, VALIDATION
from gputel.analysis.compare import curves
from gputel.analysis.compare.axes import floats
from gputel.analysis.compare.curves import MetricCurve, RunPhase, metric_curve
from gputel.analysis.document import Curves, Level, Marker, Numbers, PlotAxis, Series, Style
from gputel.analysis.documents.panels import markers
from gputel.analysis.documents.panels.run_axes import (
    COST,
    ENERGY,
    EPOCH,
    FLOPS,
    STEP,
    TOKENS,
    Epochs,
    StepAxes,
    epochs,
)

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison

AXES: Mapping[str, PlotAxis] = {
    axis.name: axis for axis in (STEP, EPOCH, TOKENS, PlotAxis("time", "time", "s"), FLOPS, ENERGY, COST)
}
DIGITS = {"time": 3, "energy": 1, "cost": 6}  # behind the point: finer than any screen, and it packs well


@dataclass(frozen=True)
class MetricPanel:
    title: str
    unit: str | None = None
    style: Style = "line"
    noisy: bool = True
    steady: bool = False


KNOWN: Mapping[str, MetricPanel] = {
    "loss": MetricPanel("Loss"),
    "tok_per_sec": MetricPanel("Throughput", "tok/s", steady=True),
    "mfu": MetricPanel("MFU", "%", steady=True),
    "grad_norm": MetricPanel("Gradient norm", steady=True),
    "lr": MetricPanel("Learning rate", style="held", noisy=False),
    "lrm": MetricPanel("Learning rate multiplier", style="held", noisy=False),
    "dt_ms": MetricPanel("Step time", "ms", steady=True),
    "val_loss": MetricPanel("Validation loss", style="dots", noisy=False),
    "val_bpb": MetricPanel("Validation, bits per byte", style="dots", noisy=False),
    "core_metric": MetricPanel("CORE metric", style="dots", noisy=False),
    "hellaswag": MetricPanel("HellaSwag", style="dots", noisy=False),
}
TIMED = (*MAIN, "tok_per_sec", "mfu")
SO_FAR = frozenset(("epoch", "total_time_min", "tokens", "eta_min"))
"""Places rather than measurements."""


@dataclass(frozen=True)
class RunCurve:
    """A phase of a run under the name and in the color that it has on every panel."""

    track: RunPhase
    run: str
    tint: int

    @cached_property
    def epochs(self) -> Epochs | None:
        return epochs(self.track.steps)

    def series(self, curve: MetricCurve, style: Style, axes: Sequence[str]) -> Series:
        have = [name for name in axes if name == STEP.name or name in self.track.costs]
        x = {name: _rounded(curve.x(name), name) for name in have}
        if EPOCH.name in axes and (known := self.epochs):
            x[EPOCH.name] = known.at(curve.step)
        return Series(
            self.track.name, x, curve.y, run=self.run, tint=self.tint, style=style,
            start_ns=self.track.start_ns if "time" in x else None,
        )  # fmt: skip


def metric_panel(metric: str, lines: Sequence[RunCurve], axes: Sequence[str]) -> Curves | None:
    """A panel by the first of `axes`, with a switch to the others that a run has; None without a point to draw."""
    evaluated = all(metric not in line.track.subject.log.metrics() for line in lines)
    panel = KNOWN.get(metric) or _unknown(metric, lines, evaluated)
    curves_of_lines = [(line, metric_curve(line.track, metric)) for line in lines]
    drawn = [line.series(curve, panel.style, axes) for line, curve in curves_of_lines if len(curve.y)]
    if not drawn:
        return None
    shared_axes = {name for series in drawn for name in series.x}
    return Curves(
        name=metric,
        title=panel.title,
        axes=tuple(AXES[name] for name in axes if name in shared_axes),
        y=PlotAxis(metric, metric if panel.unit is None else panel.title, panel.unit),
        series=tuple(drawn),
        marks=tuple(mark for line in lines for mark in markers.in_log(line.track, line.run)),
        noisy=panel.noisy,
        steady=panel.steady,
        link="runs",
    )


def over_time(
    records: pl.DataFrame,
    evals: pl.DataFrame,
    time: PlotAxis,
    run: str,
    marks: Sequence[Marker] = (),
    step_axes: StepAxes = StepAxes(),  # noqa: B008 - frozen
) -> Iterator[Curves]:
    """A panel of what was printed, at its place on a recording's axis of time; by step, tokens and FLOPs too."""
    for name in TIMED:
        evaluated = name in VALIDATION
        rows = evals.filter(name=name) if evaluated else records
        column = "value" if evaluated else name
        if column not in rows.columns or time.start_ns is None:
            continue
        rows = rows.filter(pl.col(column).is_not_null() & pl.col("time").is_not_null()).sort("time")
        if rows.is_empty():
            continue
        metric = KNOWN[name]
        seconds = (rows["time"].dt.epoch("ns").to_numpy() - time.start_ns) / 1e9
        step = floats(rows["step"])
        places = step_axes.places(step, evaluated=evaluated)
        x = {"time": _rounded(seconds, "time"), **places}
        series = (Series(run, x, rows[column].cast(float).to_numpy(), run=run, style=metric.style),)
        yield Curves(
            name,
            metric.title,
            (time, *(AXES[axis] for axis in places)),
            PlotAxis(name, name if metric.unit is None else metric.title, metric.unit),
            series,
            tuple(marks),
            noisy=metric.noisy,
            steady=metric.steady,
            link="recording",
        )


def by_time(panel: Curves) -> Curves | None:
    """The same curves by time, whatever axis the page is switched to; None where none of them has times."""
    axes = tuple(axis for axis in panel.axes if axis.name == "time")
    return (
        replace(panel, name=f"{panel.name}-time", title=f"{panel.title} by time", axes=axes) if axes else None
    )


def names(lines: Sequence[RunCurve]) -> Iterator[str]:
    """The metrics of these runs: known ones first, then the others as they were printed."""
    metrics = dict.fromkeys(
        name for line in lines for name in curves.metrics(line.track) if name not in SO_FAR
    )
    yield from (name for name in KNOWN if name in metrics)
    yield from (name for name in metrics if name not in KNOWN)


def title(metric: str) -> str:
    return KNOWN[metric].title if metric in KNOWN else metric


def is_evaluation(name: str, lines: Sequence[RunCurve]) -> bool:
    return all(name not in line.track.subject.log.metrics() for line in lines)


def _unknown(metric: str, lines: Sequence[RunCurve], evaluated: bool) -> MetricPanel:
    sources = (line.track.subject.log.sources.get(metric) for line in lines)
    unit = next((field.unit for field in sources if field), None)
    return MetricPanel(metric, unit, "dots" if evaluated else "line", not evaluated)


def _rounded(values: Numbers, axis: str) -> Numbers:
    return np.round(values, DIGITS[axis]) if axis in DIGITS else values


BESIDE = ("val_loss", "val_bpb", "loss", "tok_per_sec", "mfu", "grad_norm")


def lines(comparison: Comparison) -> list[RunCurve]:
    """Every run in a color of its own; runs of a group in the group's, switched on and off with it."""
    tints = {run: tint for tint, run in enumerate(comparison.runs)}
    groups = comparison.groups or {curve.track.name: curve.track.name for curve in comparison.lines}
    return [
        RunCurve(curve.track, groups[curve.track.name], tints.get(groups[curve.track.name], 0))
        for curve in comparison.lines
    ]


def panels(comparison: Comparison) -> Iterator[Curves]:
    """The metric first, by what it is compared by; then what else tells the runs apart."""
    drawn_lines = lines(comparison)
    axes = (comparison.by, *(name for name in AXES if name != comparison.by))
    for name in (comparison.metric, *(name for name in BESIDE if name != comparison.metric)):
        panel = metric_panel(name, drawn_lines, axes)
        if panel:
            yield panel


def differences(comparison: Comparison) -> Curves | None:
    """Differences from the first run, both smoothed, at equal steps, tokens or whatever they are compared by."""
    common = comparison.common.filter(
        pl.col("difference").is_not_null() & (pl.col("run") != comparison.runs[0])
    )
    series = [
        Series(
            run,
            {comparison.by: floats(rows["x"])},
            floats(rows["difference"]),
            run=run,
            tint=tint,
        )
        for tint, run in enumerate(comparison.runs)
        if len(rows := common.filter(pl.col("run") == run))
    ]
    if not series:
        return None
    return Curves(
        name="difference",
        title=f"{title(comparison.metric)}: difference from {comparison.runs[0]}",
        axes=(AXES[comparison.by],),
        y=PlotAxis("difference", "difference"),
        series=tuple(series),
        levels=(Level(0.0, comparison.runs[0]),),
        note=f"Means over {comparison.smoothing:,.0f} steps, interpolated where a run has no step.",
        link="runs",
    )


def bands(comparison: Comparison) -> Curves | None:
    """The mean of each group of runs, and one deviation on either side."""
    if comparison.groups is None:
        return None
    series = []
    for tint, group in enumerate(comparison.runs):
        rows = comparison.common.filter(pl.col("run") == group)
        mean, off = floats(rows["value"]), np.nan_to_num(floats(rows["deviation"]))
        series.append(
            Series(
                group,
                {comparison.by: floats(rows["x"])},
                mean,
                mean - off,
                mean + off,
                run=group,
                tint=tint,
            )
        )
    return Curves(
        name="groups",
        title=f"{title(comparison.metric)}: mean of each group",
        axes=(AXES[comparison.by],),
        y=PlotAxis(comparison.metric, comparison.metric),
        series=tuple(series),
        note=f"The band is one standard deviation; smoothed over {comparison.smoothing:,.0f} steps.",
        link="runs",
    )
