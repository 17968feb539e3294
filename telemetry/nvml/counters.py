"""Byte counters of the driver -> rates, each between two changes of its counter.

A counter is refreshed less often than it is read, in its own rhythm: two reads in between say nothing. So a rate is
known from the second change on, holds until the next, and is 0 only when the counter has stood still for several
of the periods that were learned from its changes. After that its next change begins anew.

A change is seen only at a read, so its moment is uncertain by the time since the read before. A rate spans as many
changes as it needs to be right within `PRECISION`.

PCIe's counters wrap at 32 bits: at full speed fifteen times a second. A wrap is undone; where there may have been
two, the rate is None, and `state` says why.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gputel.telemetry.clock import SECOND
from gputel.telemetry.machine import NO_MOMENT, Bits, CounterState, Integers

PRECISION = 0.2
SEVERAL = 5
"""Periods without a change after which nothing is moving."""
FEWEST_GAPS = 3
GAPS = 64
TRIM = 0.5
"""Gaps further from the median than this share of it are standstills and late reads."""
NEVER = 1 << 63
NVLINK_BYTES_S = 2e12
PCIE_BYTES_S = 128e9
"""More than any GPU's NVLinks, and any PCIe link, carry in a second."""
LANE_BYTES_S = {1: 0.25e9, 2: 0.5e9, 3: 1e9, 4: 2e9, 5: 4e9, 6: 8e9}
"""One lane of PCIe by generation, without its overhead."""


def link_bytes_s(generation: int | None, lanes: int | None) -> float:
    """Returns what a PCIe link carries at most; what no link exceeds if the driver does not say."""
    return LANE_BYTES_S.get(generation or 0, 0) * (lanes or 0) or PCIE_BYTES_S


class HeldRate(NamedTuple):
    """A rate that holds up to the read before `end`; None if it is unknown."""

    end: int
    rate: int | None


