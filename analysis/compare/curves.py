"""One metric of one run along its steps: taken from its records or its evaluations, smoothed, interpolated.

One phase of a run on all axes: which records count, how many steps were behind each, and what they had cost.

A counter that begins at 0 has done one step more than it says when it prints a record, but not when it evaluates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.columns import Direction
from gputel.analysis.compare import axes
from gputel.analysis.compare.axes import Numbers, Prices, Records, floats, phase_energy

if TYPE_CHECKING:
    from gputel.analysis.compare.axes import PhaseEnergy
    from gputel.analysis.runs import RunData


@dataclass(frozen=True)
class MetricCurve:
    """`y` is finite throughout and `step` grows; `done` is how many steps were behind each point."""

    track: RunPhase
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


def metrics(track: RunPhase) -> list[str]:
    """What was printed in this phase: metrics of records first, then evaluations."""
    log = track.subject.log
    records = [name for name in log.metrics() if track.rows[name].null_count() < track.rows.height]
    return [*records, *evaluated(track)]


def evaluated(track: RunPhase) -> list[str]:
    evals = track.subject.log.evals
    if len(track.subject.log.places) > 1:
        evals = evals.filter(evals["phase"] == track.phase)
    return list(dict.fromkeys(evals["name"].to_list()))


def metric_curve(track: RunPhase, metric: str) -> MetricCurve:
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
    return MetricCurve(track, metric, points[0], points[0] + ahead, points[1])


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


@dataclass(frozen=True)
class RunPhase:
    """`rows` are all records. `step`, `done` and `costs`, by axis, have one place a step; `lacks` says why not."""

    subject: RunData
    name: str
    phase: str
    rows: pl.DataFrame
    measured: PhaseEnergy
    clock: str | None
    numbered: bool  # it prints no step, and its records were counted
    from_zero: bool
    step: Numbers
    done: Numbers
    costs: dict[str, Numbers]
    lacks: dict[str, str]

    @property
    def steps(self) -> pl.DataFrame:
        """A row a step, as in the log's own `steps`; where nothing was printed twice these are the records."""
        if len(self.rows) == len(self.step):
            return self.rows
        steps = self.subject.log.steps
        return steps.filter((steps["phase"] == self.phase) & steps["step"].is_not_null())

    def at(self, axis: str, done: Numbers) -> Numbers:
        """What `done` steps had cost: between records by the line between them, after the last as much as there."""
        known = np.isfinite(self.costs[axis])
        points, costs = self.done[known], self.costs[axis][known]
        if not len(points):
            return np.full(len(done), np.nan)
        if points[0] <= axes.stride(self.done):  # the run is here from its beginning
            points, costs = np.insert(points, 0, 0.0), np.insert(costs, 0, 0.0)
        return np.interp(done, points, costs)

    def total(self, axis: str) -> float | None:
        """What the whole phase cost."""
        costs = self.costs.get(axis)
        if costs is None or not np.isfinite(costs).any():
            return None
        return float(np.nanmax(costs))


def run_phase(
    subject: RunData, name: str, phase: str, prices: Prices | None = None, clock: str | None = None
) -> RunPhase:
    """`clock` None takes the first that the run itself has."""
    rows = rows_of(subject, phase)
    numbered = _says_no_step(_records(subject, phase))
    once, kept = _once(floats(rows["step"]), floats(rows["attempt"]))
    first = rows[once] if len(once) < len(rows) else rows
    step, from_zero = floats(first["step"]), _from_zero(first)
    records = Records(first, step + from_zero, floats(first["attempt"]), numbered)
    clock, measured = axes.chosen(first, clock), phase_energy(subject, phase)
    costs = axes.costs(subject, records, clock, measured, prices or Prices())
    costs = costs if len(first) else dict.fromkeys(costs, "it has evaluations, and no records")
    return RunPhase(
        subject=subject,
        name=name,
        phase=phase,
        rows=rows,
        measured=measured,
        clock=clock,
        numbered=numbered,
        from_zero=from_zero,
        step=step[kept],
        done=records.done[kept],
        costs={axis: np.fmax.accumulate(c[kept]) for axis, c in costs.items() if not isinstance(c, str)},
        lacks={axis: cost for axis, cost in costs.items() if isinstance(cost, str)},
    )


def rows_of(subject: RunData, phase: str) -> pl.DataFrame:
    """The records of a phase with their steps, superseded ones too; where none says its step they are numbered."""
    records = _records(subject, phase)
    if _says_no_step(records):
        return records.with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("step"))
    return records.filter(records["step"].is_not_null()) if records["step"].null_count() else records


def _records(subject: RunData, phase: str) -> pl.DataFrame:
    records = subject.log.records
    return records if len(subject.log.places) == 1 else records.filter(records["phase"] == phase)


def _says_no_step(records: pl.DataFrame) -> bool:
    return 0 < records["step"].null_count() == len(records)


def _once(step: Numbers, attempt: Numbers) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The first record of each step of an attempt, for ranks repeat it; of these, by step, the last attempt's."""
    if len(step) < 2 or (np.all(np.diff(step) > 0) and attempt[0] == attempt[-1]):
        every = np.arange(len(step))
        return every, every
    once = np.sort(np.unique(np.stack([attempt, step]), axis=1, return_index=True)[1])
    order = np.lexsort((attempt[once], step[once]))
    ordered = step[once][order]
    return once, order[np.append(np.diff(ordered) > 0, True)]


def _from_zero(rows: pl.DataFrame) -> bool:
    """A counter that starts at 0; or one whose start is not here, and that ends short of its total by one."""
    if rows.is_empty():
        return False
    step = floats(rows["step"])
    if step.min() <= 1:
        return bool(step.min() == 0)
    total = rows["total_steps"].drop_nulls().max() if "total_steps" in rows.columns else None
    return total is not None and bool(step.max() == float(total) - 1)  # type: ignore[arg-type]
