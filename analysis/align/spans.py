"""A run's marks in order of time -> spans of one kind each, without gap or overlap.

The time between two records is training, as long as steps usually take nearby; the rest belongs to the evaluation
or checkpoint printed between them, else it is `idle`. The time before the first record of an attempt is its
`start`, and so is what its first step took longer than others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from gputel.analysis.align.marks import BOUNDS, LogMark, log_marks
from gputel.analysis.align.step_time import step_ns_near, step_times
from gputel.analysis.align.timestamps import timed_log
from gputel.analysis.logs.signs import alike, save_words
from gputel.analysis.runs.printed_times import LONG, LONGER

if TYPE_CHECKING:
    from gputel.analysis.align.step_time import StepTime
    from gputel.analysis.align.timed_log import TimedLog
    from gputel.analysis.align.windows import Numbers
    from gputel.analysis.runs import RunData

SCHEMA: dict[str, Any] = {
    "kind": pl.String,
    "phase": pl.String,
    "attempt": pl.Int64,
    "step": pl.Int64,
    "steps": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "text": pl.String,
    "contains": pl.String,
}
PRINTED = ("eval", "checkpoint")  # kinds that a line names; the others are inferred
STALL_NS = 1_000_000_000  # a gap holds idle time if it is twice as long as its steps, and this much longer
ROUGHLY = 0.1  # of the training in a gap: less than this before an evaluation is an error of the estimate


@dataclass(frozen=True)
class Span:
    """A stretch of time in ns of the mark `of`; `contains` names the kinds that nothing separates from it."""

    kind: str
    start: int
    end: int
    of: LogMark
    steps: int = 0
    text: str | None = None
    contains: str | None = None

    def row(self) -> tuple[Any, ...]:
        printed = self.kind in PRINTED
        step = self.of.step if printed or self.kind == "train" else None
        place = (self.of.phase, self.of.attempt, step, self.steps, self.start, self.end)
        return self.kind, *place, self.text if printed else None, self.contains


class SaveBehind(NamedTuple):
    """When a save behind all other lines ended, in ns; `error_s` is None where no line tells how long it took."""

    middle: int
    error_s: float | None


def last_save(tables: TimedLog) -> SaveBehind | None:
    """Returns when the last save ended; None if an evaluation or a step follows it, or its lines have no times.

    It was written at its last line, unless a line announced it: then it ended somewhere before the line behind.
    """
    if tables.last_save is None:
        return None
    others = pl.concat([tables.records["line"], tables.evals["line"]])
    saved = (pl.col("kind") == "checkpoint") & (pl.col("line") > pl.lit(others.max()))
    last = tables.events.filter(saved).tail(1)
    if last.is_empty():
        return None
    line, behind = tables.last_save
    if not save_words(alike((last["text"].item() or "").encode())).announces:
        return SaveBehind(line + tables.cut_ns, 0.0)
    if behind is None:
        return SaveBehind(line + tables.cut_ns, None)
    return SaveBehind((line + behind) // 2 + tables.cut_ns, (behind - line) / 2e9)


def cut_spans(subject: RunData) -> pl.DataFrame:
    """Cuts a run into spans; with a column `node` if several nodes printed records."""
    tables = timed_log(subject)
    resolution_ns = round(tables.resolution_s * 1e9)
    times = step_times(tables) if resolution_ns else {}
    save = last_save(tables)
    frames = {
        node: of_marks(marks, resolution_ns, times, save and save.middle)
        for node, marks in log_marks(subject, tables).items()
    }
    if len(frames) == 1:
        return next(iter(frames.values()))
    return pl.concat(
        [frame.with_columns(pl.lit(node, pl.String).alias("node")) for node, frame in frames.items()]
    )


def of_marks(
    marks: Sequence[LogMark],
    resolution_ns: int = 0,
    times: Mapping[str, StepTime] = MappingProxyType({}),
    saved: int | None = None,
) -> pl.DataFrame:
    """Cuts the marks of one node, with times of a given resolution, into a frame of spans.

    `times` are those of a step of each phase; `saved` is when a save ended that is the last mark.
    """
    cut = [*_cut(marks, resolution_ns, times)]
    if cut and saved is not None and marks[-1].kind == "checkpoint" and saved > marks[-1].time:
        cut.append(Span("checkpoint", marks[-1].time, saved, marks[-1], text=marks[-1].text))
    rows = [span.row() for span in _merged(iter(cut))]
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return frame.with_columns(pl.col("start", "end").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


def _cut(marks: Sequence[LogMark], resolution_ns: int, times: Mapping[str, StepTime]) -> Iterator[Span]:
    """Cuts gap by gap: from a record, or the beginning, to the next record, or the end."""
    records = [place for place, mark in enumerate(marks) if mark.kind == "train"]
    if not records:
        return
    usual = _usual(marks, records, resolution_ns, times).tolist()
    gaps = [marks[before : record + 1] for before, record in zip([0, *records], records, strict=False)]
    inseparable = _inseparable(gaps, usual)
    for inner, usual_ns in zip(gaps, usual, strict=True):
        yield from _gap(inner, usual_ns, resolution_ns, inseparable=inseparable)
    yield from _tail(marks[records[-1] :], usual[-1], from_zero=marks[records[0]].step == 0)


def _tail(marks: Sequence[LogMark], usual_ns: float, *, from_zero: bool) -> Iterator[Span]:
    """Cuts what follows the last record; an evaluation of a later step says that steps came before it."""
    slots = list(pairwise(marks))
    if slots and marks[1].kind == "eval" and marks[0].step is not None and marks[1].step is not None:
        record, named = marks[:2]
        behind = marks[1].step - marks[0].step - from_zero
        if 0 < behind <= record.steps and behind * usual_ns <= named.time - record.time:
            border = record.time + round(behind * usual_ns)
            yield Span("train", record.time, border, record, behind)
            slots[0] = replace(record, time=border), named
    for left, right in slots:
        yield _rest(left, right, None)


def _usual(
    marks: Sequence[LogMark], records: Sequence[int], resolution_ns: int, times: Mapping[str, StepTime]
) -> Numbers:
    """Returns ns per step near each record, by the gaps between two records without another line."""
    clean = [
        marks[record].time - marks[before].time if record == before + 1 and not marks[record].first else None
        for before, record in zip([-1, *records], records, strict=False)
    ]
    rows = pl.DataFrame(
        {
            "width": pl.Series(clean, dtype=pl.Float64),
            "steps": pl.Series([float(marks[record].steps) for record in records]),
            "printed": pl.Series([marks[record].dt_ns for record in records], dtype=pl.Float64),
            "first": pl.Series([marks[record].first for record in records]),
            "phase": pl.Series([marks[record].phase for record in records], dtype=pl.String),
        }
    )
    return step_ns_near(rows, resolution_ns, times)


def _gap(
    inner: Sequence[LogMark], usual_ns: float, resolution_ns: int, *, inseparable: bool
) -> Iterator[Span]:
    """Cuts the time from one record to the next; the very first gap may have a record alone."""
    record = inner[-1]
    slots = list(pairwise(inner))
    slots = slots or [(replace(record, time=record.time - _printed_ns(record, usual_ns)), record)]
    widths = [right.time - left.time for left, right in slots]
    if _is_unknown(inner, usual_ns) and (inseparable or _announces_save(inner[-2])):
        others = ", ".join(sorted({mark.kind for mark in inner[1:-1]}, key=PRINTED.index))
        yield Span("train", inner[0].time, record.time, record, record.steps, contains=others)
        return
    if record.first:
        training = [*[0] * (len(slots) - 1), min(_first_ns(record, usual_ns), widths[-1])]
    elif len(slots) == 1:
        training = [_without_stall(record, usual_ns, widths[0])]
    else:
        behind = _steps_behind(inner, widths[0], usual_ns)
        training = _shared_out(_expected_ns(record, usual_ns), widths, behind / record.steps)
        training = _until_announced(training, slots, resolution_ns)
    trained = max((place for place, share in enumerate(training) if share), default=len(slots) - 1)
    for place, ((left, right), train_ns) in enumerate(zip(slots, training, strict=True)):
        rest = _rest(left, right, record)
        steps = record.steps if place == trained else 0
        if right is record:
            border = right.time - train_ns
            yield replace(rest, end=border)
            yield Span("train", border, right.time, record, steps)
        else:
            border = left.time + train_ns
            yield Span("train", left.time, border, record, steps)
            yield replace(rest, start=border)


def _is_unknown(inner: Sequence[LogMark], usual_ns: float) -> bool:
    """Whether no step time is known in a gap with other lines."""
    return len(inner) > 2 and not inner[-1].first and bool(np.isnan(_expected_ns(inner[-1], usual_ns)))


def _inseparable(gaps: Sequence[Sequence[LogMark]], usual: Sequence[float]) -> bool:
    """Whether nothing tells steps from what other lines report: no step time is known, and hardly any time is left.

    Over all gaps, as timestamps of whole seconds say little of one. What comes behind a save that is announced is
    the save's, too. Between several evaluations of one gap there are steps.
    """
    unknown = [inner for inner, usual_ns in zip(gaps, usual, strict=True) if _is_unknown(inner, usual_ns)]
    unknown = [inner for inner in unknown if not _announces_save(inner[-2])]
    little = ROUGHLY * sum(inner[-1].time - inner[0].time for inner in unknown)
    evals = [[mark.time for mark in inner if mark.kind == "eval"] for inner in unknown]
    between = sum(times[-1] - times[0] for times in evals if times)
    return between > little or sum(inner[-1].time - inner[-2].time for inner in unknown) <= little


def _first_ns(record: LogMark, usual_ns: float) -> int:
    """Returns the training in an attempt's first record; what compilation adds to a step belongs to the start."""
    printed_ns, expected_ns = _printed_ns(record, usual_ns), record.steps * usual_ns
    return round(expected_ns) if printed_ns > LONG * expected_ns else printed_ns


