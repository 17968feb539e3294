"""A log that was read to its end -> the moments that a watch would have seen, in the order of its lines."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gputel.analysis.alarms.moments import Evaluation, Happened, Moment, Record

if TYPE_CHECKING:
    from gputel.analysis.parse.log import Log

Placed = tuple[int, int, Moment]


def moments(log: Log) -> Iterator[Moment]:
    """Ties go to the record: what its line also says comes after it."""
    for _, _, moment in heapq.merge(
        _records(log), _evaluations(log), _events(log), key=lambda placed: placed[:2]
    ):
        yield moment


def _records(log: Log) -> Iterator[Placed]:
    metrics = log.metrics()
    for row in log.records.iter_rows(named=True):
        values = {name: row[name] for name in metrics if isinstance(row[name], float)}
        moment = Record(row["step"], values, _seconds(row), row.get("rank"), row["phase"], row["attempt"])
        yield row["line"], 0, moment


def _evaluations(log: Log) -> Iterator[Placed]:
    for row in log.evals.iter_rows(named=True):
        yield row["line"], 1, Evaluation(row["step"], row["name"], row["value"], _seconds(row))


def _events(log: Log) -> Iterator[Placed]:
    for row in log.events.iter_rows(named=True):
        yield row["line"], 2, Happened(row["kind"], row["text"], _seconds(row), row["step"])


def _seconds(row: dict[str, Any]) -> float | None:
    time: datetime | None = row["time"]
    return None if time is None else time.timestamp()
