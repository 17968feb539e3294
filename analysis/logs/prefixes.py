"""The text before a record -> its rank and its time.

A timestamp may lack the year, the date, or the zone. It is first read in `Stamps`' own count of years and days,
which goes on at midnight and New Year; where that count lies on the calendar is decided at the end, from the
latest moment at which the log can have been written. A timestamp without a zone is taken as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from functools import partial
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import patterns
from gputel.analysis.logs.date_order import DAY, Calendar, DateOrder, day_of

Ints = npt.NDArray[np.int64]
_Hours = TypeVar("_Hours", int, Ints)
Letters = npt.NDArray[np.uint8]  # row i holds the letter at position i of every text
_RANK = patterns.lazy_regex(
    rb"\[?(?:local_|global_)?rank[ :=]?\s*(?P<rank>\d+)\]?|\[default(?P<default>\d+)\]:"
    rb"|\[pod/(?P<pod>[\w.-]+)/|\([^()]*\bpid=(?P<pid>\d+)[^()]*\)|\[\d+,(?:mpirank:)?(?P<mpi>\d+)[^\]\s]*\]<std"
    rb"|\bDP=(?P<dp>\d+)\|PP=\d+\|TP=\d+"
    rb"|^\s*(?P<srun>\d+): |\[(?P<bare>\d+)\]:|^(?P<host>[A-Za-z][\w.-]*-?\d+): |\[(?P<node>[\w.-]+)\]\[rank",
    re.IGNORECASE,
)
_MONTHS = {m: i + 1 for i, m in enumerate(b"jan feb mar apr may jun jul aug sep oct nov dec".split())}
_ORDERED = (  # a date whose day and month may stand in either order, and its clock
    rb"(?<![\d./-])(?P<n1>\d\d?)(?P<sign>[/.-])(?P<n2>\d\d?)(?P=sign)(?P<y>\d{4})(?:[ T]|, ?)"
    rb"(?P<h>\d\d?):(?P<mi>\d\d)(?::(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?)?(?P<pm> ?[AaPp][Mm]\b)?"
    rb"(?P<z> ?(?:Z\b|UTC\b|[+-]\d\d:?\d\d\b))?"
    rb"(?P<python> - (?:INFO|WARNING|ERROR|DEBUG)\b| \[(?:INFO|WARNING)\|)?"
)
_CLOCK = (
    rb"(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?(?P<z> ?(?:Z\b|UTC\b|[+-]\d\d:?\d\d\b))?"
)
_DATED = [
    patterns.lazy_regex(form + _CLOCK)
    for form in (
        rb"(?P<y>\d{4})[-/.](?P<mo>\d\d)[-/.](?P<d>\d\d)(?:[T _]|, ?)",
        rb"(?P<d>\d\d)/(?P<name>[A-Z][a-z]{2})/(?P<y>\d{4})[ :]",
        rb"(?P<name>[A-Z][a-z]{2}) +(?P<d>\d\d?) (?P<y>\d{4}) ",
        rb"(?<!\d)(?P<d>\d\d?)-(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)-(?P<y>\d{4}|\d\d)[ T]",
        rb"\b[IWEFDC](?P<mo>\d\d)(?P<d>\d\d) ",
        rb"\b[IWEFDC](?P<y>\d{4})(?P<mo>\d\d)(?P<d>\d\d) ",
        rb"(?<![\d/-])(?P<y>1[5-9]|[23]\d)-(?P<mo>\d\d)-(?P<d>\d\d)(?:[T _]|, ?)",
        rb"(?<!\d)(?<!\d[-/])(?P<mo>\d\d)[-/](?P<d>\d\d)(?: |, ?)",  # `12/09/24` has the year at either end
        rb"\b(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(?P<d>\d\d?) ",
        rb"\[E(?P<mo>\d)(?P<d>\d\d) ",
        r"(?P<y>\d{4})(?:年|년 ?)(?P<mo>\d\d?)(?:月|월 ?)(?P<d>\d\d?)(?:日|일)[ ,]{0,2}".encode(),
    )
]
_DATED.insert(1, patterns.lazy_regex(_ORDERED))
_BARE = patterns.lazy_regex(  # the clocks of a bar, `[10:04:40<1:02:03, 4.5s/it]`, are no times
    rb"(?<![\d:/-])(?<!\d<)" + _CLOCK + rb"(?![\d:<])"
)
_SECONDS = patterns.lazy_regex(
    rb"^\s*\[?(?P<s>1[5-9]\d{8}|2\d{9})(?:\.(?P<f>\d{1,9})|(?P<ms>\d{3}))?\]?(?=[\s:|,]|$)"
)
_ANY = patterns.lazy_regex(rb"\d\d:\d\d:\d\d|[12]\d{9}|[/.-]\d{4}[ T,] ?\d\d?:\d\d")  # is in each of them
PREFIX = 80  # bytes of a line in which its timestamp stands
_NUMBERS = ("y", "mo", "d", "n1", "n2", "h", "mi", "s", "f")
TOGETHER = 64  # texts that are compared as one
STEP_BACK = DAY // 24  # how far a clock may be set back over midnight
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_YEARS = range(1970, 2262)  # that 64 bits of nanoseconds reach
_CENTURY, _THIS_CENTURY = 100, 2000  # a year may have two digits
_NO_YEAR = 1972  # a leap year, so that 29 February is a day


def rank(prefix: bytes) -> str | None:
    """The rank or host in the prefix of a line."""
    found = _RANK.search(prefix)
    if not found:
        return None
    return next(group for group in found.groups() if group is not None).decode(errors="replace")


def rank_place(prefix: bytes) -> tuple[int, int] | None:
    """Where the rank and the words around it stand in the prefix of a line."""
    found = _RANK.search(prefix)
    return found.span() if found else None


def differing(letters: Letters) -> npt.NDArray[np.bool_]:
    """Whether not all texts have the same letter, by its position.

    Many texts are compared as one long one: a loop over each by itself would take four times as long.
    """
    texts = letters.T
    rows, size = len(texts) // TOGETHER, len(letters)
    long = np.ascontiguousarray(texts[: rows * TOGETHER]).reshape(rows, TOGETHER * size)
    found = (long != long[:1]).any(axis=0).reshape(TOGETHER, size).any(axis=0)
    others = np.concatenate([texts[:TOGETHER], texts[rows * TOGETHER :]])
    differs: npt.NDArray[np.bool_] = found | (others != texts[:1]).any(axis=0)
    return differs


def rank_of_all(letters: Letters) -> str | Literal[False] | None:
    """The rank in all of these prefixes, which differ only in digits; False if the rank itself differs."""
    first, varying = letters[:, 0].copy(), differing(letters)
    found = rank(first.tobytes())
    for digit in b"37":
        first[varying] = digit
        if rank(first.tobytes()) != found:
            return False
    return found


class Stamps:
    """Reads timestamps in the order of lines as nanoseconds since 1970, once the `calendar` is known."""

    def __init__(self) -> None:
        self._kind: re.Pattern[bytes] | None = None
        self._last: int | None = None
        self._turns = 0  # days or years that have passed
        self._order = DateOrder()
        self._lacks = ""  # what the timestamps lack: "", "year" or "date"

    def read(self, prefix: bytes) -> int | None:
        if len(prefix) < 8:
            return None
        found = self._find(prefix)
        if not found:
            return None
        try:
            return self._moment(found)
        except ValueError:
            return None  # digits that are no date, such as a 13th month

    def read_all(self, letters: Letters) -> Ints | None:
        """The times that `read_together` gives; none for equal prefixes without a timestamp."""
        if (letters == letters[:, :1]).all() and not self._find(letters[:, 0].tobytes()):
            return np.empty(0, dtype=np.int64)
        return self.read_together(letters)

    def read_together(self, letters: Letters) -> Ints | None:
        """The times of prefixes of one length, one per column, that differ only in the digits of a timestamp.

        None if they differ in more, so that each must be read by itself. A number that all share is read once.
        """
        found = self._find(letters[:, 0].tobytes())
        if not found or "h" not in found.re.groupindex:
            return None
        spans = {name: found.span(name) for name in _NUMBERS if name in found.re.groupindex and found[name]}
        numbers = _numbers(letters, spans)
        if numbers is None:
            return None
        moments = self._moments(found, numbers)
        if moments is None or len(moments) == letters.shape[1]:
            return moments
        return moments.repeat(letters.shape[1])

    def _moments(self, found: re.Match[bytes], part: dict[str, Ints]) -> Ints | None:
        fraction = part["f"] * 10 ** (9 - len(found["f"])) if "f" in part else 0
        seconds = part.get("s", 0)
        clock = (_hours(part["h"], found) * 60 + part["mi"]) * 60 + seconds - _zone(found["z"])
        moments: Ints = clock * 1_000_000_000 + fraction
        turn, lacks = (0, "") if "y" in part else (366 * DAY, "year") if "d" in part else (DAY, "date")
        if "n1" in part:
            ordered = part["y"] * 10_000 + part["n1"] * 100 + part["n2"]
            return self._on_their_days(ordered, moments, found)
        if "d" in part:
            month = part["mo"] if "mo" in part else _MONTHS[found["name"].lower()]
            dates = part.get("y", _NO_YEAR) * 10_000 + month * 100 + part["d"]
            try:
                moments = moments + _day_by_day(dates, _day) * DAY
            except ValueError:
                return None
        if not turn:
            return moments
        moments = moments + self._turns * turn
        latest = np.maximum.accumulate(moments)
        before = np.concatenate([[moments[0] if self._last is None else self._last], latest[:-1]])
        before = np.maximum.accumulate(before)
        if (moments < before - turn // 2).any() or (moments > before + turn - STEP_BACK).any():
            return None
        self._lacks, self._last = lacks, max(int(latest[-1]), int(before[0]))
        return moments

    def _on_their_days(self, dates: Ints, clocks: Ints, found: re.Match[bytes]) -> Ints | None:
        """Adds the days of dates whose numbers are in either order; None if one is no date."""
        try:
            return clocks + _day_by_day(dates, partial(self._day, found))
        except ValueError:
            return None

    def _day(self, found: re.Match[bytes], year: int, first: int, second: int) -> int:
        """When the day begins, as `Calendar` takes it; notes the order of its numbers."""
        if year not in _YEARS:
            raise ValueError(year)
        known = True if found["sign"] == b"." else None
        day, ahead = day_of(year, first, second, known=known)
        self._order.see(year, first, second, known=known, american=found["python"] is not None)
        return (day.toordinal() - _EPOCH_DAY) * DAY + ahead

    def first(self, lines: Sequence[bytes]) -> int | None:
        """Returns the first timestamp of the first lines of a log, if it is of the kind that was read last."""
        before = Stamps()
        for line in lines:
            found = self._kind.search(line[:PREFIX]) if self._kind else None
            if found:
                with suppress(ValueError):
                    return before._moment(found)
        return None

    def calendar(self, latest: datetime) -> Calendar:
        """What the timestamps lack, of a log to which nothing was written after `latest`."""
        day_first = self._order.day_first(latest)
        return Calendar(self._shift(latest), bool(day_first), day_first is None)

    @property
    def lacks_date(self) -> bool:
        return self._lacks == "date"

    def _shift(self, latest: datetime) -> int:
        """The whole days or years that bring the last time read as close to `latest` as possible."""
        if self._last is None or not self._lacks:
            return 0
        latest += timedelta(seconds=1)  # file times are coarser than times in logs
        end = int(latest.timestamp()) * 1_000_000_000
        if self._lacks == "date":
            return (end - self._last) // DAY * DAY
        last = datetime.fromtimestamp(self._last // 1_000_000_000, timezone.utc)
        year = latest.year
        while year > _NO_YEAR and _at(year, last) > latest:
            year -= 1
        return int(_at(year, last).timestamp() - last.timestamp()) * 1_000_000_000

    def _find(self, prefix: bytes) -> re.Match[bytes] | None:
        """Finds a timestamp; tries the kind that matched last first, as most lines of a log have the same."""
        if self._kind and (found := self._kind.search(prefix)):
            return found
        if not _ANY.search(prefix):
            return None
        for kind in (*_DATED, _SECONDS, _BARE):
            if found := kind.search(prefix):
                self._kind = kind
                return found
        return None

    def _moment(self, found: re.Match[bytes]) -> int:
        part = found.groupdict()
        fraction = int((part["f"] or b"").ljust(9, b"0"))
        if "h" not in part:
            return int(part["s"]) * 1_000_000_000 + (int(part["ms"]) * 1_000_000 if part["ms"] else fraction)
        hours = _hours(int(part["h"]), found)
        clock = (hours * 60 + int(part["mi"])) * 60 + int(part["s"] or 0) - _zone(part["z"])
        if "n1" in part:
            day = self._day(found, int(part["y"]), int(part["n1"]), int(part["n2"]))
            return day + clock * 1_000_000_000 + fraction
        if "d" not in part:
            return self._turned(clock * 1_000_000_000 + fraction, DAY, "date")
        month = _MONTHS[part["name"].lower()] if part.get("name") else int(part["mo"])
        year = int(part.get("y") or _NO_YEAR)
        moment = (_day(year, month, int(part["d"])) * 86_400 + clock) * 1_000_000_000 + fraction
        return moment if part.get("y") else self._turned(moment, 366 * DAY, "year")

    def _turned(self, moment: int, turn: int, lacks: str) -> int:
        """Adds the days or years passed, one more where a time falls by over half of one.

        A clock that steps back over midnight seems to run on by nearly a whole one.
        """
        self._lacks = lacks
        moment += self._turns * turn
        if self._last is not None and moment < self._last - turn // 2:
            self._turns += 1
            moment += turn
        elif self._turns and self._last is not None and moment > self._last + turn - STEP_BACK:
            return moment - turn
        self._last = moment if self._last is None else max(moment, self._last)
        return moment


def _day(year: int, month: int, day: int) -> int:
    year += _THIS_CENTURY if year < _CENTURY else 0
    if year not in _YEARS:
        raise ValueError(year)
    return date(year, month, day).toordinal() - _EPOCH_DAY


def _hours(hours: _Hours, found: re.Match[bytes]) -> _Hours:
    """The hours of a day, which the clock may count twice from 12."""
    half = found["pm"] if "pm" in found.re.groupindex else None
    return hours if half is None else hours % 12 + 12 * (half.strip()[:1].lower() == b"p")


def _day_by_day(dates: Ints, day: Callable[[int, int, int], int]) -> Ints:
    """What `day` gives for the year, month and day of each date; it is asked where the date changes."""
    begins = np.flatnonzero(np.append(True, dates[1:] != dates[:-1]))
    turns = dates[begins].tolist()
    days = {each: day(each // 10_000, each // 100 % 100, each % 100) for each in turns}
    found = np.array([days[each] for each in turns], dtype=np.int64)
    return found.repeat(np.diff(begins, append=len(dates)))


def _numbers(letters: Letters, spans: dict[str, tuple[int, int]]) -> dict[str, Ints] | None:
    """The numbers at these places, a single one where all are equal; None if the texts differ in more."""
    varying = differing(letters)
    changing = {name for name, (start, end) in spans.items() if varying[start:end].any()}
    low = min((spans[name][0] for name in changing), default=0)
    high = max((spans[name][1] for name in changing), default=0)
    near = np.ascontiguousarray(letters[low:high].T).T  # fetches each text once
    numbers = {}
    for name, (start, end) in spans.items():
        digits = near[start - low : end - low] if name in changing else letters[start:end, :1]
        digits = digits - np.uint8(ord("0"))
        if (digits > 9).any():
            return None
        numbers[name] = _number(digits)
        varying[start:end] = False
    return None if varying.any() else numbers


def _number(digits: Letters) -> Ints:
    """Rows of digits as numbers."""
    found = np.zeros(digits.shape[1], dtype=np.int64)
    for row in digits:
        found *= 10
        found += row
    return found


def _at(year: int, moment: datetime) -> datetime:
    day = min(moment.day, 28) if moment.month == 2 else moment.day
    return moment.replace(year=year, day=day)


def _zone(text: bytes | None) -> int:
    word = (text or b"").strip()
    if word[:1] not in (b"+", b"-"):
        return 0
    digits = word[1:].replace(b":", b"")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return seconds if word[:1] == b"+" else -seconds
