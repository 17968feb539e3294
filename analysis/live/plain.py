"""Increments -> lines for pipes and files: each record, evaluation and event once, as soon as it is known.

A record is said when its line has been read. What a later line adds to it is said in a line of its own, after `+`,
so that every value is said once; in JSON the row is said again as a whole, with `"revised": true`. A bar's record
is said when it will not be drawn over any more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.live.printed import Saying, Writer, as_json
from gputel.analysis.parse.increments import Increment

if TYPE_CHECKING:
    from gputel.analysis.live.update import Update

Row = dict[str, Any]
Key = tuple[str, int, object]

OWN = {"train": "step", "eval": "name", "event": "kind"}  # what tells rows of one line apart


@dataclass
class Printed:
    """What was printed of one log, as far as it may yet be changed or come again."""

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
        of_kind = {line for one, line in known if one == kind}
        before = frame["line"].is_in(list(of_kind)) if of_kind else pl.repeat(False, frame.height, eager=True)
        fresh = frame.filter(~before) if before.any() else frame
        if fresh.height:
            yield Saying(kind, fresh)
        if kept is not None:
            kept.update({_key(kind, row): row for row in fresh.iter_rows(named=True)})
        for at in before.arg_true().to_list():
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
        if update.increment.afresh and self.write is as_json and printed.rows:
            printed = self._printed[key] = Printed()
            found.append(json.dumps({"kind": "afresh", "run": update.run, "stream": update.stream}))
        is_settled = update.log is not None and update.log.is_settled
        sayings = list(printed.new(update.increment, settled=is_settled))
        return [] if update.shown else [*found, *in_order(update.run, update.stream, sayings, self.write)]


def in_order(run: str, stream: str, sayings: Iterable[Saying], write: Writer) -> Iterator[str]:
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
    if write is as_json:
        rest = {name: value for name, value in event.items() if name != "kind"}
        return json.dumps({"kind": "event", "run": run, "event": kind, **rest}, ensure_ascii=False)
    return f"{str(event.get('time', ''))[:19].replace('T', ' ')} {run} {kind}: {words}".strip()


def _is_bar(kind: str, increment: Increment) -> pl.Expr:
    return pl.col("line").is_in(list(increment.bars)) if kind == "train" else pl.lit(False)


def _differs(before: Any, value: Any) -> bool:
    """NaN is what it was."""
    nan = isinstance(value, float) and isinstance(before, float) and math.isnan(value) and math.isnan(before)
    return value is not None and before != value and not nan
