"""New rows of a log -> moments, in the order of its lines."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import polars as pl

from gputel.analysis import columns
from gputel.analysis.alarms.moments import Evaluation, Happened, Moment, Record

Placed = tuple[int, int, Moment]  # a line, what comes first of those of one line, and what it says
When = Callable[[dict[str, Any]], float | None]
PLACES = {*(column.name for column in columns.PLACE), "total_steps"}


def stamped(row: dict[str, Any]) -> float | None:
    """As the log says it."""
    time: datetime | None = row["time"]
    return None if time is None else time.timestamp()


def placed(
    records: pl.DataFrame,
    evals: pl.DataFrame,
    events: pl.DataFrame,
    when: When = stamped,
    rank: str | None = None,
) -> Iterator[Placed]:
    """`rank` is that of rows which name none. Ties go to the record: what its line also says comes after it."""
    return heapq.merge(
        _records(records, when, rank),
        _evaluations(evals, when),
        _events(events, when),
        key=lambda placed: placed[:2],
    )


def _records(frame: pl.DataFrame, when: When, rank: str | None) -> Iterator[Placed]:
    metrics = [name for name, kind in frame.schema.items() if kind == pl.Float64 and name not in PLACES]
    for row in frame.iter_rows(named=True):
        values = {name: row[name] for name in metrics if row[name] is not None}
        who = row["rank"] or rank
        yield row["line"], 0, Record(row["step"], values, when(row), who, row["phase"], row["attempt"])


def _evaluations(frame: pl.DataFrame, when: When) -> Iterator[Placed]:
    for row in frame.iter_rows(named=True):
        yield row["line"], 1, Evaluation(row["step"], row["name"], row["value"], when(row))


def _events(frame: pl.DataFrame, when: When) -> Iterator[Placed]:
    for row in frame.iter_rows(named=True):
        yield row["line"], 2, Happened(row["kind"], row["text"], when(row), row["step"])
