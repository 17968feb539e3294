"""A `Log` as lines: every row as a JSON object, in the order of the file, for `--rows`; and the rejects."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.parse.log import Log


def rows(log: Log) -> Iterator[dict[str, Any]]:
    """`kind`, `run`, `phase`, `attempt`, `step`, `line`, `time`, and then what was printed."""
    tables = [
        _rows(log, log.records, "train"),
        _rows(log, log.evals, "eval"),
        _rows(log, log.partials, "partial"),
        _events(log),
    ]
    yield from heapq.merge(*tables, key=lambda row: row["line"])
    if log.telemetry is not None:
        for row in log.telemetry.rows.iter_rows(named=True):
            where = {"phase": None, "attempt": None, "step": None, "line": None}
            yield {"kind": "telemetry", "run": log.name, **where, **_plain(row)}


def rejects(log: Log) -> Iterator[str]:
    for reject in log.rejects:
        known = reject.pattern.rpartition(".")[0]
        more = "'--learn FILE' writes the format" if known == "inferred" else f"'gputel formats {known}'"
        yield f"{log.source}:{reject.line}: {reject.reason}; see {more}"


def _rows(log: Log, frame: pl.DataFrame, kind: str) -> Iterator[dict[str, Any]]:
    first = [name for name in ("phase", "attempt", "step", "line", "time") if name in frame.columns]
    ordered = frame.select(*first, *(name for name in frame.columns if name not in first))
    for row in ordered.iter_rows(named=True):
        always = set(first) | {"name", "value"}
        yield {
            "kind": kind,
            "run": log.name,
            **{name: value for name, value in _plain(row).items() if name in always or row[name] is not None},
        }


def _events(log: Log) -> Iterator[dict[str, Any]]:
    for row in log.events.iter_rows(named=True):
        where = {
            "phase": None,
            "attempt": None,
            "step": row["step"],
            "line": row["line"],
            "time": row["time"],
        }
        said = {"event": row["kind"], "text": row["text"], "rank": row["rank"]}
        yield {"kind": "event", "run": log.name, **_plain(where), **said}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN and no moments."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
