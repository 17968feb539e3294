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

import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from gputel.telemetry.clock import SECOND
from gputel.telemetry.machine import NO_MOMENT, CounterState

PRECISION = 0.2
SEVERAL = 5
"""Periods without a change after which nothing is moving."""
FEWEST_GAPS = 3
GAPS = 64
TRIM = 0.5
"""Gaps further from the median than this share of it are standstills and late reads."""
NEVER = 1 << 63
MS = 1_000_000
NVLINK_BYTES_S = 2e12
PCIE_BYTES_S = 128e9
"""More than any GPU's NVLinks, and any PCIe link, carry in a second."""
LANE_BYTES_S = {1: 0.25e9, 2: 0.5e9, 3: 1e9, 4: 2e9, 5: 4e9, 6: 8e9}
"""One lane of PCIe by generation, without its overhead."""


def link_bytes_s(generation: int | None, lanes: int | None) -> float:
    """Returns what a PCIe link carries at most; what no link exceeds if the driver does not say."""
    return LANE_BYTES_S.get(generation or 0, 0) * (lanes or 0) or PCIE_BYTES_S


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

    def restart(self) -> None:
        """Begin anew after a value that is missing."""
        self.start = self.changed = self.rate = None

    def stand_still(self) -> None:
        """Settle on 0; the moment at which it moves again is not the start of a rate."""
        self.start, self.rate = None, 0

    def move(self, before: int, value: int, at: int, within: int) -> None:
        """Take a change that was read at `at`, and came at most `within` nanoseconds earlier."""
        counts: int | None = value - before
        if self.narrow or value < before:
            counts = self._counts(value - before, before, at, within)
        if self.changed is not None:
            self._learn(at - self.changed)
        self.changed, self.changed_within = at, within
        if counts is None or self.start is None:
            self.rate = None
        else:
            self.total += counts
            span = at - self.start
            if span <= 0 or within > PRECISION * span or self.start_within > PRECISION * span:
                return
            bytes_s = self.total * self.bytes_a_count * SECOND / span
            self.rate = int(bytes_s / 1024) if bytes_s <= self.most else None
        self.start, self.start_within, self.total = at, within, 0

    def _counts(self, moved: int, before: int, at: int, within: int) -> int | None:
        """Counts moved, with a wrap undone; None if it may have wrapped twice, or was reset."""
        if moved < 0 and not self.narrow:
            self.falls += before < 1 << 32
            self.narrow = self.falls > 1  # sent as 64 bits, but it wraps at 32
            return None
        since = NEVER if self.changed is None else at - self.changed + self.changed_within
        if self.period is not None:
            since = min(since, within + round(1.5 * self.period))
        self.wraps = self.wraps + 1 if since * self.most >= SECOND * self._round_bytes() else 0
        return None if self.wraps else moved % (1 << 32)

    def _round_bytes(self) -> int:
        """Bytes between two wraps at 32 bits."""
        return self.bytes_a_count << 32

    def _learn(self, gap: int) -> None:
        self.gaps.append(gap)
        self.unlearned += 1
        if self.unlearned >= max(FEWEST_GAPS, len(self.gaps) // 2):
            self.unlearned = 0
            middle = statistics.median_low(self.gaps)
            self.period = statistics.fmean(gap for gap in self.gaps if abs(gap - middle) <= TRIM * middle)

    def state(self) -> CounterState:
        """What a reader of its rates should know."""
        why, wraps_s = None, self._round_bytes() / self.most
        if self.wraps >= SEVERAL:
            why = f"its counter of 32 bits may wrap every {1000 * wraps_s:.0f} ms"
            if self.changed_within:
                why += f", and it is read every {self.changed_within / MS:.0f} ms"
        return CounterState(SECOND / self.period if self.period else None, why)


class Rates:
    """Replaces counters in a row by their rates in KiB per second; None where a rate is unknown."""

    def __init__(self, counters: Sequence[Counter]) -> None:
        self._counters = counters
        places = [counter.place for counter in counters]
        self._pick: Callable[[Sequence[int | None]], Sequence[int | None]] = itemgetter(*places, places[0])
        self._places = list(enumerate(places))
        self._last: Sequence[int | None] = [None] * (len(counters) + 1)
        self._rates: list[int | None] = [None] * len(counters)
        self._until = [NEVER] * len(counters)
        self._soonest = NEVER
        self._read_at = 0

    def hold(self, now: int) -> bool:
        """Whether counters that had not changed when they were read at `now` keep their rates."""
        if now == NO_MOMENT:
            return True
        self._read_at = now if now < self._soonest else self._read_at
        return now < self._soonest

    def into(self, values: list[int | None], now: int) -> None:
        """Replace the counters, which were read at `now`; at NO_MOMENT they say nothing."""
        counts, rates = self._pick(values), self._rates
        if now != NO_MOMENT:
            if counts != self._last or now >= self._soonest:
                self._take(counts, now)
            self._read_at = now
        for n, place in self._places:
            values[place] = rates[n]

    def states(self) -> Mapping[str, CounterState]:
        """What is known of each counter, by reading."""
        return {counter.name: counter.state() for counter in self._counters}

    def _take(self, counts: Sequence[int | None], now: int) -> None:
        """Learn from the counters that have changed, or that have stood still until now."""
        last, until, within = self._last, self._until, now - self._read_at
        for n, counter in enumerate(self._counters):
            value, before = counts[n], last[n]
            if value == before and now < until[n]:
                continue
            until[n] = NEVER
            if value is None or before is None:
                counter.restart()
            elif value == before:
                counter.stand_still()
            else:
                counter.move(before, value, now, within)
                if counter.period is not None:
                    until[n] = now + int(SEVERAL * counter.period)
            self._rates[n] = counter.rate
        self._last, self._soonest = counts, min(until)
