"""Values of one run -> a Log: records, evaluations and events by the rules that logs are read by.

A row of a store has no line of text: `line` numbers the rows of a run in the order of their steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import cast

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis import columns
from gputel.analysis.logs import events, files, frames
from gputel.analysis.logs.log import Log, ReadyResults
from gputel.analysis.logs.outcome import LogEvent
from gputel.analysis.logs.patterns import Field
from gputel.analysis.stores.points import StoredRun, TagValues
from gputel.analysis.stores.step_axes import step_axes
from gputel.analysis.stores.tags import RECORD_METRICS, TagMeaning, meanings

Whole = npt.NDArray[np.int64]
MOST_STEP = 2**62
FROM_CONSOLE = "the history has no values: the rows are those of the console output"
END_OF_TRAINING = ("train_runtime", "train/train_runtime")


def make_log(run: StoredRun) -> Log:
    """Makes the log of a stored run."""
    points = _valid(run.points)
    points, summary = _without_summary(points)
    axes, notes = step_axes(points)
    tables = [_Table(axis.points, meanings(_known(axis.points)), axis.phase) for axis in axes]
    records, evals, partials = _joined(tables)
    seen = [
        LogEvent("resume", line, text)
        for attempt, text in run.resumes.items()
        if (line := tables[0].first_line(attempt))
    ]
    seen += [LogEvent("eval", line, "") for line in evals["line"].unique(maintain_order=True).to_list()]
    ranges = events.line_ranges(records)
    done, _ = events.EventTracker().take(seen, records, ranges, ended=True)
    stated = [event.line for event in seen if event.kind == "resume"]
    happened = done.frame().filter((pl.col("kind") != "restart") | ~pl.col("line").is_in(stated))
    return Log(
        name=run.name,
        source=run.source,
        format=run.format,
        lines=None,
        config=run.config,
        summary={**run.summary, **summary},
        rejects=run.rejects,
        sources={column: field for table in reversed(tables) for column, field in table.sources.items()},
        digits={},
        places=[place for table in tables for place in table.places],
        results=ReadyResults(records, evals, partials, happened, run.status, run.cause),
        formats={run.format: records.height + evals.height},
        telemetry=run.telemetry,
        fault=run.fault,
        started=run.started,
        ended=run.ended,
        notes=(*run.notes, *notes),
        provenance=run.provenance,
    )


def _known(points: TagValues) -> dict[str, int]:
    """How many values each tag has that has any."""
    counts = np.bincount(points.tag, minlength=len(points.tags)) if len(points) else np.zeros(0, np.int64)
    return {tag: int(count) for tag, count in zip(points.tags, counts, strict=False) if count}


def _joined(tables: Sequence[_Table]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Records, evaluations and partial rows of all tables; lines are numbered on through them."""
    first, *others = (table.frames() for table in tables)
    for more in others:
        lines = max(int(cast("int | None", frame["line"].max()) or 0) for frame in first)
        moved = [frame.with_columns(pl.col("line") + lines) for frame in more]
        records, evals, partials = (
            pl.concat([frame, after], how="diagonal") for frame, after in zip(first, moved, strict=True)
        )
        first = (_in_order(records), evals, _in_order(partials))
    return first


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    return frame[columns.in_order(frame.columns)]


def _valid(points: TagValues) -> TagValues:
    """Leaves out points whose step no counter reaches."""
    keep = (points.step > -MOST_STEP) & (points.step < MOST_STEP)
    return points if keep.all() else points.only(keep)


def _without_summary(points: TagValues) -> tuple[TagValues, dict[str, float | str]]:
    """Takes out what Hugging Face's Trainer writes when a run ends: averages, at one step, beside the run time."""
    runtime = next((points.tags.index(tag) for tag in END_OF_TRAINING if tag in points.tags), None)
    if runtime is None:
        return points, {}
    prefix = points.tags[runtime].removesuffix("train_runtime")
    ending = [
        at
        for at, tag in enumerate(points.tags)
        if tag.startswith(f"{prefix}train_") or tag == f"{prefix}total_flos"
    ]
    counts = np.bincount(points.tag, minlength=len(points.tags))
    once = [at for at in ending if counts[at] and counts[at] <= counts[runtime]]
    is_summary = np.isin(points.tag, once)
    summary: dict[str, float | str] = {}
    for tag, value in zip(points.tag[is_summary].tolist(), points.value[is_summary].tolist(), strict=True):
        summary[points.tags[tag].removeprefix(prefix)] = value
    return points.only(~is_summary), summary


