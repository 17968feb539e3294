"""The axes that runs are compared on, and what the steps of a run had cost on each of them, record by record.

Time, energy and dollars count what a restart threw away, tokens and FLOPs do not: that work is not in the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gputel.analysis.comparing import clocks
from gputel.analysis.comparing.clocks import Numbers
from gputel.analysis.facts import estimated_flops

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.comparing.joules import Measured
    from gputel.analysis.facts import Fact
    from gputel.analysis.subjects import Subject

Cost: TypeAlias = "Numbers | str"
"""What the records had cost, or why that is not known."""


@dataclass(frozen=True)
class Axis:
    """`column` is what it is called in tables, with its unit; `word` is what people say."""

    name: str
    column: str
    word: str


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
class Records:
    """Each record of an attempt once, in the order of the file; `done` is how many steps were behind it."""

    rows: pl.DataFrame
    done: Numbers
    attempt: Numbers
    numbered: bool  # no step is printed, and records were counted


def costs(
    subject: Subject, records: Records, clock: str | None, measured: Measured, prices: Prices
) -> dict[str, Cost]:
    """By the name of the axis, all but steps."""
    tokens = _tokens(subject, records)
    seconds = clocks.seconds(records.rows, records.done, records.attempt, clock)
    time = "it says no time: no stamps, no total time, no time of a step" if seconds is None else seconds
    energy = measured.by_record(records.rows)
    cost = _cost(subject, time, energy, prices)
    return {
        "tokens": tokens,
        "time": time,
        "flops": _flops(subject, tokens),
        "energy": energy,
        "cost": cost,
    }


def amount(fact: Fact | None) -> float | None:
    return None if fact is None else float(fact.value)


def _tokens(subject: Subject, records: Records) -> Cost:
    """As printed, where that is a count so far; else by steps."""
    rows, batch = records.rows, amount(subject.facts.tokens_per_step)
    if "tokens" in rows.columns and len(rows) > 1 and not rows["tokens"].null_count():
        tokens = clocks.floats(rows["tokens"])
        if np.all(np.diff(tokens) > 0):
            return tokens
    if batch is None or records.numbered:
        return "it tells neither its tokens, nor its steps and their batch"
    return records.done * batch


def _flops(subject: Subject, tokens: Cost) -> Cost:
    """By what the log says of a token; else six for each parameter, which leaves attention out."""
    each, parameters = amount(subject.facts.flops_per_token), amount(subject.facts.parameters)
    if each is None and parameters is not None:
        each = estimated_flops(parameters)
    if each is None:
        return "it says neither FLOPs per token nor parameters"
    return tokens if isinstance(tokens, str) else tokens * each


def _cost(subject: Subject, time: Cost, energy: Cost, prices: Prices) -> Cost:
    if not prices.known:
        return "no price was given: --price 4 for a GPU hour, --kwh 0.3 for a kWh"
    total: Numbers = np.zeros(1)
    if prices.hour is not None:
        gpus = amount(subject.facts.gpus)
        if isinstance(time, str) or gpus is None:
            return time if isinstance(time, str) else "it does not say how many GPUs it had"
        total = total + time / 3600 * gpus * prices.hour
    if prices.kwh is not None:
        if isinstance(energy, str):
            return energy
        total = total + energy / 3.6e6 * prices.kwh
    return total
