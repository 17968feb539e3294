"""One phase of a run on all axes: which records count, how many steps were behind each, and what they had cost.

A counter that begins at 0 has done one step more than it says when it prints a record, but not when it evaluates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.comparing import axes, clocks, joules
from gputel.analysis.comparing.axes import Prices, Records
from gputel.analysis.comparing.clocks import Numbers, floats

if TYPE_CHECKING:
    from gputel.analysis.comparing.joules import Measured
    from gputel.analysis.subjects import Subject


@dataclass(frozen=True)
class Track:
    """`rows` are all records. `step`, `done` and `costs`, by axis, have one place a step; `lacks` says why not."""

    subject: Subject
    name: str
    phase: str
    rows: pl.DataFrame
    measured: Measured
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
        if points[0] <= clocks.stride(self.done):  # the run is here from its beginning
            points, costs = np.insert(points, 0, 0.0), np.insert(costs, 0, 0.0)
        return np.interp(done, points, costs)

    def total(self, axis: str) -> float | None:
        """What the whole phase cost."""
        costs = self.costs.get(axis)
        if costs is None or not np.isfinite(costs).any():
            return None
        return float(np.nanmax(costs))


def of(
    subject: Subject, name: str, phase: str, prices: Prices | None = None, clock: str | None = None
) -> Track:
    """`clock` None takes the first that the run itself has."""
    rows = rows_of(subject, phase)
    numbered = _says_no_step(_records(subject, phase))
    once, kept = _once(floats(rows["step"]), floats(rows["attempt"]))
    first = rows[once] if len(once) < len(rows) else rows
    step, from_zero = floats(first["step"]), _from_zero(first)
    records = Records(first, step + from_zero, floats(first["attempt"]), numbered)
    clock, measured = clocks.chosen(first, clock), joules.of(subject, phase)
    costs = axes.costs(subject, records, clock, measured, prices or Prices())
    costs = costs if len(first) else dict.fromkeys(costs, "it has evaluations, and no records")
    return Track(
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


def rows_of(subject: Subject, phase: str) -> pl.DataFrame:
    """The records of a phase with their steps, superseded ones too; where none says its step they are numbered."""
    records = _records(subject, phase)
    if _says_no_step(records):
        return records.with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("step"))
    return records.filter(records["step"].is_not_null()) if records["step"].null_count() else records


def _records(subject: Subject, phase: str) -> pl.DataFrame:
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