@dataclass(slots=True)
class Counter:
    """One counter in a row of values, and what is known of its movement."""

    name: str
    place: int
    bytes_a_count: int
    narrow: bool
    """Whether it wraps at 32 bits."""
    most: float
    """Bytes per second that it never exceeds."""
    rate: int | None = None
    """KiB per second between the last two changes."""
    period: float | None = None
    """Nanoseconds between two refreshes, learned."""
    start: int | None = None
    """The read of the change from which the next rate counts, and its uncertainty."""
    start_within: int = 0
    total: int = 0
    changed: int | None = None
    """The read of the last change, and its uncertainty."""
    changed_within: int = 0
    falls: int = 0
    wraps: int = 0
    """How many changes in a row may have wrapped twice."""
    gaps: deque[int] = field(default_factory=lambda: deque(maxlen=GAPS))
    unlearned: int = 0
    last: int | None = None
    """The last count that was read, and when."""
    read_at: int = 0
    until: int = NEVER
    """When it has stood still for several periods, if it does not change before."""

    def take(self, counts: Iterable[tuple[int, int | None]], times: Sequence[int]) -> list[HeldRate]:
        """Take reads at `times`: the first count, and each that differs from the one before, with its place."""
        rates: list[HeldRate] = []
        for place, count in counts:
            if count != self.last:
                read_at = self._hold(rates, place, times)
                self._change(count, times[place], times[place] - read_at)
        self.read_at = self._hold(rates, len(times), times)
        return rates

    def _hold(self, rates: list[HeldRate], place: int, times: Sequence[int]) -> int:
        """Hold the rate up to a place, or until it has stood still for long; returns when the read before was."""
        done, read_at = rates[-1].end if rates else 0, times[place - 1] if place else self.read_at
        if read_at >= self.until and done < place:
            rates.append(HeldRate(bisect_left(times, self.until, done, place), self.rate))
            self.start, self.rate, self.until = None, 0, NEVER
        rates.append(HeldRate(place, self.rate))
        return read_at

    def _change(self, value: int | None, at: int, within: int) -> None:
        """Take a change that was read at `at`, and came at most `within` nanoseconds earlier."""
        before, self.last, self.until = self.last, value, NEVER
        if value is None or before is None:
            self.start = self.changed = self.rate = None
            return
        counts: int | None = value - before
        if self.narrow or value < before:
            counts = self._counts(value - before, before, at, within)
        if self.changed is not None:
            self._learn(at - self.changed)
        self.changed, self.changed_within = at, within
        if self.period is not None:
            self.until = at + int(SEVERAL * self.period)
        if counts is None or self.start is None:
            self.rate = None
        else:
            self.total += counts
            precise = PRECISION * (at - self.start)
            if precise <= 0 or within > precise or self.start_within > precise:
                return
            bytes_s = self.total * self.bytes_a_count * SECOND / (at - self.start)
            self.rate = int(bytes_s / 1024) if bytes_s <= self.most else None
        self.start, self.start_within, self.total = at, within, 0

    def _counts(self, moved: int, before: int, at: int, within: int) -> int | None:
        """Counts moved, with a wrap undone; None if it may have wrapped twice, or was reset."""
        if moved < 0 and not self.narrow:
            self.falls += before < 1 << 32
            self.narrow = self.falls > 1  # sent as 64 bits, but it wraps at 32
            return None
        since: float = NEVER if self.changed is None else at - self.changed + self.changed_within
        if self.period is not None and (longest := within + round(1.5 * self.period)) < since:
            since = longest
        self.wraps = self.wraps + 1 if since * self.most >= SECOND * (self.bytes_a_count << 32) else 0
        return None if self.wraps else moved % (1 << 32)

    def _learn(self, gap: int) -> None:
        self.gaps.append(gap)
        self.unlearned += 1
        if self.unlearned >= FEWEST_GAPS and self.unlearned >= len(self.gaps) // 2:
            self.unlearned = 0
            middle = sorted(self.gaps)[(len(self.gaps) - 1) // 2]
            near = [gap for gap in self.gaps if abs(gap - middle) <= TRIM * middle]
            self.period = math.fsum(near) / len(near)

    def state(self) -> CounterState:
        """What a reader of its rates should know."""
        why = None
        if self.wraps >= SEVERAL:
            wraps_ms = 1000 * (self.bytes_a_count << 32) / self.most
            more = "read it more often (--hz, --max-overhead)"
            why = f"its counter of 32 bits may wrap every {wraps_ms:.0f} ms, {more}"
        return CounterState(SECOND / self.period if self.period else None, why)


class Rates:
    """Replaces counters in rows of values by their rates in KiB per second; None where a rate is unknown."""

    def __init__(self, counters: Sequence[Counter]) -> None:
        self._counters = counters
        self._places = [counter.place for counter in counters]

    def into(self, values: list[int | None], now: int) -> None:
        """Replace the counters of one row, which were read at `now`; at NO_MOMENT they say nothing."""
        for counter in self._counters:
            if now == NO_MOMENT:
                values[counter.place] = counter.rate
            else:
                values[counter.place] = counter.take([(0, values[counter.place])], [now])[-1].rate

    def into_all(self, values: Integers, valid: Bits, times: Sequence[int]) -> None:
        """Replace the counters of many rows, read at `times`; a row of NO_MOMENT keeps the rate before it."""
        if not self._counters:
            return
        if NO_MOMENT not in times:
            self._into_timed(values, valid, times)
            return
        moments = np.array(times)
        timed = np.flatnonzero(moments != NO_MOMENT)
        before = [counter.rate for counter in self._counters]
        known, there = values[timed], valid[timed]
        if len(timed):
            self._into_timed(known, there, moments[timed].tolist())
        values[timed], valid[timed] = known, there
        latest = np.searchsorted(timed, np.arange(len(times)), "right").tolist()  # timed rows up to each row
        for counter, rate in zip(self._counters, before, strict=True):
            rates = [rate, *known[:, counter.place].tolist()]
            measured = [rate is not None, *there[:, counter.place].tolist()]
            values[:, counter.place] = [rates[place] or 0 for place in latest]
            valid[:, counter.place] = [measured[place] for place in latest]

    def _into_timed(self, values: Integers, valid: Bits, times: Sequence[int]) -> None:
        counts, there = values[:, self._places], valid[:, self._places]
        moved = np.ones(counts.shape, np.bool_)
        moved[1:] = (counts[1:] != counts[:-1]) | (there[1:] != there[:-1])
        seen: list[list[tuple[int, int | None]]] = [[] for _ in self._counters]
        places, numbers = np.nonzero(moved)
        columns = (places, numbers, counts[moved], there[moved])
        for place, number, count, known in zip(*(column.tolist() for column in columns), strict=True):
            seen[number].append((place, count if known else None))
        for counter, changes in zip(self._counters, seen, strict=True):
            rates = counter.take(changes, times)
            _fill(rates, values[:, counter.place], valid[:, counter.place])

    def states(self) -> Mapping[str, CounterState]:
        """What is known of each counter, by reading."""
        return {counter.name: counter.state() for counter in self._counters}


def _fill(rates: Sequence[HeldRate], values: Integers, valid: Bits) -> None:
    """Write each rate into the rows for which it holds."""
    begin = 0
    for end, rate in rates:
        values[begin:end], valid[begin:end] = rate or 0, rate is not None
        begin = end
