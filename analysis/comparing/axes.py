"""What a run had cost when it printed a record: in steps, tokens, time, FLOPs, energy and dollars.

Time, energy and dollars count what a restart threw away, tokens and FLOPs do not: that work is not in the model. A
counter that begins at 0 has done one step more than it says when it prints a record, but not when it evaluates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gputel.analysis.comparing import clocks, joules
from gputel.analysis.comparing.clocks import Numbers

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.comparing.joules import Measured
    from gputel.analysis.facts import Fact
    from gputel.analysis.subjects import Subject


@dataclass(frozen=True)
class Axis:
    """`column` is what it is called in tables, with its unit."""

    name: str
    column: str
    equal: str  # how "at equal ..." goes on


AXES: Mapping[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("step", "step", "steps"),
        Axis("tokens", "tokens", "tokens"),
        Axis("time", "time_s", "time"),
        Axis("flops", "flops", "FLOPs"),
        Axis("energy", "energy_j", "energy"),
        Axis("cost", "cost", "cost"),
    )
}


@dataclass(frozen=True)
class Prices:
    """Dollars for an hour of one GPU, and for a kWh."""

    hour: float | None = None
    kwh: float | None = None

    @property
    def known(self) -> bool:
        return self.hour is not None or self.kwh is not None


@dataclass(frozen=True)
class Track:
    """`done`: how many steps were behind each record; `costs`: what they had cost, by axis; `rows`: all records."""

    subject: Subject
    name: str
    phase: str
    rows: pl.DataFrame
    measured: Measured
    clock: str | None
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


def rows_of(subject: Subject, phase: str) -> pl.DataFrame:
    """The records of a phase that say their step, superseded ones too, in the order of the file."""
    records = subject.log.records
    if len(subject.log.places) == 1 and not records["step"].null_count():
        return records
    wanted = (records["phase"] == phase) & records["step"].is_not_null()
    return records.filter(wanted)


def of(
    subject: Subject, name: str, phase: str, prices: Prices | None = None, clock: str | None = None
) -> Track:
    """`clock` None takes the first that the run itself has."""
    every = rows_of(subject, phase)
    step, attempt = (clocks.floats(every[column]) for column in ("step", "attempt"))
    once, kept = _once(step, attempt)
    rows = every[once] if len(once) < len(step) else every
    step, attempt = step[once], attempt[once]
    from_zero = _from_zero(rows, step)
    done = step + from_zero
    measured = joules.of(subject, phase)
    clock = clocks.chosen(rows, clock)
    costs, lacks = _costs(subject, measured, rows, done, attempt, clock)
    _add_cost(subject, costs, lacks, prices or Prices())
    ordered = {name: np.fmax.accumulate(values[kept]) for name, values in costs.items()}
    return Track(
        subject, name, phase, every, measured, clock, from_zero, step[kept], done[kept], ordered, lacks
    )


def _once(step: Numbers, attempt: Numbers) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The first record of each step of an attempt, for ranks repeat it; of these, by step, the last attempt's."""
    if len(step) < 2 or (np.all(np.diff(step) > 0) and attempt[0] == attempt[-1]):
        every = np.arange(len(step))
        return every, every
    once = np.sort(np.unique(np.stack([attempt, step]), axis=1, return_index=True)[1])
    order = np.lexsort((attempt[once], step[once]))
    ordered = step[once][order]
    return once, order[np.append(np.diff(ordered) > 0, True)]


def _from_zero(rows: pl.DataFrame, step: Numbers) -> bool:
    """A counter that starts at 0, or that ends one short of its total; one that reaches its total starts at 1."""
    if not len(step):
        return False
    total = rows["total_steps"].drop_nulls().max() if "total_steps" in rows.columns else None
    return bool(step.min() == 0 or (total is not None and step.max() == float(total) - 1))  # type: ignore[arg-type]


def _costs(
    subject: Subject,
    measured: Measured,
    rows: pl.DataFrame,
    done: Numbers,
    attempt: Numbers,
    clock: str | None,
) -> tuple[dict[str, Numbers], dict[str, str]]:
    costs: dict[str, Numbers] = {}
    lacks: dict[str, str] = {}
    facts = subject.facts
    tokens = _printed_tokens(rows)
    if tokens is None and facts.tokens_per_step:
        tokens = done * float(facts.tokens_per_step.value)
    if tokens is None:
        lacks["tokens"] = "it says neither tokens nor a batch size"
        lacks["flops"] = "its tokens are not known"
    else:
        costs["tokens"] = tokens
        per_token = flops_per_token(subject)
        if per_token is None:
            lacks["flops"] = "it says neither FLOPs per token nor parameters"
        else:
            costs["flops"] = tokens * per_token
    seconds = clocks.seconds(rows, done, attempt, clock)
    if seconds is None:
        lacks["time"] = "it says no time: no stamps, no total time, no time of a step"
    else:
        costs["time"] = seconds
    energy = measured.by_record(rows)
    if energy is None or not np.isfinite(energy).any():
        lacks["energy"] = measured.why or "its records could not be placed in time"
    else:
        costs["energy"] = energy
    return costs, lacks


def amount(fact: Fact | None) -> float | None:
    return None if fact is None else float(fact.value)


def flops_per_token(subject: Subject) -> float | None:
    """As printed; else six for each parameter, which leaves attention out."""
    told, parameters = amount(subject.facts.flops_per_token), amount(subject.facts.parameters)
    return 6 * parameters if told is None and parameters else told


def _printed_tokens(rows: pl.DataFrame) -> Numbers | None:
    """A column of tokens that grows is a count so far."""
    if "tokens" not in rows.columns or rows["tokens"].null_count():
        return None
    tokens = clocks.floats(rows["tokens"])
    return tokens if len(tokens) > 1 and np.all(np.diff(tokens) > 0) else None


def _add_cost(subject: Subject, costs: dict[str, Numbers], lacks: dict[str, str], prices: Prices) -> None:
    if not prices.known:
        lacks["cost"] = "no price was given: --price 4 for a GPU hour, --kwh 0.3 for a kWh"
        return
    total: Numbers = np.zeros(1)
    if prices.hour is not None:
        if "time" not in costs or subject.facts.gpus is None:
            lacks["cost"] = lacks.get("time", "it does not say how many GPUs it had")
            return
        total = total + costs["time"] / 3600 * float(subject.facts.gpus.value) * prices.hour
    if prices.kwh is not None:
        if "energy" not in costs:
            lacks["cost"] = lacks["energy"]
            return
        total = total + costs["energy"] / 3.6e6 * prices.kwh
    costs["cost"] = total
