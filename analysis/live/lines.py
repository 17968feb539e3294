"""Prints updates as lines of text or JSON: each record, evaluation, event and alarm once, as soon as it is known.

Values that a later line adds to a record are printed in a line of their own, after `+`; in JSON the whole row is
printed again with `"revised": true`. The record of a progress bar is printed once it will not be redrawn. An alarm
of a recorded run comes back as an event of its events.jsonl and is not printed again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import document, text
from gputel.analysis.alarms.watch import Alarm
from gputel.analysis.logs.incremental import Increment
from gputel.telemetry.events import ALARM
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    from gputel.analysis.live.session import SessionUpdate
    from gputel.analysis.live.update import Update
    from gputel.analysis.live.view import StepPartsView

Row = dict[str, Any]
Key = tuple[str, int, object]

IDENTITY = {"train": "step", "eval": "name", "event": "kind"}  # column that identifies a row within its line
PLACES = ("phase", "attempt", "step", "total_steps", "time", "line", "rank", "origin")
WHERE = ("phase", "attempt", "step", "line", "time")  # first fields of every JSON row, null or not
ALWAYS = {"eval": ("name", "value"), "event": ("event", "text", "rank")}  # further fields that may be null
SKIPPED = ("eval", "epoch")  # events that have rows of their own, or nothing to print
ALARM_FACTS = ("rule", "what", "state", "key", "text", "step")

STEPS_EVERY = timedelta(minutes=1)

ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@dataclass(frozen=True)
class PrintedRows:
    """Rows of one kind to print; `added` names their new columns, None if all are new."""

    kind: str
    rows: pl.DataFrame
    added: frozenset[str] | None = None


Writer = Callable[[str, str, PrintedRows], list[str]]  # run, stream, rows


@dataclass
class Printed:
    """Rows of one log that were printed and may still change or come again."""

    rows: dict[Key, Row] = field(default_factory=dict)
    _lines: set[tuple[str, int]] = field(default_factory=set)  # their lines, until the format is settled

    def new(self, increment: Increment, *, settled: bool) -> Iterator[PrintedRows]:
        """Yields rows to print now. Until the format is settled, the whole log may be parsed again."""
        tables = (
            ("train", increment.records, increment.open_records),
            ("eval", increment.evals, increment.open_evals),
            ("event", increment.events, increment.open_events),
        )
        printed = {(kind, line) for kind, line, _ in self.rows} if settled else self._lines
        pending_rows: dict[Key, Row] = {}
        for kind, final, pending in tables:
            yield from self._unprinted(kind, final, printed, None if settled else pending_rows)
            if pending.height:
                yield from self._unprinted(
                    kind, pending.filter(~_is_bar(kind, increment)), printed, pending_rows
                )
        if settled:
            self.rows, self._lines = pending_rows, set()
        else:
            self.rows.update(pending_rows)
            self._lines.update((kind, line) for kind, line, _ in pending_rows)

    def _unprinted(
        self,
        kind: str,
        frame: pl.DataFrame,
        printed: set[tuple[str, int]],
        pending_rows: dict[Key, Row] | None,
    ) -> Iterator[PrintedRows]:
        """Yields rows of new lines together, then changed rows of printed lines one by one."""
        of_kind = {line for line_kind, line in printed if line_kind == kind}
        before = frame["line"].is_in(list(of_kind)) if of_kind else pl.repeat(False, frame.height, eager=True)
        fresh = frame.filter(~before) if before.any() else frame
        if fresh.height:
            yield PrintedRows(kind, fresh)
        if pending_rows is not None:
            pending_rows.update({_key(kind, row): row for row in fresh.iter_rows(named=True)})
        for i in before.arg_true().to_list():
            yield from self._changed(kind, frame[i : i + 1], pending_rows)

    def _changed(
        self, kind: str, frame: pl.DataFrame, pending_rows: dict[Key, Row] | None
    ) -> Iterator[PrintedRows]:
        row = frame.row(0, named=True)
        before = self.rows.get(_key(kind, row)) or self.rows.get((kind, row["line"], None))
        if pending_rows is not None:
            pending_rows[_key(kind, row)] = row
        if before is None:
            yield PrintedRows(kind, frame)
        elif added := frozenset(name for name, value in row.items() if _differs(before.get(name), value)):
            yield PrintedRows(kind, frame, added)


def _key(kind: str, row: Row) -> Key:
    return kind, row["line"], row[IDENTITY[kind]]


class Printer:
    """Turns updates into lines, and remembers by run and stream what it has printed."""

    def __init__(self, write: Writer) -> None:
        self.write = write
        self._printed: dict[tuple[str, str], Printed] = {}

    def lines(self, update: Update) -> list[str]:
        """Returns the lines to print; rows that an earlier follower has shown are only remembered."""
        if update.increment is None:
            events = [] if update.shown else update.recorder_events
            return [event_line(update.run, event, self.write) for event in events]
        key = (update.source, update.stream)
        head: list[str] = []
        printed = self._printed.setdefault(key, Printed())
        if update.increment.afresh and self.write is rows_json and printed.rows:
            printed = self._printed[key] = Printed()
            head.append(json.dumps({"kind": "afresh", "run": update.run, "stream": update.stream}))
        is_settled = update.log is not None and update.log.is_settled
        groups = list(printed.new(update.increment, settled=is_settled))
        return [] if update.shown else [*head, *in_order(update.run, update.stream, groups, self.write)]


def in_order(run: str, stream: str, groups: Iterable[PrintedRows], write: Writer) -> Iterator[str]:
    """Formats rows of all kinds, ordered by their lines."""
    numbers: list[int] = []
    texts: list[str] = []
    for group in groups:
        numbers += group.rows["line"].to_list()
        texts += write(run, stream, group)
    return (texts[i] for i in sorted(range(len(texts)), key=numbers.__getitem__) if texts[i])


def event_line(run: str, event: Mapping[str, Any], write: Writer) -> str:
    """Formats an event of the recorder, such as an Xid error, throttling or a lost GPU."""
    kind, words, run = event.get("kind"), mask(str(event.get("text") or "")), mask(run)
    if write is rows_json:
        rest = {name: value for name, value in event.items() if name != "kind"}
        rest = {**rest, "text": words} if "text" in rest else rest
        return json.dumps({"kind": "event", "run": run, "event": kind, **rest}, ensure_ascii=False)
    when = str(event.get("time", ""))[:19].replace("T", " ")
    return f"{when} {run} {text.event(str(kind))}: {words}".strip()


def step_parts_line(run: str, parts: StepPartsView, write: Writer) -> str:
    """Formats what a rank's steps consisted of, as hooks in the training saw them."""
    if write is rows_json:
        facts = {**vars(parts), "ended": text.moment(parts.ended)}
        return json.dumps({"kind": "step_parts", "run": mask(run), **facts}, ensure_ascii=False)
    whose = f" of {parts.whose}" if parts.whose else ""
    head = f"{text.to_the_second(parts.ended)} {mask(run)} step{whose}, mean of {parts.steps:,}: "
    return head + " · ".join([text.duration(parts.step_ms / 1000), *parts.parts])


