"""One metric of one run along its steps: taken from its records or its evaluations, smoothed, interpolated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from gputel.analysis.columns import Direction
from gputel.analysis.comparing.clocks import Numbers, floats
from gputel.analysis.comparing.tracks import Track


@dataclass(frozen=True)
class Curve:
    """`y` is finite throughout and `step` grows; `done` is how many steps were behind each point."""

    track: Track
    metric: str
    step: Numbers
    done: Numbers
    y: Numbers

    def x(self, axis: str) -> Numbers:
        return self.step if axis == "step" else self.track.at(axis, self.done)

    def smoothed(self, window: float | None) -> Numbers:
        """Each point the mean of those in the last `window` steps; the first ones of fewer."""
        if not window or window <= 1 or not len(self.y):
            return self.y
        sums = np.insert(np.cumsum(self.y), 0, 0.0)
        first = np.searchsorted(self.step, self.step - window, side="right")
        here = np.arange(1, len(self.y) + 1)
        means: Numbers = (sums[here] - sums[first]) / (here - first)
        return means


def metrics(track: Track) -> list[str]:
    """What was printed in this phase: metrics of records first, then evaluations."""
    log = track.subject.log
    records = [name for name in log.metrics() if track.rows[name].null_count() < track.rows.height]
    return [*records, *evaluated(track)]


def evaluated(track: Track) -> list[str]:
    evals = track.subject.log.evals
    if len(track.subject.log.places) > 1:
        evals = evals.filter(evals["phase"] == track.phase)
    return list(dict.fromkeys(evals["name"].to_list()))


def of(track: Track, metric: str) -> Curve:
    """Empty where the run has no such metric. Of a step that was done again the last value stands."""
    log = track.subject.log
    if metric in log.metrics():
        rows = track.steps
        step, y, ahead = rows["step"], rows[metric], float(track.from_zero)
    else:
        rows = log.evals.filter((pl.col("phase") == track.phase) & (pl.col("name") == metric))
        if track.numbered:
            before = np.searchsorted(track.rows["line"].to_numpy(), rows["line"].to_numpy())
            rows = rows.with_columns(step=pl.Series(before, dtype=pl.Int64))
        rows = rows.unique(["step"], keep="last", maintain_order=True).sort("step", maintain_order=True)
        step, y, ahead = rows["step"], rows["value"], 0.0
    points = np.stack([floats(step), floats(y)])
    points = points[:, np.isfinite(points).all(axis=0)]
    return Curve(track, metric, points[0], points[0] + ahead, points[1])


def interpolated(x: Numbers, y: Numbers, at: Numbers) -> Numbers:
    """On the line between the points beside it; NaN outside of them."""
    known = np.isfinite(x)
    if not known.any():
        return np.full(len(at), np.nan)
    return np.interp(at, x[known], y[known], left=np.nan, right=np.nan)


def reached(x: Numbers, y: Numbers, target: float, better: Direction) -> float | None:
    """The first x at which the metric is as good as the target."""
    good = y <= target if better == "lower" else y >= target
    return finite(x[int(np.argmax(good))]) if good.any() else None


def finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
