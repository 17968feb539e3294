"""A `Log` as lines: every row as a JSON object, in the order of the file, for `--rows`; and the rejects."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gputel.analysis import document
from gputel.analysis.document import as_json

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
        for row in document.rows(log.telemetry.rows):
            where = {"phase": None, "attempt": None, "step": None, "line": None}
            yield {"kind": "telemetry", "run": log.name, **where, **row}


def rejects(log: Log) -> Iterator[str]:
    for reject in log.rejects:
        known = reject.pattern.rpartition(".")[0]
        more = "'--learn FILE' writes the format" if known == "inferred" else f"'gputel formats {known}'"
        yield f"{log.source}:{reject.line}: {reject.reason}; see {more}"


def _rows(log: Log, frame: pl.DataFrame, kind: str) -> Iterator[dict[str, Any]]:
    first = [name for name in ("phase", "attempt", "step", "line", "time") if name in frame.columns]
    ordered = document.timed(frame.select(*first, *(name for name in frame.columns if name not in first)))
    for row in ordered.iter_rows(named=True):
        always = set(first) | {"name", "value"}
        yield {
            "kind": kind,
            "run": log.name,
            **{name: as_json(value) for name, value in row.items() if name in always or value is not None},
        }


def _events(log: Log) -> Iterator[dict[str, Any]]:
    for row in document.rows(log.events):
        where = {
            "phase": None,
            "attempt": None,
            "step": row["step"],
            "line": row["line"],
            "time": row["time"],
        }
        said = {"event": row["kind"], "text": row["text"], "rank": row["rank"]}
        yield {"kind": "event", "run": log.name, **where, **said}
