"""What a run printed, and when -> the run cut into spans of one kind each, without gap or overlap.

A record stands for all steps since the one before. Between two records lies their training, and what is left over
belongs to the evaluation or checkpoint that was printed between them, else to nothing that is known: `idle`. A step
takes what steps usually take thereabouts; where in the gap it lies, the lines between tell. What comes before the
first record of an attempt is its `start`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis.align import marks
from gputel.analysis.align.marks import BOUNDS, Mark
from gputel.analysis.align.placing import usual_near

if TYPE_CHECKING:
    from gputel.analysis.align.held import Numbers
    from gputel.analysis.subjects import Subject

SCHEMA: dict[str, Any] = {
    "kind": pl.String,
    "phase": pl.String,
    "attempt": pl.Int64,
    "step": pl.Int64,
    "steps": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "text": pl.String,
}
TOLD = ("eval", "checkpoint")  # what a line says; the rest is inferred
STALL_NS = 1_000_000_000  # a gap holds idle time where it took twice the time of its steps, and so much more
ROUGHLY = 0.1  # of the training in a gap: so little before an evaluation is an error of the estimate


@dataclass(frozen=True)
class Span:
    """`of` is the mark that it belongs to."""

    kind: str
    start: int
    end: int
    of: Mark
    steps: int = 0
    text: str | None = None

    def row(self) -> tuple[Any, ...]:
        told = self.kind in TOLD
        step = self.of.step if told or self.kind == "train" else None
        text = self.text if told else None
        return self.kind, self.of.phase, self.of.attempt, step, self.steps, self.start, self.end, text


def spans(subject: Subject) -> pl.DataFrame:
    """With the column `node` where several nodes printed records: each node's spans are its own."""
    frames = {node: of_marks(held) for node, held in marks.of(subject).items()}
    if len(frames) == 1:
        return next(iter(frames.values()))
    return pl.concat([frame.with_columns(pl.lit(node).alias("node")) for node, frame in frames.items()])


def of_marks(held: Sequence[Mark]) -> pl.DataFrame:
    frame = pl.DataFrame([span.row() for span in _merged(_cut(held))], schema=SCHEMA, orient="row")
    return frame.with_columns(pl.col("start", "end").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


def _cut(held: Sequence[Mark]) -> Iterator[Span]:
    """Gap by gap: from a record, or the beginning, to the next record, or the end."""
    records = [place for place, mark in enumerate(held) if mark.kind == "train"]
    if not records:
        return
    usual = _usual(held, records)
    for before, record, usual_ns in zip([0, *records], records, usual.tolist(), strict=False):
        yield from _gap(held[before : record + 1], usual_ns)
    for left, right in pairwise(held[records[-1] :]):
        yield _rest(left, right, None)


def _usual(held: Sequence[Mark], records: Sequence[int]) -> Numbers:
    """Nanoseconds a step: the median of the bare gaps around a record in its attempt, else as it was printed."""
    clean = [
        (held[record].time - held[before].time) / held[record].steps
        if record == before + 1 and not held[record].first
        else None
        for before, record in zip([-1, *records], records, strict=False)
    ]
    told = [held[record].dt_ns for record in records]
    first = [held[record].first for record in records]
    rows = pl.DataFrame([clean, told, first], {"gap": pl.Float64, "told": pl.Float64, "first": pl.Boolean})
    near = usual_near(pl.col("gap")).fill_null(strategy="forward").fill_null(strategy="backward")
    usual = pl.coalesce(near.over(pl.col("first").cum_sum()), "told").fill_null(np.nan)
    found: Numbers = rows.select(usual.alias("usual"))["usual"].to_numpy()
    return found


def _gap(inner: Sequence[Mark], usual_ns: float) -> Iterator[Span]:
    """The marks from one record to the next; the very first gap may be of a record alone."""
    record = inner[-1]
    slots = list(pairwise(inner)) or [
        (replace(record, time=record.time - _first_ns(record, usual_ns)), record)
    ]
    widths = [right.time - left.time for left, right in slots]
    if record.first:
        training = [*[0] * (len(slots) - 1), min(_first_ns(record, usual_ns), widths[-1])]
    elif len(slots) == 1:
        training = [_without_stall(record, usual_ns, widths[0])]
    else:
        training = _shared_out(_expected_ns(record, usual_ns), widths)
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


def _first_ns(record: Mark, usual_ns: float) -> int:
    """What an attempt's first record took; it says so itself, or is taken to be like those after it."""
    step_ns = usual_ns if record.dt_ns is None else record.dt_ns
    return 0 if np.isnan(step_ns) else round(record.steps * step_ns)


def _expected_ns(record: Mark, usual_ns: float) -> float:
    """Of a record behind an evaluation. Some logs count that into its time, so the less is taken."""
    if record.steps == 1 and record.dt_ns is not None:
        return float(np.fmin(usual_ns, record.dt_ns))
    return record.steps * usual_ns


def _without_stall(record: Mark, usual_ns: float, width: int) -> int:
    """A step that says itself that it was slow was no stall."""
    told = record.dt_ns if record.steps == 1 and record.dt_ns else 0.0
    expected = record.steps * max(usual_ns, told)
    return round(expected) if width - expected > max(expected, STALL_NS) else width


def _shared_out(train_ns: float, widths: Sequence[int]) -> list[int]:
    """Which part of each slot is training: the last slot first, for the record ends it, then from the front."""
    last = len(widths) - 1
    if np.isnan(train_ns):
        return [0] * last + [widths[last]]
    shares, left = [0] * len(widths), train_ns
    for place in (last, *range(last)):
        if place == last or left > ROUGHLY * train_ns:
            shares[place] = min(round(left), widths[place])
            left -= shares[place]
    return shares


def _rest(left: Mark, right: Mark, record: Mark | None) -> Span:
    """What lies between two marks but for training; `record` is the next one."""
    if right.kind in BOUNDS:
        return Span("idle", left.time, right.time, left)
    if left.kind in BOUNDS or (record and record.first and _place(right) == _place(record)):
        return Span("start", left.time, right.time, record or right)
    if right.kind != "train":
        return Span(right.kind, left.time, right.time, right, text=right.text)
    kind = "idle" if left.kind == "train" else left.kind  # an evaluation may go on after its line
    return Span(kind, left.time, right.time, left, text=left.text)


def _place(mark: Mark) -> tuple[str | None, int | None]:
    return mark.phase, mark.attempt


def _merged(cut: Iterator[Span]) -> Iterator[Span]:
    """Without the empty ones, but for a record's training; an evaluation of several lines is one."""
    held: Span | None = None
    for span in cut:
        if span.start == span.end and not span.steps:
            continue
        if (
            held
            and held.kind == span.kind != "train"
            and (span.kind not in TOLD or held.of.step == span.of.step)
        ):
            texts = dict.fromkeys(text for text in (held.text, span.text) if text)
            held = replace(held, end=span.end, text=", ".join(texts) or None)
            continue
        if held:
            yield held
        held = span
    if held:
        yield held
