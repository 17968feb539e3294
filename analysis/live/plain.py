"""Increments -> lines for pipes and files: each record, evaluation and event once, as soon as it is known.

A record is said when its line has been read. What a later line adds to it is said in a line of its own, after `+`,
so that every value is said once; in JSON the row is said again as a whole, with `"revised": true`. A bar's record
is said when it will not be drawn over any more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.parse.increments import Increment

if TYPE_CHECKING:
    from gputel.analysis.live.runs import News

Row = dict[str, Any]
Key = tuple[str, int, object]
Writer = Callable[[str, str, "Saying"], list[str]]  # run, stream, rows

PLACES = ("phase", "attempt", "step", "total_steps", "time", "line", "rank", "undated")
UNSAID = ("eval", "epoch")  # events that have rows of their own, or nothing to tell
OWN = {"train": "step", "eval": "name", "event": "kind"}  # what tells rows of one line apart
ALWAYS = {"eval": ("name", "value"), "event": ("event", "text", "rank")}  # null or not


@dataclass(frozen=True)
class Saying:
    """Rows of one kind to be said; `added` names what is new of them, None where all of it is."""

    kind: str
    rows: pl.DataFrame
    added: frozenset[str] | None = None


@dataclass
class Said:
    """What was said of one log, as far as it may yet be changed or come again."""

    rows: dict[Key, Row] = field(default_factory=dict)
    _lines: set[tuple[str, int]] = field(default_factory=set)  # of all of these, while it is not settled

    def new(self, increment: Increment, *, settled: bool) -> Iterator[Saying]:
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
    ) -> Iterator[Saying]:
        """Rows of lines of which nothing was said, together; then what is new of others, one by one."""
        before = [(kind, line) in known for line in frame["line"].to_list()]
        fresh = frame.filter(~pl.Series(before, dtype=pl.Boolean)) if any(before) else frame
        if fresh.height:
            yield Saying(kind, fresh)
        if kept is not None:
            kept.update({_key(kind, row): row for row in fresh.iter_rows(named=True)})
        for at in (at for at, said in enumerate(before) if said):
            yield from self._changed(kind, frame[at : at + 1], kept)

    def _changed(self, kind: str, frame: pl.DataFrame, kept: dict[Key, Row] | None) -> Iterator[Saying]:
        row = frame.row(0, named=True)
        before = self.rows.get(_key(kind, row)) or self.rows.get((kind, row["line"], None))
        if kept is not None:
            kept[_key(kind, row)] = row
        if before is None:
            yield Saying(kind, frame)
        elif added := frozenset(name for name, value in row.items() if _differs(before.get(name), value)):
            yield Saying(kind, frame, added)


def _key(kind: str, row: Row) -> Key:
    return kind, row["line"], row[OWN[kind]]


def text(run: str, stream: str, saying: Saying) -> list[str]:
    """`12:00:01 d16 step 250/16704  loss 2.417931  mfu 50.77`; "" where there is nothing to be said."""
    frame, added = saying.rows, saying.added
    if added is not None and not added - set(PLACES):
        return [""] * frame.height
    columns = [_clock(frame), [f"{run}/{stream} " if stream else f"{run} "] * frame.height, _rank(frame)]
    if saying.kind == "event":
        said = frame.select("kind", "text").iter_rows()
        columns += [_step(frame), [f"  {kind}: {words}" if words else f"  {kind}" for kind, words in said]]
    elif saying.kind == "eval":
        measured = frame.select("name", "value").iter_rows()
        columns += [_step(frame), [f"  {name} {_number(value)}" for name, value in measured]]
    else:
        names = [name for name in frame.columns if name not in PLACES and (added is None or name in added)]
        columns += [_step(frame), *([["  +"] * frame.height] if added else [])]
        columns += [_values(name, frame[name]) for name in names]
    silent = frame["kind"].is_in(UNSAID).to_list() if saying.kind == "event" else [False] * frame.height
    return [
        "" if unsaid else "".join(cells).rstrip() for unsaid, *cells in zip(silent, *columns, strict=True)
    ]


def as_json(run: str, stream: str, saying: Saying) -> list[str]:
    """The same rows as those of `gputel parse --rows`."""
    where = {"stream": stream} if stream else {}
    revised = {"revised": True} if saying.added is not None else {}
    return [
        json.dumps(
            {"kind": saying.kind, "run": run, **where, **_plain(saying.kind, row), **revised},
            ensure_ascii=False,
        )
        for row in saying.rows.iter_rows(named=True)
    ]


def lines(news: News, write: Writer) -> list[str]:
    """What is to be said of them; of what was shown before it is only noted that it was."""
    if news.increment is None:
        return [] if news.again else [told(news.run.name, event, write) for event in news.happened]
    stream = news.run.streams[news.stream]
    found: list[str] = []
    if news.increment.afresh and write is as_json and stream.said.rows:
        stream.said = Said()
        found.append(json.dumps({"kind": "afresh", "run": news.run.name, "stream": news.stream}))
    sayings = list(stream.said.new(news.increment, settled=stream.increments.is_settled))
    if news.again:
        return []
    return [*found, *in_order(news.run.name, news.stream, sayings, write)]


def in_order(run: str, stream: str, sayings: Iterable[Saying], write: Writer) -> Iterator[str]:
    """Rows of all kinds in the order of their lines."""
    numbered = [(saying.rows["line"].to_list(), write(run, stream, saying)) for saying in sayings]
    found = [pair for lines, texts in numbered for pair in zip(lines, texts, strict=True)]
    return (text for _, text in sorted(found, key=lambda pair: pair[0]) if text)


def told(run: str, event: Mapping[str, Any], write: Writer) -> str:
    """What the recorder saw: an Xid, throttling, a lost GPU."""
    kind, words = event.get("kind"), event.get("text")
    if write is as_json:
        rest = {name: value for name, value in event.items() if name != "kind"}
        return json.dumps({"kind": "event", "run": run, "event": kind, **rest}, ensure_ascii=False)
    return f"{str(event.get('time', ''))[:19].replace('T', ' ')} {run} {kind}: {words}".strip()


def _is_bar(kind: str, increment: Increment) -> pl.Expr:
    return pl.col("line").is_in(list(increment.bars)) if kind == "train" else pl.lit(False)


def _clock(frame: pl.DataFrame) -> list[str]:
    if frame["time"].null_count() == frame.height:
        return [""] * frame.height
    return [f"{time:%Y-%m-%d %H:%M:%S} " if time else "" for time in frame["time"].to_list()]


def _rank(frame: pl.DataFrame) -> list[str]:
    return [f"rank {rank} " if rank else "" for rank in frame["rank"].to_list()]


def _step(frame: pl.DataFrame) -> list[str]:
    steps = frame["step"].to_list()
    if "total_steps" not in frame.columns:
        return [f"step {step}" if step is not None else "" for step in steps]
    return [
        "" if step is None else f"step {step}" if total is None else f"step {step}/{total}"
        for step, total in zip(steps, frame["total_steps"].to_list(), strict=True)
    ]


def _values(name: str, column: pl.Series) -> list[str]:
    return ["" if value is None else f"  {name} {_number(value)}" for value in column.to_list()]


def _number(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _differs(before: Any, value: Any) -> bool:
    """NaN is what it was."""
    nan = isinstance(value, float) and isinstance(before, float) and math.isnan(value) and math.isnan(before)
    return value is not None and before != value and not nan


def _plain(kind: str, row: Row) -> Row:
    """JSON has no NaN and no moments."""
    where = {name: row.get(name) for name in ("phase", "attempt", "step", "line", "time")}
    rest = {name: value for name, value in row.items() if name not in (*where, "undated")}
    if kind == "event":
        rest = {"event": rest.pop("kind"), **rest}
    always = ALWAYS.get(kind, ())
    rest = {name: value for name, value in rest.items() if value is not None or name in always}
    return {name: _value(value) for name, value in {**where, **rest}.items()}


def _value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
