"""Log -> the JSON of `gputel parse`: figures per phase and attempt, rows as JSON objects, and rejects as lines."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis import document, text
from gputel.analysis.document import as_json
from gputel.analysis.logs.outcome import KINDS
from gputel.analysis.logs.saved_steps import begins_where_resumed
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    from gputel.analysis.doubts import Doubt
    from gputel.analysis.logs.log import Log

SCHEMA = 1
Json = dict[str, Any]


def answer(
    logs: list[Log],
    errors: list[Json],
    doubts: Sequence[Sequence[Doubt]] = (),
    skipped: Sequence[Mapping[str, str]] = (),
) -> Json:
    """`doubts` are those of each log, in the same order."""
    of_each = doubts or [()] * len(logs)
    runs = [{**run(log, mine), "read": _read(log)} for log, mine in zip(logs, of_each, strict=True)]
    return {"schema": SCHEMA, "runs": runs, "errors": errors, "skipped": list(skipped)}


def run(log: Log, doubts: Sequence[Doubt] = ()) -> Json:
    counts = Counter(log.events["kind"].to_list())
    edges = [edge for edge in (_edges(log.records["time"]), _edges(log.evals["time"])) if edge]
    summary = {
        "run": log.name,
        "source": log.source,
        "format": log.format,
        "status": log.status,
        "lines": log.lines,
        "rejects": len(log.rejects),
        "started": _moment(log.started, min((first for first, _ in edges), default=None)),
        "ended": _moment(log.ended, max((last for _, last in edges), default=None)),
        "config": log.config,
        "summary": log.summary,
        "phases": [_phase(log, phase, attempt) for phase, attempt in log.places],
        "events": {kind: counts.get(kind, 0) for kind in dict.fromkeys([*KINDS, *counts])},
        "cause": {"line": log.cause.line, "text": mask(log.cause.text)} if log.cause else None,
        "doubts": [doubt.as_json() for doubt in doubts],
        "unread": [
            {
                "text": mask(alike.text),
                "figures": [mask(name) for name in alike.figures],
                "lines": alike.lines,
                "line": alike.line,
            }
            for alike in log.unread_kinds
        ],
        "telemetry": _telemetry(log),
    }
    return dict(as_json(summary))


def _read(log: Log) -> list[Json]:
    kinds = ({**kind._asdict(), "text": mask(kind.text)} for kind in log.read_kinds)
    return [dict(as_json(kind)) for kind in kinds]


def _edges(times: pl.Series) -> tuple[int, int] | None:
    """The first and last time in nanoseconds; None if there are no times, as in most logs."""
    if times.null_count() == len(times):
        return None
    moments = times.dt.epoch("ns").drop_nulls().to_numpy()
    return int(moments.min()), int(moments.max())


def _moment(recorded: int | None, printed: int | None) -> str | None:
    moment = printed if recorded is None else recorded
    return None if moment is None else text.moment(moment)


def _phase(log: Log, phase: str, attempt: int) -> Json:
    rows, evals, measured = log.records, log.evals, log.measured
    if len(log.places) > 1:
        here = (pl.col("phase") == phase) & (pl.col("attempt") == attempt)
        rows, evals, measured = rows.filter(here), evals.filter(here), measured.filter(here)
    steps = _printed(rows["step"])
    total = _printed(rows["total_steps"]).last() if "total_steps" in rows.columns else None
    metrics = {name: _metric(log, measured, name) for name in log.metrics_in(measured)}
    names = dict.fromkeys(evals["name"].to_list())
    return {
        "phase": phase,
        "attempt": attempt,
        "records": rows.height,
        "steps": len(steps) if (np.diff(steps.to_numpy()) > 0).all() else steps.n_unique(),
        "first_step": steps.first(),
        "last_step": steps.last(),
        "total_steps": total if total is not None else log.config.get("total_steps"),
        "duration_s": duration_s(rows),
        "metrics": {name: figures for name, figures in metrics.items() if figures["count"] or figures["nan"]},
        "evals": {name: _evaluation(log, _named(evals, name, len(names)), name) for name in names},
    }


def counts_from_zero(rows: pl.DataFrame, events: pl.DataFrame) -> bool:
    """Returns whether steps count from 0; without the start, whether they end one short of the total.

    A run that goes on from another counts from 0 if its first step is the very one that its checkpoint names.
    """
    steps = rows["step"].drop_nulls().to_numpy()
    if not len(steps):
        return False
    if steps.min() <= 1:
        return bool(steps.min() == 0)
    total: Any = rows["total_steps"].drop_nulls().max() if "total_steps" in rows.columns else None
    if total is not None and steps.max() == float(total) - 1:
        return True
    return begins_where_resumed(rows, events)


def _named(evals: pl.DataFrame, name: str, names: int) -> pl.DataFrame:
    return evals if names == 1 else evals.filter(pl.col("name") == name)


def _printed(column: pl.Series) -> pl.Series:
    return column.drop_nulls() if column.null_count() else column


def _metric(log: Log, rows: pl.DataFrame, name: str) -> Json:
    what = log.sources.get(name)
    return {
        "unit": what.unit if what else None,
        "source": what.source if what else name,
        **figures(rows[name], rows["step"]),
    }


def _evaluation(log: Log, rows: pl.DataFrame, name: str) -> Json:
    what = log.sources.get(name)
    found = figures(rows["value"], rows["step"])
    found.pop("mean")
    finite = rows.filter(pl.col("value").is_finite())
    at = {"first_step": finite["step"].first(), "last_step": finite["step"].last()}
    order = ("count", "nan", "first", "first_step", "last", "last_step", "min", "min_step", "max", "max_step")
    both = {**found, **at}
    return {
        "unit": what.unit if what else None,
        "source": what.source if what else name,
        **{key: both[key] for key in order},
        **_after(finite),
    }


def _after(evals: pl.DataFrame) -> Json:
    """The records above the evaluations of which the log leaves open when before their step they were made."""
    after, values = evals["after"], evals["value"]
    if after.null_count() == len(after):
        return {}
    rows = {"first": 0, "last": -1, "min": values.arg_min() or 0, "max": values.arg_max() or 0}
    return {"after": {figure: after[row] for figure, row in rows.items()}}


def figures(values: pl.Series, steps: pl.Series) -> Json:
    """Figures of one metric. `count` is all printed values, `nan` those not finite, which the others leave out."""
    if values.null_count():
        printed = values.is_not_null()
        values, steps = values.filter(printed), steps.filter(printed)
    count = len(values)
    if not np.isfinite(values.to_numpy()).all():
        finite = values.is_finite()
        values, steps = values.filter(finite), steps.filter(finite)
    low, high = values.arg_min(), values.arg_max()
    return {
        "count": count,
        "nan": count - len(values),
        "first": values.first(),
        "last": values.last(),
        "mean": values.mean(),
        "min": values[low] if low is not None else None,
        "min_step": steps[low] if low is not None else None,
        "max": values[high] if high is not None else None,
        "max_step": steps[high] if high is not None else None,
    }


def duration_s(rows: pl.DataFrame) -> float | None:
    """The duration of a phase by the clock that it prints, else by its timestamps, else by its step times."""
    if "total_time_min" in rows.columns:
        clock = _printed(rows["total_time_min"])
        if len(clock) and _runs_on(clock):
            last: Any = clock.last()
            return round(float(last) * 60, 6)
    stamps = _printed(rows["time"])
    if len(stamps) > 1:
        first: Any = stamps.first()
        last = stamps.last()
        return float((last - first).total_seconds())
    if "dt_ms" in rows.columns and rows.height and _every_step(rows["step"]):
        times = _printed(rows["dt_ms"])
        return float(times.sum()) / 1000 if len(times) == rows.height else None
    return None


def _runs_on(clock: pl.Series) -> bool:
    """Whether a clock ends at its highest, and rarely begins again as behind a warm-up; else it counts epochs."""
    changes = clock.diff().drop_nulls()
    return clock.last() == clock.max() and 2 * int((changes < 0).sum()) <= int((changes > 0).sum())


def _every_step(steps: pl.Series) -> bool:
    return steps.null_count() == 0 and bool((np.diff(steps.to_numpy()) == 1).all())


def _telemetry(log: Log) -> Json | None:
    if not log.telemetry:
        return None
    rows = log.telemetry.rows
    first, last = _edges(rows["time"]) or (None, None)
    gpus = sorted(rows["gpu"].drop_nulls().unique().to_list(), key=lambda gpu: (len(gpu), gpu))
    numeric = [name for name, kind in rows.schema.items() if kind.is_numeric()]
    return {
        "rows": rows.height,
        "gpus": gpus,
        "first": _moment(None, first),
        "last": _moment(None, last),
        "columns": {name: _reading(log, rows[name].cast(pl.Float64), name) for name in numeric},
    }


def _reading(log: Log, values: pl.Series, name: str) -> Json:
    found = figures(values, pl.Series([None] * len(values), dtype=pl.Int64))
    unit = log.telemetry.units.get(name) if log.telemetry else None
    return {"unit": unit, **{key: found[key] for key in ("count", "nan", "min", "mean", "max")}}


def rows(log: Log) -> Iterator[dict[str, Any]]:
    """All rows in file order: `kind`, `run`, `phase`, `attempt`, `step`, `line`, `time`, then the metrics."""
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
    if log.lines is None:
        yield from (f"{log.source}: record {reject.line}: {reject.reason}" for reject in log.rejects)
        return
    for reject in log.rejects:
        name = reject.pattern.rpartition(".")[0]
        more = "'--learn FILE' writes the format" if name == "inferred" else f"'gputel formats {name}'"
        yield f"{log.source}:{reject.line}: {reject.reason}; see {more}"


def read(log: Log) -> Iterator[str]:
    """A line of each kind that was read, and its figures."""
    for kind in log.read_kinds:
        more = f"; {kind.lines - 1:,} more like it" if kind.lines > 1 else ""
        yield f"{log.source}:{kind.line}: {mask(kind.text)} [{kind.read_as}: {kind.given()}{more}]"


def unread(log: Log) -> Iterator[str]:
    """The first line of each kind of lines with figures that were not read, and their names."""
    for alike in log.unread_kinds:
        more = f"; {alike.lines - 1:,} more like it" if alike.lines > 1 else ""
        yield f"{log.source}:{alike.line}: {mask(alike.text)} [not read: {mask(', '.join(alike.figures))}{more}]"


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
        event = {"event": row["kind"], "text": row["text"] and mask(row["text"]), "rank": row["rank"]}
        yield {"kind": "event", "run": log.name, **where, **event}
