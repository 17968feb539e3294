"""Rows of one kind -> lines for people or as JSON, a block at a time.

All rows of a block go through one form, into which a column goes as it is where it has no hole; a column with holes
is put in words first. That costs a third of saying row by row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

import polars as pl

from gputel.analysis import document

PLACES = ("phase", "attempt", "step", "total_steps", "time", "line", "rank")
WHERE = ("phase", "attempt", "step", "line", "time")  # what each row of JSON begins with, null or not
ALWAYS = {"eval": ("name", "value"), "event": ("event", "text", "rank")}  # the same among the rest
UNSAID = ("eval", "epoch")  # events that have rows of their own, or nothing to tell


@dataclass(frozen=True)
class Saying:
    """Rows of one kind to be said; `added` names what is new of them, None where all of it is."""

    kind: str
    rows: pl.DataFrame
    added: frozenset[str] | None = None


Writer = Callable[[str, str, Saying], list[str]]  # run, stream, rows


def text(run: str, stream: str, saying: Saying) -> list[str]:
    """`12:00:01 d16 step 250/16704  loss 2.417931  mfu 50.77`; "" where there is nothing to be said."""
    frame, added = saying.rows, saying.added
    if added is not None and not added - set(PLACES):
        return [""] * frame.height
    form = _Form(frame.height)
    form.words(_clock(frame["time"]))
    form.same(f"{run}/{stream} " if stream else f"{run} ")
    form.words([f"rank {rank} " if rank else "" for rank in frame["rank"].to_list()])
    _step(form, frame)
    if saying.kind == "event":
        pairs = frame.select("kind", "text").iter_rows()
        form.words([f"  {kind}: {words}" if words else f"  {kind}" for kind, words in pairs])
        return [
            "" if kind in UNSAID else line.rstrip()
            for kind, line in zip(frame["kind"].to_list(), form.lines(), strict=True)
        ]
    if saying.kind == "eval":
        form.words([f"  {name} " for name in frame["name"].to_list()])
        form.numbers("", frame["value"])
    else:
        form.same("  +" if added else "")
        for name in frame.columns:
            if name not in PLACES and (added is None or name in added):
                form.numbers(f"  {name} ", frame[name])
    return [line.rstrip() for line in form.lines()]


def as_json(run: str, stream: str, saying: Saying) -> list[str]:
    """The same rows as those of `gputel parse --rows`."""
    frame, form = document.timed(saying.rows), _Form(saying.rows.height)
    form.same(f'{{"kind": "{saying.kind}", "run": {encode_basestring(run)}')
    form.same(f', "stream": {encode_basestring(stream)}' if stream else "")
    for name in WHERE:
        form.fields(
            name, frame[name] if name in frame.columns else pl.Series([None] * frame.height), always=True
        )
    if saying.kind == "event":
        frame = frame.select(pl.col("kind").alias("event"), pl.exclude("kind"))
    for name in frame.columns:
        if name not in WHERE:
            form.fields(name, frame[name], always=name in ALWAYS.get(saying.kind, ()))
    form.same("}" if saying.added is None else ', "revised": true}')
    return form.lines()


class _Form:
    """Of a line, from left to right, and what goes into it."""

    def __init__(self, height: int) -> None:
        self._height = height
        self._form = ""
        self._columns: list[list[Any]] = []

    def same(self, words: str) -> None:
        """In each line."""
        self._form += words.replace("%", "%%")

    def words(self, column: list[str]) -> None:
        if any(column):
            self._put("%s", column)

    def numbers(self, before: str, column: pl.Series) -> None:
        """Nothing where nothing was measured."""
        if column.null_count() == 0 and (verb := _verb(column, "%.10g")):
            self.same(before)
            self._put(verb, column.to_list())
        else:
            self.words(["" if value is None else before + number(value) for value in column.to_list()])

    def fields(self, name: str, column: pl.Series, *, always: bool) -> None:
        """A member of an object, null only where it is said in any case. JSON has no NaN."""
        before = f", {encode_basestring(name)}: "
        verb = _verb(column, "%r")
        if verb and column.null_count() == 0 and (verb == "%d" or column.is_finite().all()):
            self.same(before)
            self._put(verb, column.to_list())
        else:
            values = column.to_list()
            self.words([before + _value(value) if always or value is not None else "" for value in values])

    def lines(self) -> list[str]:
        if not self._columns:
            return [self._form % ()] * self._height
        return [self._form % row for row in zip(*self._columns, strict=True)]

    def _put(self, verb: str, column: list[Any]) -> None:
        self._form += verb
        self._columns.append(column)


def _verb(column: pl.Series, of_float: str) -> str | None:
    return "%d" if column.dtype.is_integer() else of_float if column.dtype == pl.Float64 else None


def _clock(times: pl.Series) -> list[str]:
    if times.null_count() == len(times):
        return []
    return times.dt.strftime("%Y-%m-%d %H:%M:%S ").fill_null("").to_list()


def _step(form: _Form, frame: pl.DataFrame) -> None:
    steps = frame["step"]
    totals = frame["total_steps"] if "total_steps" in frame.columns else pl.Series([None] * frame.height)
    if not steps.null_count() and not totals.null_count():
        form.numbers("step ", steps)
        form.numbers("/", totals)
        return
    form.words(
        [
            "" if step is None else f"step {step}" if total is None else f"step {step}/{total}"
            for step, total in zip(steps.to_list(), totals.to_list(), strict=True)
        ]
    )


def number(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _value(value: Any) -> str:
    """JSON has no NaN."""
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "null"
    return json.dumps(value, ensure_ascii=False)