@dataclass
class _Row:
    """Which rows a kind of point falls into: the attempt, the step and the first point of each."""

    of_point: Whole
    attempt: Whole
    step: Whole
    first: Whole


class _Table:
    """The points of a run as rows of three kinds."""

    def __init__(self, points: TagValues, known: dict[str, TagMeaning], phase: str) -> None:
        self._points, self._known, self._phase = points, known, phase
        self._is_evaluation = np.array(
            [tag in known and known[tag].is_evaluation for tag in points.tags] or [False], np.bool_
        )
        self._makes_record = self._record_makers()
        self.sources: dict[str, Field] = {meaning.column: meaning.field for meaning in known.values()}
        self._first_lines: dict[int, int] = {}
        self.places: list[tuple[str, int]] = []

    def _record_makers(self) -> npt.NDArray[np.bool_]:
        """The tags that make a record: the metrics that do; where a store has none, every training value."""
        training = {tag: meaning.column for tag, meaning in self._known.items() if not meaning.is_evaluation}
        has_any = any(column in RECORD_METRICS for column in training.values())
        return np.array(
            [
                tag in training and (not has_any or training[tag] in RECORD_METRICS)
                for tag in self._points.tags
            ]
            or [False],
            np.bool_,
        )

    def first_line(self, attempt: int) -> int:
        """The line of the first row of an attempt; 0 if it has none."""
        return self._first_lines.get(attempt, 0)

    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Records, evaluations, and rows that hold neither: metrics at steps that have no record."""
        points = self._points
        rows = _rows(points)
        is_eval = self._is_evaluation[points.tag]
        has_record = np.zeros(len(rows.step), np.bool_)
        has_record[rows.of_point[self._makes_record[points.tag]]] = True
        has_training = np.zeros(len(rows.step), np.bool_)
        has_training[rows.of_point[~is_eval]] = True
        has_eval = np.zeros(len(rows.step), np.bool_)
        has_eval[rows.of_point[is_eval]] = True
        lines = np.cumsum(has_training.astype(np.int64) + has_eval)
        line = lines - has_eval
        line[~has_training] = lines[~has_training]
        for attempt in dict.fromkeys(rows.attempt.tolist()):
            self.places.append((self._phase, attempt))
            at = int(np.argmax(rows.attempt == attempt))
            self._first_lines[attempt] = int(min(line[at], lines[at]))
        records = self._wide(rows, has_record, line, ~is_eval)
        partials = self._wide(rows, has_training & ~has_record, line, ~is_eval)
        return records, self._evals(rows, is_eval, lines), partials

    def _wide(
        self, rows: _Row, chosen: npt.NDArray[np.bool_], line: Whole, of_kind: npt.NDArray[np.bool_]
    ) -> pl.DataFrame:
        """One row per step, with a column per tag; of values at one step the last counts."""
        size = int(chosen.sum())
        place = np.cumsum(chosen) - 1
        series = [
            pl.Series("phase", [self._phase], dtype=pl.String).new_from_index(0, size),
            pl.Series("attempt", rows.attempt[chosen]),
            pl.Series("line", line[chosen]),
            pl.Series("step", rows.step[chosen]),
            _times(self._first_times(rows)[chosen]),
            pl.Series("rank", [None], dtype=pl.String).new_from_index(0, size),
        ]
        usable = of_kind & chosen[rows.of_point]
        series += [
            self._column(tag, meaning, usable, place[rows.of_point], size)
            for tag, meaning in self._meanings()
            if not meaning.is_evaluation and (usable & (self._points.tag == tag)).any()
        ]
        frame = pl.DataFrame(series)
        return _in_order(frame)

    def _meanings(self) -> Iterator[tuple[int, TagMeaning]]:
        for at, tag in enumerate(self._points.tags):
            if tag in self._known:
                yield at, self._known[tag]

    def _column(
        self, tag: int, meaning: TagMeaning, usable: npt.NDArray[np.bool_], places: Whole, size: int
    ) -> pl.Series:
        mine = usable & (self._points.tag == tag)
        values, present = np.zeros(size), np.zeros(size, np.bool_)
        values[places[mine]] = _scaled(meaning, self._points.value[mine])
        present[places[mine]] = True
        series = pl.Series(meaning.column, values)
        return series if present.all() else series.set(pl.Series(~present), None)

    def _first_times(self, rows: _Row) -> Whole:
        return self._points.time[rows.first] if len(self._points) else np.zeros(0, np.int64)

    def _evals(self, rows: _Row, is_eval: npt.NDArray[np.bool_], lines: Whole) -> pl.DataFrame:
        """One row per evaluated step and name; of values at one step the last counts."""
        points, of_point = self._points, rows.of_point
        size = max(len(points.tags), 1)
        keys = of_point[is_eval] * size + points.tag[is_eval]
        last = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1] if len(keys) else keys
        chosen = np.flatnonzero(is_eval)[last]
        named = dict(self._meanings())
        tags = points.tag[chosen]
        values = points.value[chosen].copy()
        for tag in np.unique(tags).tolist():
            values[tags == tag] = _scaled(named[tag], values[tags == tag])
        size = len(chosen)
        series = {
            "phase": pl.Series("phase", [self._phase], dtype=pl.String).new_from_index(0, size),
            "attempt": pl.Series("attempt", points.attempt[chosen]),
            "step": pl.Series("step", points.step[chosen]),
            "after": pl.Series("after", [None], dtype=pl.Int64).new_from_index(0, size),
            "name": pl.Series("name", [named[tag].column for tag in tags.tolist()], dtype=pl.String),
            "value": pl.Series("value", values),
            "line": pl.Series("line", lines[of_point[chosen]]),
            "time": _times(points.time[chosen]),
            "rank": pl.Series("rank", [None], dtype=pl.String).new_from_index(0, size),
        }
        return pl.DataFrame([series[column.name] for column in columns.EVALS])


def _scaled(meaning: TagMeaning, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    field = meaning.field
    if (field.shift, field.times, field.over) == (0, 1, 1):
        return values
    return values * 10.0**field.shift * field.times / field.over


def _rows(points: TagValues) -> _Row:
    """Groups points by attempt and step, in that order."""
    if not len(points):
        nothing = np.zeros(0, np.int64)
        return _Row(nothing, nothing, nothing, nothing)
    low, high = int(points.step.min()), int(points.step.max())
    span = high - low + 1
    if span * int(points.attempt.max()) < MOST_STEP:
        keys = (points.attempt - 1) * span + (points.step - low)
        unique, first, of_point = np.unique(keys, return_index=True, return_inverse=True)
        return _Row(of_point.reshape(-1), unique // span + 1, unique % span + low, first)
    both = np.stack([points.attempt, points.step], axis=1)
    pairs, first, of_point = np.unique(both, axis=0, return_index=True, return_inverse=True)
    return _Row(of_point.reshape(-1), pairs[:, 0], pairs[:, 1], first)


def _times(nanoseconds: Whole) -> pl.Series:
    """Moments; a time of 0 is unknown."""
    series = pl.Series("time", nanoseconds, dtype=pl.Int64)
    moments: pl.Series = series.set(series == 0, None).cast(frames.UTC)
    return moments


def with_printed_rows(log: Log, printed: bytes) -> Log:
    """The log with the rows of the text, if it has none of its own; the end of the run is as the store says."""
    if not printed or log.records.height or log.evals.height:
        return log
    read = files.stream(BytesIO(printed), log.name, log.source)
    if read.is_empty:
        return log
    ending = {} if log.status == "unknown" else {"status": log.status, "cause": log.cause}
    read = replace(
        read.with_results(**ending),
        config={**read.config, **log.config},
        summary={**read.summary, **log.summary},
        rejects=log.rejects,
        notes=(*log.notes, FROM_CONSOLE),
    )
    return replace(read, fault=log.fault, started=log.started, ended=log.ended)
