"""Dates such as 03/04/2026: the month first, or the day?

A date with a number above 12 says it for the whole log. Otherwise it is the order in which dates fall less often
and are nearer to each other, then the one that is not after the log's last change. Until that is known such dates
are put `AHEAD` by 125 years, with the month first.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from itertools import pairwise
from typing import NamedTuple

DAY = 86_400_000_000_000
AHEAD = 46_000 * DAY  # 125 years
DATED = 10**18  # September 2001; earlier times lack their date and count from the log's own start
AMBIGUOUS = 4_900_000_000_000_000_000  # the year 2125; later moments are ahead
_YEARS = range(2000, 2100)
_MOST = 10_000  # changes of the date that are looked at
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class Calendar(NamedTuple):
    """What timestamps lack, as the end of the log shows it."""

    shift: int = 0  # added to times without a date or year
    day_first: bool = False
    ambiguous: bool = False  # whether nothing says which order it is, and it matters

    def moment(self, time: int) -> int:
        """A moment as `prefixes.Stamps` read it, as nanoseconds since 1970."""
        if time >= AMBIGUOUS:
            return self._plain(time)
        return time if time >= DATED else time + self.shift

    def _plain(self, ahead: int) -> int:
        days, clock = divmod(ahead - AHEAD, DAY)
        if not self.day_first:
            return ahead - AHEAD
        read = date.fromordinal(days + _EPOCH_DAY)
        return (date(read.year, read.day, read.month).toordinal() - _EPOCH_DAY) * DAY + clock


UNSHIFTED = Calendar()


class DateOrder:
    """Learns from the dates of a log, in the order of its lines, whether the day stands first."""

    def __init__(self) -> None:
        self._dates: list[tuple[int, int, int]] = []  # year, first and second number
        self._known: set[bool] = set()
        self._american = False

    def see(
        self, year: int, first: int, second: int, *, known: bool | None = None, american: bool = False
    ) -> None:
        """Takes a date; `known` says whether its form has the day first, `american` that it mostly has not."""
        self._american = self._american or american
        if known is not None or max(first, second) > 12:
            self._known.add(first > 12 if known is None else known)
        elif self._dates[-1:] != [(year, first, second)] and len(self._dates) < _MOST:
            self._dates.append((year, first, second))

    def day_first(self, latest: datetime) -> bool | None:
        """Whether the day stands first; None if that cannot be known, and matters."""
        if self._known or all(first == second for _, first, second in self._dates):
            return None if len(self._known) > 1 else self._known == {True}
        by_month = [date(year, first, second) for year, first, second in self._dates]
        by_day = [date(year, second, first) for year, first, second in self._dates]
        if _course(by_month) != _course(by_day):
            return _course(by_day) < _course(by_month)
        late = [max(dates) > latest.date() for dates in (by_month, by_day)]
        if late[0] != late[1]:
            return late[0]
        return False if self._american else None


def _course(dates: Iterable[date]) -> tuple[int, int]:
    """How often dates fall, and how many days they go in all."""
    gaps = [(after - before).days for before, after in pairwise(dates)]
    return sum(gap < 0 for gap in gaps), sum(map(abs, gaps))


def day_of(year: int, first: int, second: int, *, known: bool | None = None) -> tuple[date, int]:
    """The day that a date says, and what is added while it may be another."""
    day_first = first > 12 if known is None else known
    is_known = known is not None or max(first, second) > 12 or first == second or year not in _YEARS
    month, day = (second, first) if day_first else (first, second)
    return date(year, month, day), 0 if is_known else AHEAD
