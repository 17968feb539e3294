"""A store that grows, followed as a log is: what other tools write of a run becomes rows as they write it.

A store is written in pieces, TensorBoard's every two minutes, so it may be silent for long while the run goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import stores
from gputel.analysis.live.resume import Positions
from gputel.analysis.live.runs import Followed
from gputel.analysis.live.update import Update
from gputel.analysis.logs.incremental import Increment, OpenFrames
from gputel.analysis.stores.assemble import make_log

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log
    from gputel.analysis.logs.outcome import LogEvent

SILENT_S = 300.0  # a store may always be silent for as long
GAPS = 3  # and for so many times the longest silence that it was seen to end
SHARE = 20  # of the time, at most one part in so many is spent on making rows
UNSURE = ("line",)  # what may still change in a row that was handed out


class FollowedStore(Followed):
    """A folder of event files, or another tool's file."""

    def __init__(
        self, path: Path, positions: Positions | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        name = path.resolve().name if path.is_dir() else path.stem
        super().__init__(name, str(path), positions, None)
        self._reader = stores.store_reader(path)
        self._rows = _HandedOut()
        self._now = now
        self._begun = self._is_pending = False
        self._due = float("-inf")
        self._grown, self._longest_gap = now(), 0.0
        self.paths = [path]

    @property
    def is_awaited(self) -> bool:
        """Whether the store has been silent for longer than the pauses between its writes explain."""
        allowed = max(SILENT_S, GAPS * self._longest_gap)
        return super().is_awaited and self.state.has_grown and self._now() - self._grown > allowed

    def read(self) -> Iterator[Update]:
        grown = self._advance()
        now = self._now()
        if not (grown or self._is_pending):
            return
        if grown and self._begun:
            self._longest_gap = max(self._longest_gap, now - self._grown)
        self._grown = now if grown else self._grown
        self._is_pending = now < self._due
        if self._is_pending:
            return
        log = make_log(self._reader.run())
        self._due = self._now() + SHARE * (self._now() - now)
        live, self._begun = self._begun, True
        increment = self._rows.difference(log)
        yield Update(
            self.name,
            self.source,
            increment=increment,
            log=_StoreSoFar(log),
            written=self._written(),
            live=live,
        )

    def _advance(self) -> bool:
        try:
            return self._reader.advance()
        except OSError:
            return False  # it vanished, or cannot be read for now

    def _written(self) -> float | None:
        times = [path.stat().st_mtime for path in self._reader.files if path.exists()]
        return max(times, default=None)


@dataclass(frozen=True)
class _StoreSoFar:
    """What a store says beside its rows."""

    log: Log
    is_settled: bool = True

    @property
    def config(self) -> dict[str, float | str]:
        return self.log.config

    @property
    def cause(self) -> LogEvent | None:
        return self.log.cause

    @property
    def began(self) -> int | None:
        return self.log.started

    @property
    def completed(self) -> bool:
        return self.log.status == "completed"


class _HandedOut:
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
