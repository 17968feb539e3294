"""What a run printed -> marks in the order of time: records, evaluations, checkpoints, a recording's begin and end.

The copies that several ranks print of one step are one mark, the first. Time never runs backwards from one mark to
the next, whatever the clock did.

What a run printed, and when -> the run cut into spans of one kind each, without gap or overlap.

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

from gputel.analysis.align import timestamps
from gputel.analysis.align.timestamps import timed_log, usual_near

if TYPE_CHECKING:
    from gputel.analysis.align.windows import Numbers
    from gputel.analysis.runs import RunData

BOUNDS = ("began", "ended")

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
class LogMark:
    """`time` in ns. Of a record: `steps` since the one before, `first` of its attempt, `dt_ns` as it was printed.

    `text` names the evaluations, or is the line of the checkpoint.
    """

    kind: str
    time: int
    phase: str | None = None
    attempt: int | None = None
    step: int | None = None
    steps: int = 0
    first: bool = False
    dt_ns: float | None = None
    text: str | None = None


def log_marks(subject: RunData) -> dict[str | None, list[LogMark]]:
    """By node where several nodes printed records; what only one of them printed stands for all."""
    tables = timed_log(subject)
    nodes: list[str | None] = [None]
    if "node" in tables.records.columns:
        nodes = tables.records["node"].unique(maintain_order=True).to_list() or [None]
    several = len(nodes) > 1
    found: dict[str | None, list[LogMark]] = {}
    for node in nodes:
        own = tables.of_node(node) if several else tables
        marks = [*_lines(own), *_bounds(subject, node if "node" in tables.records.columns else None)]
        order = {"began": 0, "ended": 2}
        found[node] = sorted(marks, key=lambda mark: (mark.time, order.get(mark.kind, 1)))
    return found


@dataclass(frozen=True)
class Span:
    """`of` is the mark that it belongs to."""

    kind: str
    start: int
    end: int
    of: LogMark
    steps: int = 0
    text: str | None = None

    def row(self) -> tuple[Any, ...]:
        told = self.kind in TOLD
        step = self.of.step if told or self.kind == "train" else None
        text = self.text if told else None
        return self.kind, self.of.phase, self.of.attempt, step, self.steps, self.start, self.end, text


def cut_spans(subject: RunData) -> pl.DataFrame:
    """With the column `node` where several nodes printed records: each node's spans are its own."""
    frames = {node: of_marks(held) for node, held in log_marks(subject).items()}
    if len(frames) == 1:
        return next(iter(frames.values()))
    return pl.concat([frame.with_columns(pl.lit(node).alias("node")) for node, frame in frames.items()])


