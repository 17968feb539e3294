"""One phase of one run on all axes (RunPhase), and one of its metrics along them (MetricCurve).

A counter that begins at 0 has completed one step more than it prints in a record, but not in an evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.columns import Direction
from gputel.analysis.compare import axes
from gputel.analysis.compare.axes import AXES, Numbers, Prices, Records, floats, phase_energy
from gputel.analysis.logs.attempts import retained
from gputel.analysis.logs.summary import counts_from_zero
from gputel.analysis.runs.printed_times import contains_others

if TYPE_CHECKING:
    from gputel.analysis.compare.axes import PhaseEnergy
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs import RunData


@dataclass(frozen=True)
class MetricCurve:
    """A metric by step; `y` is finite, `step` increases, `done` is the number of steps completed at each point."""

    track: RunPhase
    metric: str
    step: Numbers
    done: Numbers
    y: Numbers

    def x(self, axis: str) -> Numbers:
        return self.step if axis == "step" else self.track.at(axis, self.done)

    def smoothed(self, window: float | None) -> Numbers:
        """Returns the mean of the last `window` steps at each point; of fewer at the beginning."""
        if not window or window <= 1 or not len(self.y):
            return self.y
        sums = np.insert(np.cumsum(self.y), 0, 0.0)
        first = np.searchsorted(self.step, self.step - window, side="right")
        here = np.arange(1, len(self.y) + 1)
        means: Numbers = (sums[here] - sums[first]) / (here - first)
        return means


def metrics(track: RunPhase) -> list[str]:
    """Returns the metrics printed in this phase: those of records first, then evaluations."""
    log = track.subject.log
    records = [name for name in log.metrics() if track.rows[name].null_count() < track.rows.height]
    between = _between(track)
    others = [name for name in log.metrics_in(between) if not between[name].is_null().all()]
    return [*dict.fromkeys((*records, *others)), *evaluated(track)]


def _between(track: RunPhase) -> pl.DataFrame:
    """Returns a store's values of this phase at steps without a record: such as returns of episodes."""
    log = track.subject.log
    if log.lines is not None:  # partial rows of a log are redraws of bars
        return pl.DataFrame()
    return log.partials.filter(pl.col("phase") == track.phase)


def evaluated(track: RunPhase) -> list[str]:
    """Returns the names of the evaluations in this phase."""
    evals = track.subject.log.evals
    if len(track.subject.log.places) > 1:
        evals = evals.filter(evals["phase"] == track.phase)
    return list(dict.fromkeys(evals["name"].to_list()))


def metric_curve(track: RunPhase, metric: str) -> MetricCurve:
    """Returns the curve of a metric up to the run's last step, without what a restart rolled back; may be empty."""
    log = track.subject.log
    between = _between(track)
    if metric in between.columns:
        rows = retained(log.measured.filter(pl.col("phase") == track.phase), log).sort("step")
        step, y, ahead = rows["step"], rows[metric], float(track.from_zero)
    elif metric in log.metrics():
        rows = track.steps
        step, y, ahead = rows["step"], rows[metric], float(track.from_zero)
    else:
        rows = log.evals.filter((pl.col("phase") == track.phase) & (pl.col("name") == metric))
        rows = retained(rows, log)
        if track.numbered:
            before = np.searchsorted(track.rows["line"].to_numpy(), rows["line"].to_numpy())
            rows = rows.with_columns(step=pl.Series(before, dtype=pl.Int64))
        rows = rows.unique(["step"], keep="last", maintain_order=True).sort("step", maintain_order=True)
        step, y, ahead = rows["step"], rows["value"], 0.0
    points = np.stack([floats(step), floats(y)])
    points = points[:, np.isfinite(points).all(axis=0)]
    return MetricCurve(track, metric, points[0], points[0] + ahead, points[1])


def shared_axes(lines: Sequence[MetricCurve]) -> list[str]:
    """Returns the axes that every run has."""
    return [name for name in AXES if name == "step" or all(name in line.track.costs for line in lines)]


def comparable_axes(lines: Sequence[MetricCurve]) -> list[str]:
    """Returns the shared axes, but not steps if those of some runs are epochs, and those of others are not."""
    has_mixed_steps = len({line.track.counts_epochs for line in lines}) > 1
    return [name for name in shared_axes(lines) if name != "step" or not has_mixed_steps]


def interpolated(x: Numbers, y: Numbers, at: Numbers) -> Numbers:
    """Interpolates linearly; NaN outside the points."""
    finite_x = np.isfinite(x)
    if not finite_x.any():
        return np.full(len(at), np.nan)
    return np.interp(at, x[finite_x], y[finite_x], left=np.nan, right=np.nan)


def reached(x: Numbers, y: Numbers, target: float, better: Direction) -> float | None:
    """Returns the first x at which the metric is as good as the target."""
    good = y <= target if better == "lower" else y >= target
    return finite(x[int(np.argmax(good))]) if good.any() else None


def finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


