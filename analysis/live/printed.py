"""Rows of one kind -> lines for people, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from gputel.analysis import document

PLACES = ("phase", "attempt", "step", "total_steps", "time", "line", "rank")
WHERE = ("phase", "attempt", "step", "line", "time")  # what each row of JSON begins with, null or not
ALWAYS = {"eval": ("name", "value"), "event": ("event", "text", "rank")}  # the same among the rest
UNSAID = ("eval", "epoch")  # events that have rows of their own, or nothing to tell

ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


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


def as_json(run: str, stream: str, saying: Saying) -> list[str]:
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
