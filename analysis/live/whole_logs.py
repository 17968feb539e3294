"""A log that is made anew whenever it has grown -> the rows that are new since the last time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.logs.incremental import Increment, OpenFrames

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log
    from gputel.analysis.logs.outcome import LogEvent
    from gputel.analysis.logs.patterns import Field

SHARE = 20  # of the time, at most one part in so many is spent on making rows
UNSURE = ("line",)  # what may still change in a row that was handed out


@dataclass(frozen=True)
class WholeLog:
    """Facts beside the rows of a log that is made anew."""

    log: Log
    caught: None = None  # `cause` names it
    is_settled: bool = True

    @property
    def config(self) -> dict[str, float | str]:
        return self.log.config

    @property
    def sources(self) -> dict[str, Field]:
        return self.log.sources

    @property
    def cause(self) -> LogEvent | None:
        return self.log.cause

    @property
    def began(self) -> int | None:
        return self.log.started

    @property
    def completed(self) -> bool:
        return self.log.status == "completed"


class HandedOut:
    """The rows that were handed out, which the next increment must not repeat."""

    def __init__(self) -> None:
        self._records: pl.DataFrame | None = None
        self._partials = 0
        self._evals: set[tuple[Any, ...]] = set()
        self._events: set[tuple[Any, ...]] = set()

    def difference(self, log: Log) -> Increment:
        """Returns the rows that are new. The last record is open: its other values may come with the next write."""
        done, opened = log.records[:-1], log.records[-1:]
        before = self._records
        count = before.height if before is not None else 0
        afresh = before is not None and not _is_prefix(before, done)
        if afresh:
            count = 0
            self._partials, self._evals, self._events = 0, set(), set()
        self._records = done
        partials = log.partials[self._partials :]
        self._partials = log.partials.height
        return Increment(
            done[count:],
            _new(log.evals, self._evals, "attempt", "step", "name"),
            partials,
            _new(log.events, self._events, "kind", "step", "text"),
            afresh,
            opened=OpenFrames(opened, log.evals[:0], log.events[:0]),
        )


def _new(rows: pl.DataFrame, seen: set[tuple[Any, ...]], *by: str) -> pl.DataFrame:
    """Returns the rows whose keys were not seen, and remembers them."""
    keys = rows.select(by).rows()
    fresh = pl.Series([key not in seen for key in keys], dtype=pl.Boolean)
    seen.update(keys)
    return rows.filter(fresh)


def _is_prefix(before: pl.DataFrame, rows: pl.DataFrame) -> bool:
    """Whether rows begin with those before; a column that came later must be empty in them."""
    if rows.height < before.height or not set(before.columns) <= set(rows.columns):
        return False
    first = rows[: before.height]
    later = [name for name in rows.columns if name not in before.columns]
    if any(first[name].null_count() < first.height for name in later):
        return False
    same = [name for name in before.columns if name not in UNSURE]
    return before.select(same).equals(first.select(same))