@dataclass(frozen=True)
class RunPhase:
    """A phase of a run. `step`, `done` and `costs` have one entry per step; `lacks` says why an axis is missing."""

    subject: RunData
    name: str
    phase: str
    rows: pl.DataFrame
    measured: PhaseEnergy
    clock: str | None
    numbered: bool  # no steps are printed, so records were counted
    from_zero: bool
    step: Numbers
    done: Numbers
    costs: dict[str, Numbers]
    lacks: dict[str, str]
    start_ns: int | None = None  # the moment from which its time counts, where it has timestamps

    @property
    def steps(self) -> pl.DataFrame:
        """One row per step that led to the last one, as in the log's `steps`."""
        if np.array_equal(self.step, floats(self.rows["step"]), equal_nan=True):
            return self.rows
        steps = retained(self.subject.log.steps, self.subject.log)
        return steps.filter((steps["phase"] == self.phase) & steps["step"].is_not_null())

    @cached_property
    def counts_epochs(self) -> bool:
        """Whether its steps are epochs, as those of Keras and YOLO are: two records at least show it.

        Keras' tags for TensorBoard have the epoch in their names only, such as `epoch_loss`.
        """
        if len(self.step) < 2:
            return False
        if "epoch" in self.rows.columns:
            return bool((self.rows["epoch"] == self.rows["step"]).fill_null(value=False).all())
        sources = self.subject.log.sources
        tags = [sources[name].source for name in self.subject.log.metrics() if name in sources]
        is_named = bool(tags) and all(tag.rsplit("/", 1)[-1].startswith("epoch_") for tag in tags)
        return is_named and bool(np.all(np.diff(self.step) == 1))

    @cached_property
    def rated(self) -> pl.DataFrame:
        """The records whose throughput is that of training: without an evaluation or a save in their time."""
        return self.rows.filter(~contains_others(self.rows, self.subject.log))

    def at(self, axis: str, done: Numbers) -> Numbers:
        """Returns the cost of `done` steps, interpolated between records and constant after the last."""
        finite_costs = np.isfinite(self.costs[axis])
        points, costs = self.done[finite_costs], self.costs[axis][finite_costs]
        if not len(points):
            return np.full(len(done), np.nan)
        if points[0] <= axes.stride(self.done):  # the log has the beginning of the run
            points, costs = np.insert(points, 0, 0.0), np.insert(costs, 0, 0.0)
        return np.interp(done, points, costs)

    def total(self, axis: str) -> float | None:
        """Returns the cost of the whole phase."""
        costs = self.costs.get(axis)
        if costs is None or not np.isfinite(costs).any():
            return None
        return float(np.nanmax(costs))


def run_phase(
    subject: RunData, name: str, phase: str, prices: Prices | None = None, clock: str | None = None
) -> RunPhase:
    """Puts a phase on all axes; without a `clock` it uses the best that the run has."""
    rows = rows_of(subject, phase)
    numbered = _says_no_step(_records(subject, phase))
    once, kept = _once(floats(rows["step"]), floats(rows["attempt"]))
    first = rows[once] if len(once) < len(rows) else rows
    kept = kept if numbered else kept[_are_retained(first, subject.log)[kept]]
    step, from_zero = floats(first["step"]), counts_from_zero(first, subject.log.events)
    records = Records(first, step + from_zero, floats(first["attempt"]), numbered)
    clock, measured = axes.chosen(first, clock), phase_energy(subject, phase)
    costs = axes.costs(subject, records, clock, measured, prices or Prices())
    costs = costs if len(first) else dict.fromkeys(costs, "it has evaluations but no records")
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
        start_ns=axes.start_ns(subject.log, records, clock),
    )


def rows_of(subject: RunData, phase: str) -> pl.DataFrame:
    """Returns the records of a phase, superseded ones too; numbered, if no steps are printed."""
    records = _records(subject, phase)
    if _says_no_step(records):
        return records.with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("step"))
    return records.filter(records["step"].is_not_null()) if records["step"].null_count() else records


def _are_retained(rows: pl.DataFrame, log: Log) -> npt.NDArray[np.bool_]:
    row = pl.int_range(pl.len()).alias("row")
    return np.isin(np.arange(len(rows)), retained(rows.with_columns(row), log)["row"].to_numpy())


def _records(subject: RunData, phase: str) -> pl.DataFrame:
    records = subject.log.records
    return records if len(subject.log.places) == 1 else records.filter(records["phase"] == phase)


def _says_no_step(records: pl.DataFrame) -> bool:
    return 0 < records["step"].null_count() == len(records)


def _once(step: Numbers, attempt: Numbers) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Returns the first record of each attempt and step (ranks repeat it), and of these the last attempt's."""
    if len(step) < 2 or (np.all(np.diff(step) > 0) and attempt[0] == attempt[-1]):
        every = np.arange(len(step))
        return every, every
    once = np.sort(np.unique(np.stack([attempt, step]), axis=1, return_index=True)[1])
    order = np.lexsort((attempt[once], step[once]))
    ordered = step[once][order]
    return once, order[np.append(np.diff(ordered) > 0, True)]