def _printed_ns(record: LogMark, usual_ns: float) -> int:
    """Returns the length of a record by its own step time, else as the records after it."""
    step_ns = usual_ns if record.dt_ns is None else record.dt_ns
    return 0 if np.isnan(step_ns) else round(record.steps * step_ns)


def _expected_ns(record: LogMark, usual_ns: float) -> float:
    """Returns the expected length of a record after an evaluation, which some logs include in its time."""
    if record.steps == 1 and record.dt_ns is not None and not record.dt_ns > LONGER * usual_ns:
        return record.dt_ns
    return record.steps * usual_ns


def _without_stall(record: LogMark, usual_ns: float, width: int) -> int:
    """Returns the training in a gap without other lines; a step that prints that it was slow is no stall."""
    printed_ns = record.dt_ns if record.steps == 1 and record.dt_ns else 0.0
    expected = record.steps * max(usual_ns, printed_ns)
    return round(expected) if width - expected > max(expected, STALL_NS) else width


def _steps_behind(inner: Sequence[LogMark], front_ns: int, usual_ns: float) -> int:
    """Returns how many steps of a record may come behind the last other line, by the step of that line.

    None if that line names the step which follows the record: a loop that prints late owed the record. What comes
    before a save is announced is steps, as many as fit.
    """
    record = inner[-1]
    if record.steps > 1 and _announces_save(inner[1]):
        before = round(front_ns / usual_ns) if usual_ns > 0 else record.steps  # logs may print 0 s a step
        return record.steps - before if before <= record.steps else 1
    named = [mark.step for mark in inner[1:-1] if mark.step is not None]
    if record.step is None or not named:
        return record.steps
    behind = record.step - max(named) + 1
    return 0 if behind == 0 else min(max(behind, 1), record.steps)