def _is_bar(kind: str, increment: Increment) -> pl.Expr:
    return pl.col("line").is_in(list(increment.bars)) if kind == "train" else pl.lit(False)


def _differs(before: Any, value: Any) -> bool:
    """Whether a value is new or changed; NaN equals NaN."""
    nan = isinstance(value, float) and isinstance(before, float) and math.isnan(value) and math.isnan(before)
    return value is not None and before != value and not nan


def rows_text(run: str, stream: str, group: PrintedRows) -> list[str]:
    """Formats rows as `12:00:01 d16 step 250/16704  loss 2.417931  mfu 50.77`; "" for a row without news."""
    frame, added = group.rows, group.added
    if added is not None and not added - set(PLACES):
        return [""] * frame.height
    name = mask(f"{run}/{stream}" if stream else run) + " "
    columns = [_clock(frame["time"]), [name] * frame.height]
    columns += [[f"rank {rank} " if rank else "" for rank in frame["rank"].to_list()], _steps(frame)]
    if group.kind == "event":
        events = list(frame.select("kind", "text").iter_rows())
        named = [(text.event(kind), words) for kind, words in events]
        columns.append([f"  {name}: {mask(words)}" if words else f"  {name}" for name, words in named])
        lines = _joined(columns)
        return ["" if kind in SKIPPED else line for (kind, _), line in zip(events, lines, strict=True)]
    if group.kind == "eval":
        values = frame.select("name", "value").iter_rows()
        columns.append([f"  {name} " + ("" if value is None else number(value)) for name, value in values])
    else:
        columns += [["  +"] * frame.height] if added else []
        shown = [name for name in frame.columns if name not in PLACES and (added is None or name in added)]
        columns += [_values(frame[name]) for name in shown]
    return _joined(columns)


