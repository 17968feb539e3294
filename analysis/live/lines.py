"""Increments -> lines for pipes and files: each record, evaluation and event once, as soon as it is known.

A record is said when its line has been read. What a later line adds to it is said in a line of its own, after `+`,
so that every value is said once; in JSON the row is said again as a whole, with `"revised": true`. A bar's record
is said when it will not be drawn over any more.

Rows of one kind -> lines for people, or as JSON.

Alarms as lines, between the rows that plain.py says: `12:00:01 d16 alarm: loss spike at step 812: ...`.

An alarm stands in the events of a recorded run, whoever raised it. Ours comes back from there, and is said once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import document, text
from gputel.analysis.alarms.watch import Alarm
from gputel.analysis.logs.incremental import Increment
from gputel.telemetry.events import ALARM

if TYPE_CHECKING:
    from gputel.analysis.live.session import SessionUpdate
    from gputel.analysis.live.update import Update

Row = dict[str, Any]
Key = tuple[str, int, object]

OWN = {"train": "step", "eval": "name", "event": "kind"}  # what tells rows of one line apart


@dataclass
class Printed:
    """What was printed of one log, as far as it may yet be changed or come again."""

    rows: dict[Key, Row] = field(default_factory=dict)
    _lines: set[tuple[str, int]] = field(default_factory=set)  # of all of these, while it is not settled

    def new(self, increment: Increment, *, settled: bool) -> Iterator[Rows]:
        """What is to be said now. Until its format is settled all of a log may come again."""
        tables = (
            ("train", increment.records, increment.open_records),
            ("eval", increment.evals, increment.open_evals),
            ("event", increment.events, increment.open_events),
        )
        known = {(kind, line) for kind, line, _ in self.rows} if settled else self._lines
        kept: dict[Key, Row] = {}
        for kind, final, opened in tables:
            yield from self._unsaid(kind, final, known, None if settled else kept)
            if opened.height:
                yield from self._unsaid(kind, opened.filter(~_is_bar(kind, increment)), known, kept)
        if settled:
            self.rows, self._lines = kept, set()
        else:
            self.rows.update(kept)
            self._lines.update((kind, line) for kind, line, _ in kept)

    def _unsaid(
        self, kind: str, frame: pl.DataFrame, known: set[tuple[str, int]], kept: dict[Key, Row] | None
    ) -> Iterator[Rows]:
        """Rows of lines of which nothing was said, together; then what is new of others, one by one."""
        of_kind = {line for one, line in known if one == kind}
        before = frame["line"].is_in(list(of_kind)) if of_kind else pl.repeat(False, frame.height, eager=True)
        fresh = frame.filter(~before) if before.any() else frame
        if fresh.height:
            yield Rows(kind, fresh)
        if kept is not None:
            kept.update({_key(kind, row): row for row in fresh.iter_rows(named=True)})
        for at in before.arg_true().to_list():
            yield from self._changed(kind, frame[at : at + 1], kept)

    def _changed(self, kind: str, frame: pl.DataFrame, kept: dict[Key, Row] | None) -> Iterator[Rows]:
        row = frame.row(0, named=True)
        before = self.rows.get(_key(kind, row)) or self.rows.get((kind, row["line"], None))
        if kept is not None:
            kept[_key(kind, row)] = row
        if before is None:
            yield Rows(kind, frame)
        elif added := frozenset(name for name, value in row.items() if _differs(before.get(name), value)):
            yield Rows(kind, frame, added)


def _key(kind: str, row: Row) -> Key:
    return kind, row["line"], row[OWN[kind]]


class Printer:
    """Turns what is new into lines; keeps what it has printed, by run and stream."""

    def __init__(self, write: Writer) -> None:
        self.write = write
        self._printed: dict[tuple[str, str], Printed] = {}

    def lines(self, update: Update) -> list[str]:
        """Returns the lines to print. What an earlier follower has shown is only taken note of."""
        if update.increment is None:
            return [] if update.shown else [told(update.run, event, self.write) for event in update.happened]
        key = (update.source, update.stream)
        found: list[str] = []
        printed = self._printed.setdefault(key, Printed())
        if update.increment.afresh and self.write is rows_json and printed.rows:
            printed = self._printed[key] = Printed()
            found.append(json.dumps({"kind": "afresh", "run": update.run, "stream": update.stream}))
        is_settled = update.log is not None and update.log.is_settled
        sayings = list(printed.new(update.increment, settled=is_settled))
        return [] if update.shown else [*found, *in_order(update.run, update.stream, sayings, self.write)]


def in_order(run: str, stream: str, sayings: Iterable[Rows], write: Writer) -> Iterator[str]:
    """Rows of all kinds in the order of their lines."""
    numbers: list[int] = []
    texts: list[str] = []
    for saying in sayings:
        numbers += saying.rows["line"].to_list()
        texts += write(run, stream, saying)
    return (texts[at] for at in sorted(range(len(texts)), key=numbers.__getitem__) if texts[at])


def told(run: str, event: Mapping[str, Any], write: Writer) -> str:
    """What the recorder saw: an Xid, throttling, a lost GPU."""
    kind, words = event.get("kind"), event.get("text")
    if write is rows_json:
        rest = {name: value for name, value in event.items() if name != "kind"}
        return json.dumps({"kind": "event", "run": run, "event": kind, **rest}, ensure_ascii=False)
    return f"{str(event.get('time', ''))[:19].replace('T', ' ')} {run} {kind}: {words}".strip()


def _is_bar(kind: str, increment: Increment) -> pl.Expr:
    return pl.col("line").is_in(list(increment.bars)) if kind == "train" else pl.lit(False)


def _differs(before: Any, value: Any) -> bool:
    """NaN is what it was."""
    nan = isinstance(value, float) and isinstance(before, float) and math.isnan(value) and math.isnan(before)
    return value is not None and before != value and not nan


PLACES = ("phase", "attempt", "step", "total_steps", "time", "line", "rank")
WHERE = ("phase", "attempt", "step", "line", "time")  # what each row of JSON begins with, null or not
ALWAYS = {"eval": ("name", "value"), "event": ("event", "text", "rank")}  # the same among the rest
UNSAID = ("eval", "epoch")  # events that have rows of their own, or nothing to tell

ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@dataclass(frozen=True)
class Rows:
    """Rows of one kind to be said; `added` names what is new of them, None where all of it is."""

    kind: str
    rows: pl.DataFrame
    added: frozenset[str] | None = None


Writer = Callable[[str, str, Rows], list[str]]  # run, stream, rows


def rows_text(run: str, stream: str, saying: Rows) -> list[str]:
    """`12:00:01 d16 step 250/16704  loss 2.417931  mfu 50.77`; "" where there is nothing to be said."""
    frame, added = saying.rows, saying.added
    if added is not None and not added - set(PLACES):
        return [""] * frame.height
    name = f"{run}/{stream} " if stream else f"{run} "
    columns = [_clock(frame["time"]), [name] * frame.height]
    columns += [[f"rank {rank} " if rank else "" for rank in frame["rank"].to_list()], _steps(frame)]
    if saying.kind == "event":
        events = list(frame.select("kind", "text").iter_rows())
        columns.append([f"  {kind}: {words}" if words else f"  {kind}" for kind, words in events])
        lines = _joined(columns)
        return ["" if kind in UNSAID else line for (kind, _), line in zip(events, lines, strict=True)]
    if saying.kind == "eval":
        values = frame.select("name", "value").iter_rows()
        columns.append([f"  {name} " + ("" if value is None else number(value)) for name, value in values])
    else:
        columns += [["  +"] * frame.height] if added else []
        shown = [name for name in frame.columns if name not in PLACES and (added is None or name in added)]
        columns += [_values(frame[name]) for name in shown]
    return _joined(columns)


def rows_json(run: str, stream: str, saying: Rows) -> list[str]:
    """The same rows as those of `gputel parse --rows`, a line of JSON each."""
    frame, always = saying.rows, {*WHERE, *ALWAYS.get(saying.kind, ())}
    if saying.kind == "event":
        frame = frame.select(pl.col("kind").alias("event"), pl.exclude("kind"))
    head = {"kind": saying.kind, "run": run, **({"stream": stream} if stream else {}), **dict.fromkeys(WHERE)}
    end = {} if saying.added is None else {"revised": True}
    return [
        ENCODE(
            {
                **head,
                **{name: value for name, value in row.items() if value is not None or name in always},
                **end,
            }
        )
        for row in document.rows(frame)
    ]


def number(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _joined(columns: Sequence[Sequence[str]]) -> list[str]:
    return ["".join(row).rstrip() for row in zip(*columns, strict=True)]


def _clock(times: pl.Series) -> list[str]:
    if times.null_count() == len(times):
        return [""] * len(times)
    return times.dt.strftime("%Y-%m-%d %H:%M:%S ").fill_null("").to_list()


def _steps(frame: pl.DataFrame) -> list[str]:
    totals = frame["total_steps"].to_list() if "total_steps" in frame.columns else [None] * frame.height
    return [
        "" if step is None else f"step {step}" if total is None else f"step {step}/{total}"
        for step, total in zip(frame["step"].to_list(), totals, strict=True)
    ]


def _values(column: pl.Series) -> list[str]:
    """`  loss 2.417931`; nothing where nothing was measured."""
    before, values = f"  {column.name} ", column.to_list()
    if column.dtype == pl.Float64 and not column.null_count():
        return [f"{before}{value:.10g}" for value in values]
    return ["" if value is None else before + number(value) for value in values]


FACTS = ("rule", "what", "state", "key", "text", "step")


class LinePrinter:
    """Of one view, for as long as it lasts."""

    def __init__(self, write: Writer) -> None:
        self._printer = Printer(write)
        self._said: set[tuple[object, ...]] = set()

    def rows(self, update: Update) -> list[str]:
        """Everything that is new of a run, but alarms that were said when they were raised."""
        alarms = [event for event in update.happened if event.get("kind") == ALARM]
        if not alarms:
            return self._printer.lines(update)
        rest = [event for event in update.happened if event.get("kind") != ALARM]
        found = [] if update.shown else [_alarm(event) for event in alarms]
        run = update.run
        said = [self._line(run, alarm, time) for alarm, time in found if self._is_new(run, alarm)]
        return self._printer.lines(replace(update, happened=rest)) + said

    def alarms(self, turn: SessionUpdate) -> Iterator[str]:
        for notice in turn.notices:
            if self._is_new(notice.run, notice.alarm):
                at = notice.alarm.at_s
                time = None if at is None else text.moment(int(at * 1e9))
                yield self._line(notice.run, notice.alarm, time)

    def _is_new(self, run: str, alarm: Alarm) -> bool:
        key = (run, alarm.rule, alarm.key, alarm.state, alarm.step)
        new = key not in self._said
        self._said.add(key)
        return new

    def _line(self, run: str, alarm: Alarm, time: str | None) -> str:
        facts = asdict(alarm) if self._printer.write is rows_json else {"text": alarm.line}
        facts.pop("at_s", None)
        dated = {"time": time} if time else {}
        return told(run, {"kind": ALARM, **dated, **facts}, self._printer.write)


def _alarm(event: Mapping[str, Any]) -> tuple[Alarm, str | None]:
    """As Told wrote it."""
    facts: dict[str, Any] = {name: event.get(name) for name in FACTS}
    return Alarm(**facts, at_s=None), event.get("time")
