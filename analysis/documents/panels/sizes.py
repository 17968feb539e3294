"""Runs of several sizes -> panels: loss by FLOPs with the frontier, and loss, speed and energy by depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis.columns import UNKNOWN_DIRECTION
from gputel.analysis.document import Curves, PlotAxis, Series
from gputel.analysis.documents.panels import metrics

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison

FLOPS = PlotAxis("flops", "FLOPs", log=True)
PARAMETERS = PlotAxis("parameters", "parameters", log=True)
DEPTH = PlotAxis("depth", "depth")
BY_SIZE = (
    ("tok_per_sec", "Throughput by size", "tok/s"),
    ("mfu", "MFU by size", "%"),
    ("energy_j", "Energy by size", "J"),
    ("j_per_token", "Energy per token by size", "J"),
)


def panels(comparison: Comparison) -> Iterator[Curves]:
    """Metrics by model size; no panels if all runs have the same size."""
    if comparison.summary["parameters"].drop_nulls().n_unique() < 2:
        return
    by_flops = _by_flops(comparison)
    if by_flops:
        yield by_flops
    points = comparison.scaling.points
    if points.height > 1:
        rows = points.select("run", "parameters", "depth", "loss")
        yield from _dots(comparison, rows, "loss", f"{metrics.title(comparison.metric)} by size", None)
    for name, title, unit in BY_SIZE:
        yield from _dots(comparison, comparison.summary, name, title, unit)


def _by_flops(comparison: Comparison) -> Curves | None:
    """Every curve over what it had cost, and the best of all of them at each cost."""
    tints = {run: tint for tint, run in enumerate(comparison.runs)}
    frontier = comparison.frontier
    series = []
    for curve in comparison.lines:
        if "flops" in curve.track.costs:
            x, y = curve.x("flops"), curve.smoothed(comparison.smoothing)
            positive, name = x > 0, curve.track.name
            run = (comparison.groups or {}).get(name, name)
            series.append(Series(name, {"flops": x[positive]}, y[positive], run=run, tint=tints.get(run, 0)))
    if frontier.is_empty() and (comparison.better or not series):
        return None
    best = Series(
        "frontier",
        {"flops": frontier["flops"].to_numpy()},
        frontier["value"].to_numpy(),
        tint=6,
        style="dashed",
    )
    frontier_note = (
        "On the frontier no run did better with less compute."
        if comparison.better
        else f"No frontier of {comparison.metric}: {UNKNOWN_DIRECTION}."
    )
    return Curves(
        name="frontier",
        title=f"{metrics.title(comparison.metric)} by FLOPs{', and the frontier' if comparison.better else ''}",
        axes=(FLOPS,),
        y=PlotAxis(comparison.metric, comparison.metric),
        series=(*series, best) if comparison.better else tuple(series),
        log=True,
        note=f"Means over {comparison.smoothing:,.0f} steps. {frontier_note}",
        link="flops",
    )


def _dots(
    comparison: Comparison, rows: pl.DataFrame, name: str, title: str, unit: str | None
) -> Iterator[Curves]:
    """A dot a run, by depth where all say it, else by parameters; also by the other where it is known."""
    rows = rows.filter(pl.col(name).is_not_null() & pl.col("parameters").is_not_null())
    if rows.height < 2:
        return
    axes = (DEPTH, PARAMETERS) if rows["depth"].null_count() == 0 else (PARAMETERS,)
    tints = {run: tint for tint, run in enumerate(comparison.runs)}
    series = []
    for row in rows.iter_rows(named=True):
        run = (comparison.groups or {}).get(row["run"], row["run"])
        x = {axis.name: np.array([float(row[axis.name])]) for axis in axes}
        value = np.array([float(row[name])])
        series.append(Series(row["run"], x, value, run=run, tint=tints.get(run, 0), style="dots"))
    y = PlotAxis(name, comparison.metric if name == "loss" else title.removesuffix(" by size"), unit)
    yield Curves(f"{name}-by-size", title, axes, y, tuple(series), link="sizes")
