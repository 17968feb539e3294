"""Runs of four sizes and more -> tables: where each ended, the law that they follow, what the next would cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputel.analysis import text
from gputel.analysis.comparing.layout import Cell, Table

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison
    from gputel.analysis.scaling import Next

POINTS = ("depth", "parameters", "tokens", "flops", "loss")
MEANING = {"parameters": "N parameters", "tokens": "D tokens", "flops": "C FLOPs"}


def tables(found: Comparison) -> Iterator[Table]:
    told = found.scaling
    if told.law is None or told.next is None:
        return
    rows: list[list[Cell]] = [
        [row["run"], *(_point(name, row[name]) for name in POINTS), "yes" if row["frontier"] else ""]
        for row in told.points.iter_rows(named=True)
    ]
    heads = ["run", "depth", "parameters", "tokens", "FLOPs", found.metric, "frontier"]
    yield Table("by size; on the frontier no run did better with less compute", heads, rows)
    meaning = ", ".join(MEANING[term] for term in told.terms)
    constants: list[list[Cell]] = [
        [name, *(f"{value:.4g}" for value in known)] for name, known in told.constants.items()
    ]
    title = f"{told.formula} ({meaning}); runs are off by {told.law.deviation:.2g}"
    yield Table(title, ["", "value", "95 % from", "to"], constants)
    size = f"depth {told.next.depth}" if told.next.depth else "the next size"
    facts = _facts(told.next, found.metric)
    yield Table(
        f"what {size} would reach and cost at the pace of {told.points['run'][-1]}", ["", size], facts
    )


def _point(name: str, value: float | None) -> Cell:
    form = {"depth": text.step, "loss": text.number}.get(name, text.count)
    return None if value is None else form(value)


def _facts(ahead: Next, metric: str) -> list[list[Cell]]:
    low, high = (text.number(value) for value in ahead.loss[1:])
    told: dict[str, Cell] = {
        "parameters": text.count(ahead.parameters),
        "tokens": text.count(ahead.tokens),
        "FLOPs": text.count(ahead.flops),
        metric: f"{text.number(ahead.loss.value)} ({low} to {high})",
        "time": None if ahead.hours is None else text.duration(ahead.hours * 3600),
        "energy": None if ahead.energy_j is None else text.energy(ahead.energy_j),
        "cost": None if ahead.cost is None else text.money(ahead.cost),
    }
    return [[name, value] for name, value in told.items() if value]
