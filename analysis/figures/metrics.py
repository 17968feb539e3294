"""A printed metric of some runs -> one panel: loss, throughput, MFU, gradient norm, learning rate, validation.

What is known of a metric is a row of a table; any other that a log prints is drawn under its own name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gputel.analysis.comparing import curves
from gputel.analysis.comparing.curves import Curve
from gputel.analysis.comparing.tracks import Track
from gputel.analysis.document import Axis, Curves, Mark, Numbers, Series, Style
from gputel.analysis.figures import happened

AXES: Mapping[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("step", "step"),
        Axis("tokens", "tokens"),
        Axis("time", "time", "s"),
        Axis("flops", "FLOPs"),
        Axis("energy", "energy", "J"),
        Axis("cost", "cost", "$"),
    )
}
DIGITS = {"time": 3, "energy": 1, "cost": 6}  # behind the point: finer than any screen, and it packs well


@dataclass(frozen=True)
class Metric:
    title: str
    unit: str | None = None
    style: Style = "line"
    noisy: bool = True
    steady: bool = False


KNOWN: Mapping[str, Metric] = {
    "loss": Metric("Loss"),
    "tok_per_sec": Metric("Throughput", "tok/s", steady=True),
    "mfu": Metric("MFU", "%", steady=True),
    "grad_norm": Metric("Gradient norm", steady=True),
    "lr": Metric("Learning rate", style="held", noisy=False),
    "lrm": Metric("Learning rate multiplier", style="held", noisy=False),
    "dt_ms": Metric("Time of a step", "ms", steady=True),
    "val_loss": Metric("Validation loss", style="dots", noisy=False),
    "val_bpb": Metric("Validation, bits per byte", style="dots", noisy=False),
    "core_metric": Metric("CORE metric", style="dots", noisy=False),
    "hellaswag": Metric("HellaSwag", style="dots", noisy=False),
}
TIMED = ("loss", "val_loss", "val_bpb", "tok_per_sec", "mfu")
EVALUATED = ("val_loss", "val_bpb")
SO_FAR = frozenset(("epoch", "total_time_min", "tokens", "eta_min"))
"""Places rather than measurements."""


@dataclass(frozen=True)
class Line:
    """A phase of a run under the name and in the colour that it has on every panel."""

    track: Track
    run: str
    tint: int

    def series(self, curve: Curve, style: Style, axes: Sequence[str]) -> Series:
        have = [name for name in axes if name == "step" or name in self.track.costs]
        x = {name: _rounded(curve.x(name), name) for name in have}
        return Series(self.track.name, x, curve.y, run=self.run, tint=self.tint, style=style)


def panel(metric: str, lines: Sequence[Line], axes: Sequence[str] = tuple(AXES)) -> Curves | None:
    """By the first of `axes`, with a switch to the others that any run has; None where no point can be drawn."""
    evaluated = all(metric not in line.track.subject.log.metrics() for line in lines)
    known = KNOWN.get(metric) or _unknown(metric, lines, evaluated)
    have = [(line, curves.of(line.track, metric)) for line in lines]
    drawn = [line.series(curve, known.style, axes) for line, curve in have if len(curve.y)]
    if not drawn:
        return None
    held = {name for series in drawn for name in series.x}
    return Curves(
        name=metric,
        title=known.title,
        axes=tuple(AXES[name] for name in axes if name in held),
        y=Axis(metric, metric if known.unit is None else known.title, known.unit),
        series=tuple(drawn),
        marks=tuple(mark for line in lines for mark in happened.in_log(line.track, line.run)),
        noisy=known.noisy,
        steady=known.steady,
        link="runs",
    )


def over_time(
    records: pl.DataFrame, evals: pl.DataFrame, time: Axis, run: str, marks: Sequence[Mark] = ()
) -> Iterator[Curves]:
    """What was printed, where it was printed on a recording's axis of time; by step too."""
    for name in TIMED:
        rows = evals.filter(name=name) if name in EVALUATED else records
        column = "value" if name in EVALUATED else name
        if column not in rows.columns or time.start_ns is None:
            continue
        rows = rows.filter(pl.col(column).is_not_null() & pl.col("time").is_not_null()).sort("time")
        if rows.is_empty():
            continue
        known = KNOWN[name]
        seconds = (rows["time"].dt.epoch("ns").to_numpy() - time.start_ns) / 1e9
        x = {"time": _rounded(seconds, "time"), "step": rows["step"].cast(float).fill_null(np.nan).to_numpy()}
        y = rows[column].cast(float).to_numpy()
        series = (Series(run, x, y, run=run, style=known.style),)
        axis = Axis(name, name, known.unit)
        axes = (
            (time, AXES["step"])
            if np.isfinite(x["step"]).all() and (np.diff(x["step"]) >= 0).all()
            else (time,)
        )
        yield Curves(
            name,
            known.title,
            axes,
            axis,
            series,
            tuple(marks),
            noisy=known.noisy,
            steady=known.steady,
            link="recording",
        )


def only_by(axis: str, of: Curves) -> Curves | None:
    """The same curves on one axis, whatever the page is switched to; None where none of them has it."""
    axes = tuple(own for own in of.axes if own.name == axis)
    return replace(of, name=f"{of.name}-{axis}", title=f"{of.title} by {axis}", axes=axes) if axes else None


def names(lines: Sequence[Line]) -> Iterator[str]:
    """What these runs measured: known metrics first, then the others as they were printed."""
    found = dict.fromkeys(name for line in lines for name in curves.metrics(line.track) if name not in SO_FAR)
    yield from (name for name in KNOWN if name in found)
    yield from (name for name in found if name not in KNOWN)


def title(metric: str) -> str:
    return KNOWN[metric].title if metric in KNOWN else metric


def is_evaluation(name: str, lines: Sequence[Line]) -> bool:
    return all(name not in line.track.subject.log.metrics() for line in lines)


def _unknown(metric: str, lines: Sequence[Line], evaluated: bool) -> Metric:
    told = (line.track.subject.log.sources.get(metric) for line in lines)
    unit = next((field.unit for field in told if field), None)
    return Metric(metric, unit, "dots" if evaluated else "line", not evaluated)


def _rounded(values: Numbers, axis: str) -> Numbers:
    return np.round(values, DIGITS[axis]) if axis in DIGITS else values
