"""Events of a log that was read to its end: what lines said, and what its records show.

`happenings.py` does the same for a log that grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from gputel.analysis import columns
from gputel.analysis.parse.outcome import Event, Outcome
from gputel.analysis.parse.readable import DATED, TYPES, UTC

if TYPE_CHECKING:
    from gputel.analysis.parse.records import Assembler


def of(said: Outcome, held: Assembler, records: pl.DataFrame) -> list[Event]:
    """What lines said, and what rows show: evaluations, NaN losses, steps that begin again."""
    happened = [event for event in said.events if event.kind]
    happened += of_lines(held)
    happened += [Event("nan", line, "the loss is no finite number") for line in _not_finite(records)]
    happened += _restarts(happened, records)
    errors = [event for event in said.events if event.fatal]
    for i, event in enumerate(happened):
        if event.kind == "traceback":
            text = next((error.text for error in errors if error.line > event.line), "")
            happened[i] = Event("traceback", event.line, text, event.time, event.rank)
    return sorted(happened, key=lambda event: event.line)


def of_lines(held: Assembler) -> list[Event]:
    """Evaluations and epochs, which had lines of their own."""
    named = [("eval", line) for line in held.evaluations.lines]
    named += [("epoch", line) for line in held.epoch_lines]
    found = [Event(kind, line.number, "", line.time, line.rank) for kind, line in named]
    return found + [Event("eval", number, "") for number in held.evaluations.numbers]


def _not_finite(records: pl.DataFrame) -> list[int]:
    """Where a loss stops being a number; not every line on which it still is none."""
    if "loss" not in records.columns or np.isfinite(printed(records["loss"]).to_numpy()).all():
        return []
    bad = records.filter(pl.col("loss").is_not_null()).with_columns(bad=~pl.col("loss").is_finite())
    onset = bad.filter(pl.col("bad") & ~pl.col("bad").shift(1, fill_value=False))
    return onset["line"].to_list()


def _restarts(happened: list[Event], records: pl.DataFrame) -> list[Event]:
    """Steps that begin again, where no line has said why."""
    if not records.height or cast("int", records["attempt"].max()) <= 1:
        return []
    begun = records.group_by("phase", "attempt", maintain_order=True).agg(
        pl.col("line").first(), last=pl.col("line").last()
    )
    told = [event.line for event in happened if event.kind in ("resume", "restart")]
    found, before = [], 0
    for _, attempt, line, last in begun.iter_rows():
        if attempt > 1 and not any(before < said < line for said in told):
            found.append(Event("restart", line, "steps begin again"))
        before = last
    return found


def frame(happened: list[Event], steps: list[int | None], shift: int) -> pl.DataFrame:
    times = [e.time if e.time is None or e.time >= DATED else e.time + shift for e in happened]
    found: dict[str, list[Any]] = {
        "kind": [e.kind for e in happened],
        "line": [e.line for e in happened],
        "step": steps,
        "rank": [e.rank for e in happened],
        "text": [e.text for e in happened],
    }
    series = {name: pl.Series(name, values, dtype=TYPES[name]) for name, values in found.items()}
    series["time"] = pl.Series("time", times, dtype=pl.Int64).cast(UTC)
    return pl.DataFrame([series[column.name] for column in columns.EVENTS])


def steps_before(lines: list[int], records: pl.DataFrame) -> list[int | None]:
    """The last step that was printed on a line or before it."""
    known, steps = records["line"], records["step"]
    if steps.null_count():
        known, steps = known.filter(steps.is_not_null()), printed(steps)
    rows = np.searchsorted(known.to_numpy(), np.array(lines, dtype=np.int64), side="right") - 1
    return [int(steps[row]) if row >= 0 else None for row in rows.tolist()]


def printed(column: pl.Series) -> pl.Series:
    return column.drop_nulls() if column.null_count() else column