def _announces_save(mark: LogMark) -> bool:
    """Whether a line says that a checkpoint will be written, not that it was."""
    return mark.kind == "checkpoint" and save_words(alike((mark.text or "").encode())).announces


def _shared_out(train_ns: float, widths: Sequence[int], most_behind: float = 1.0) -> list[int]:
    """Distributes training over slots: the last one first, with this share of it at most, then from the front."""
    last = len(widths) - 1
    if np.isnan(train_ns):
        return [0] * last + [widths[last]]
    behind = min(round(most_behind * train_ns), widths[last])
    shares, left = [0] * last, train_ns - behind
    for place in range(last):
        if left > ROUGHLY * train_ns:
            shares[place] = min(round(left), widths[place])
            left -= shares[place]
    return [*shares, behind]


def _until_announced(
    training: Sequence[int], slots: Sequence[tuple[LogMark, LogMark]], resolution_ns: int
) -> list[int]:
    """Gives the training what a coarse clock shows more of it before a save is announced.

    Such a clock shows as often less, which no save fills: otherwise saves would be too long on average. Of a save
    that is hardly longer than the clock's resolution it tells too little.
    """
    widths = [right.time - left.time for left, right in slots]
    return [
        width
        if _announces_save(right) and 0 < width - share <= resolution_ns and behind > 2 * resolution_ns
        else share
        for share, width, behind, (_, right) in zip(training, widths, [*widths[1:], 0], slots, strict=True)
    ]


def _rest(left: LogMark, right: LogMark, record: LogMark | None) -> Span:
    """Returns what the time between two marks is, apart from training; `record` is the next one."""
    if right.kind in BOUNDS:
        return Span("idle", left.time, right.time, left)
    if left.kind in BOUNDS or (record and record.first and _place(right) == _place(record)):
        return Span("start", left.time, right.time, record or right)
    if right.kind != "train":
        return Span(right.kind, left.time, right.time, right, text=right.text, contains=right.contains)
    kind = "idle" if left.kind == "train" else left.kind  # an evaluation may continue after its line
    return Span(kind, left.time, right.time, left, text=left.text)


def _place(mark: LogMark) -> tuple[str | None, int | None]:
    return mark.phase, mark.attempt


def _merged(cut: Iterator[Span]) -> Iterator[Span]:
    """Drops empty spans, except a record's training; joins an evaluation of several lines."""
    open_span: Span | None = None
    for span in cut:
        if span.start == span.end and not span.steps:
            continue
        if (
            open_span
            and open_span.kind == span.kind != "train"
            and (span.kind not in PRINTED or open_span.of.step == span.of.step)
        ):
            texts = dict.fromkeys(text for text in (open_span.text, span.text) if text)
            open_span = replace(open_span, end=span.end, text=", ".join(texts) or None)
            continue
        if open_span:
            yield open_span
        open_span = span
    if open_span:
        yield open_span