def of_marks(held: Sequence[LogMark]) -> pl.DataFrame:
    frame = pl.DataFrame([span.row() for span in _merged(_cut(held))], schema=SCHEMA, orient="row")
    return frame.with_columns(pl.col("start", "end").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


def _lines(tables: timestamps.TimedLog) -> Iterator[LogMark]:
    others = pl.concat([_evals(tables.evals), _checkpoints(tables.events)], how="diagonal_relaxed")
    others = others if tables.stamped else others.clear()
    rows = pl.concat([others, _records(tables.records)], how="diagonal_relaxed")
    rows = rows.filter(pl.col("time").is_not_null()).sort("line", maintain_order=True)
    rows = rows.with_columns(pl.col("time").dt.epoch("ns").cum_max())
    names = ("kind", "time", "phase", "attempt", "step", "steps", "first", "dt_ns", "text")
    phase: str | None = None
    attempt: int | None = None
    for row in rows.select(names).iter_rows(named=True):
        if row["phase"] is None:  # a checkpoint's line does not say of what it is
            row |= {"phase": phase, "attempt": attempt}
        phase, attempt = row["phase"], row["attempt"]
        yield LogMark(**row)


def _records(records: pl.DataFrame) -> pl.DataFrame:
    numbered = records.filter(pl.col("step").is_not_null()).unique(
        ["phase", "attempt", "step"], keep="first", maintain_order=True
    )
    own = pl.concat([numbered, records.filter(pl.col("step").is_null())]).sort("line", maintain_order=True)
    place = ["phase", "attempt"]
    gap = pl.col("step").diff().over(place)
    usual = gap.median().over(place).cast(pl.Int64)
    dt = pl.col("dt_ms") * 1e6 if "dt_ms" in own.columns else pl.lit(None, pl.Float64)
    return own.select(
        pl.lit("train").alias("kind"),
        "time",
        "line",
        *place,
        "step",
        pl.coalesce(gap, _steps_of_first(usual), 1).alias("steps"),
        pl.int_range(pl.len()).over(place).eq(0).alias("first"),
        pl.when(dt.is_finite() & (dt >= 0)).then(dt).alias("dt_ns"),
    )


def _steps_of_first(usual: pl.Expr) -> pl.Expr:
    """How many steps an attempt's first record stands for: step 0 for itself, step 10 of every tenth for ten."""
    step = pl.col("step")
    regular = (step % usual == 0) | ((step + 1) % usual == 0)
    return pl.when(step <= 1).then(1).when(regular).then(usual).otherwise(pl.min_horizontal(step, usual))


def _evals(evals: pl.DataFrame) -> pl.DataFrame:
    """One a line, however much was evaluated on it."""
    return evals.group_by("line", maintain_order=True).agg(
        pl.lit("eval").alias("kind"),
        pl.col("time", "phase", "attempt", "step").first(),
        pl.col("name").unique(maintain_order=True).str.join(", ").alias("text"),
        steps=pl.lit(0, pl.Int64),
        first=pl.lit(False),
        dt_ns=pl.lit(None, pl.Float64),
    )


def _checkpoints(events: pl.DataFrame) -> pl.DataFrame:
    saved = events.filter(pl.col("kind") == "checkpoint")
    return saved.select(
        "kind",
        "time",
        "line",
        "step",
        "text",
        steps=pl.lit(0, pl.Int64),
        first=pl.lit(False),
    )


def _bounds(subject: RunData, node: str | None) -> Iterator[LogMark]:
    if subject.recording is None:
        return
    segments: Any = subject.recording.segments
    if node is not None:
        segments = segments.filter(pl.col("node").eq_missing(node))
    for started, ended in segments.select(pl.col("started", "ended").dt.epoch("ns")).iter_rows():
        if started is not None:
            yield LogMark("began", started)
        if ended is not None:
            yield LogMark("ended", ended)


def _cut(held: Sequence[LogMark]) -> Iterator[Span]:
    """Gap by gap: from a record, or the beginning, to the next record, or the end."""
    records = [place for place, mark in enumerate(held) if mark.kind == "train"]
    if not records:
        return
    usual = _usual(held, records)
    for before, record, usual_ns in zip([0, *records], records, usual.tolist(), strict=False):
        yield from _gap(held[before : record + 1], usual_ns)
    for left, right in pairwise(held[records[-1] :]):
        yield _rest(left, right, None)


def _usual(held: Sequence[LogMark], records: Sequence[int]) -> Numbers:
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


def _gap(inner: Sequence[LogMark], usual_ns: float) -> Iterator[Span]:
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


def _first_ns(record: LogMark, usual_ns: float) -> int:
    """What an attempt's first record took; it says so itself, or is taken to be like those after it."""
    step_ns = usual_ns if record.dt_ns is None else record.dt_ns
    return 0 if np.isnan(step_ns) else round(record.steps * step_ns)


def _expected_ns(record: LogMark, usual_ns: float) -> float:
    """Of a record behind an evaluation. Some logs count that into its time, so the less is taken."""
    if record.steps == 1 and record.dt_ns is not None:
        return float(np.fmin(usual_ns, record.dt_ns))
    return record.steps * usual_ns


def _without_stall(record: LogMark, usual_ns: float, width: int) -> int:
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


def _rest(left: LogMark, right: LogMark, record: LogMark | None) -> Span:
    """What lies between two marks but for training; `record` is the next one."""
    if right.kind in BOUNDS:
        return Span("idle", left.time, right.time, left)
    if left.kind in BOUNDS or (record and record.first and _place(right) == _place(record)):
        return Span("start", left.time, right.time, record or right)
    if right.kind != "train":
        return Span(right.kind, left.time, right.time, right, text=right.text)
    kind = "idle" if left.kind == "train" else left.kind  # an evaluation may go on after its line
    return Span(kind, left.time, right.time, left, text=left.text)


def _place(mark: LogMark) -> tuple[str | None, int | None]:
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