def rows_json(run: str, stream: str, group: PrintedRows) -> list[str]:
    """Formats rows as `gputel parse --rows` does, a line of JSON each."""
    frame, always = group.rows, {*WHERE, *ALWAYS.get(group.kind, ())}
    if group.kind == "event":
        frame = frame.select(pl.col("kind").alias("event"), pl.exclude("kind"))
    head = {"kind": group.kind, "run": run, **({"stream": stream} if stream else {}), **dict.fromkeys(WHERE)}
    end = {} if group.added is None else {"revised": True}
    return [
        ENCODE(
            {
                **head,
                **{
                    name: mask(value) if name == "text" and value else value
                    for name, value in row.items()
                    if value is not None or name in always or _is_nan(raw[name])
                },
                **end,
            }
        )
        for row, raw in zip(document.rows(frame), frame.iter_rows(named=True), strict=True)
    ]


def _is_nan(value: Any) -> bool:
    """Whether JSON shows a measured value as null, unlike a value that was not measured and is left out."""
    return isinstance(value, float) and not math.isfinite(value)


def number(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _joined(columns: Sequence[Sequence[str]]) -> list[str]:
    return ["".join(row).rstrip() for row in zip(*columns, strict=True)]


def _clock(times: pl.Series) -> list[str]:
    if times.null_count() == len(times):
        return [""] * len(times)
    return times.dt.strftime(f"{text.SECONDS} ").fill_null("").to_list()


def _steps(frame: pl.DataFrame) -> list[str]:
    totals = frame["total_steps"].to_list() if "total_steps" in frame.columns else [None] * frame.height
    return [
        "" if step is None else f"step {step}" if total is None else f"step {step}/{total}"
        for step, total in zip(frame["step"].to_list(), totals, strict=True)
    ]


def _values(column: pl.Series) -> list[str]:
    """Formats values as `  loss 2.417931`; "" for null."""
    before, values = f"  {column.name} ", column.to_list()
    if column.dtype == pl.Float64 and not column.null_count():
        return [f"{before}{value:.10g}" for value in values]
    return ["" if value is None else before + number(value) for value in values]


class LinePrinter:
    """Formats rows and alarms for one output, each alarm once."""

    def __init__(self, write: Writer) -> None:
        self._printer = Printer(write)
        self._printed: set[tuple[object, ...]] = set()
        self._steps_until: dict[tuple[str, str], datetime] = {}

    def rows(self, update: Update) -> list[str]:
        """Lines of everything new of a run, without alarms that were printed when they were raised."""
        if update.step_parts:
            return self._step_parts(update)
        alarms = [event for event in update.recorder_events if event.get("kind") == ALARM]
        if not alarms:
            return self._printer.lines(update)
        rest = [event for event in update.recorder_events if event.get("kind") != ALARM]
        new = [] if update.shown else [_alarm(event) for event in alarms]
        run = update.run
        lines = [self._line(run, alarm, time) for alarm, time in new if self._is_new(run, alarm)]
        return self._printer.lines(replace(update, recorder_events=rest)) + lines

    def alarms(self, turn: SessionUpdate) -> Iterator[str]:
        """Lines of the alarms raised in this turn."""
        for notice in turn.notices:
            if self._is_new(notice.run, notice.alarm):
                at_s = notice.alarm.at_s
                time = None if at_s is None else text.moment(int(at_s * 1e9))
                yield self._line(notice.run, notice.alarm, time)

    def _step_parts(self, update: Update) -> list[str]:
        """What the steps of the last minute consisted of, once a minute."""
        key, ended = (update.source, update.stream), update.step_parts[0].ended
        due = self._steps_until.setdefault(key, ended + STEPS_EVERY)
        if ended < due or not update.live:
            return []
        self._steps_until[key] = ended + STEPS_EVERY
        return [step_parts_line(update.run, parts, self._printer.write) for parts in update.step_parts]

    def _is_new(self, run: str, alarm: Alarm) -> bool:
        key = (run, alarm.rule, alarm.key, alarm.state, alarm.step)
        new = key not in self._printed
        self._printed.add(key)
        return new

    def _line(self, run: str, alarm: Alarm, time: str | None) -> str:
        facts = asdict(alarm) if self._printer.write is rows_json else {"text": alarm.line}
        facts.pop("at_s", None)
        dated = {"time": time} if time else {}
        return event_line(run, {"kind": ALARM, **dated, **facts}, self._printer.write)


def _alarm(event: Mapping[str, Any]) -> tuple[Alarm, str | None]:
    """Reads back an alarm that `AlarmLog` wrote, with its time."""
    facts: dict[str, Any] = {name: event.get(name) for name in ALARM_FACTS}
    return Alarm(**facts, at_s=None), event.get("time")
