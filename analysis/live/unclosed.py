"""Rows that a next line may still change: judged where no next line comes, and not again when one does.

An alarm would else wait for the line after the last one, and that of a log which ends with NaN for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gputel.analysis.alarms import replay
from gputel.analysis.alarms.moments import Evaluation, Happened, Moment, Record
from gputel.analysis.alarms.replay import Placed, When

if TYPE_CHECKING:
    from gputel.analysis.parse.increments import Increment

QUIET_S = 5.0  # after which nobody waits for a next line
BAR_S = 60.0  # nor for a bar to be drawn again
Key = tuple[int, int, object]


class Unclosed:
    """Of one log: increments go in, with what tells the time and the rank of rows; each moment comes out once."""

    def __init__(self) -> None:
        self._judged: dict[Key, Moment] = {}
        self._left: tuple[Increment, When, str | None] | None = None
        self._since, self._due = 0.0, QUIET_S

    def take(self, increment: Increment, when: When, rank: str | None, now: float) -> Iterator[Moment]:
        """What has come to its end; the rest is left from now on."""
        self._left, self._since, self._due = (increment, when, rank), now, QUIET_S
        rows = replay.placed(increment.records, increment.evals, increment.events, when, rank)
        for row in rows:
            if moment := _news(row, self._judged.pop(_key(row), None)):
                yield moment

    def look(self, now: float) -> Iterator[Moment]:
        """What was left for so long that it is judged as it stands."""
        quiet = now - self._since
        if self._left is None or quiet < self._due:
            return
        self._due = BAR_S if quiet < BAR_S else math.inf
        before, self._judged = self._judged, {}
        for row in self._rows(*self._left, bars=quiet >= BAR_S):
            self._judged[_key(row)] = row[2]
            if moment := _news(row, before.get(_key(row))):
                yield moment

    def _rows(self, left: Increment, when: When, rank: str | None, *, bars: bool) -> Iterable[Placed]:
        rows = replay.placed(left.open_records, left.open_evals, left.open_events, when, rank)
        return rows if bars else (row for row in rows if row[0] not in left.bars)


def _key(row: Placed) -> Key:
    """What tells rows of one line apart."""
    line, order, moment = row
    match moment:
        case Evaluation(name=name):
            return line, order, name
        case Happened(kind=kind):
            return line, order, kind
    return line, order, None


def _news(row: Placed, judged: Moment | None) -> Moment | None:
    """What was not judged of it: of a record the values that are new, or other than they were."""
    match row[2], judged:
        case Record() as moment, Record(values=before):
            added = {
                name: value for name, value in moment.values.items() if not _same(before.get(name), value)
            }
            return replace(moment, values=added, at_s=judged.at_s) if added else None
        case Evaluation(value=value), Evaluation(value=before) if _same(before, value):
            return None
        case Happened(text=text), Happened(text=before) if before == text:
            return None
    return row[2]


def _same(before: float | None, value: float) -> bool:
    return before == value or (before is not None and math.isnan(before) and math.isnan(value))
