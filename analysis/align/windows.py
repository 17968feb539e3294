"""Readings as step functions: each value holds until the next tick; windows of time are summed and searched by it.

In go the ticks of one GPU and the edges of many windows, out come arrays with a value per window, NaN where nothing
was measured in it. A hold ends at a gap in the sampling, so a GPU that was lost, or a recorder that was, uses no
energy that nobody saw.

The driver's energy counter at any moment: between two of its refreshes it is taken to rise evenly.

Before the first refresh that was seen and after the last one, power says how it went on. A window counts from the
first to the last moment of it that was sampled, holes between them included; where the counter began anew, NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

GAP_POLLS = 10  # a silence longer than so many polls, and than a second, is a gap in the sampling
GAP_NS = 1_000_000_000
SOME = 50_000  # distances between samples, by which the usual one is known well enough
Numbers: TypeAlias = npt.NDArray[np.float64]
Moments: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True)
class SampleAndHold:
    """Tick i holds from `times[i]` to `ends[i]`; `times` rise."""

    times: Moments
    ends: Moments

    def over(self, starts: Moments, stops: Moments) -> TimeWindows:
        return TimeWindows(self, starts, stops)

    @cached_property
    def widths(self) -> Numbers:
        return (self.ends - self.times).astype(np.float64)

    def seen(self, starts: Moments, stops: Moments) -> tuple[Moments, Moments]:
        """Each window without the holes at its ends; one that nothing is left of ends before it starts."""
        last = len(self.times) - 1
        held = np.searchsorted(self.times, starts, side="right") - 1
        covered = (held >= 0) & (starts < self.ends[held])
        follows = np.minimum(held + 1, last)
        begun = np.where(covered, starts, np.maximum(self.times[follows], starts))
        before = np.searchsorted(self.times, stops, side="left") - 1
        ended = np.where(before >= 0, np.minimum(self.ends[before], stops), stops)
        return begun, np.where(begun < self.times[0], begun - 1, ended)


@dataclass(frozen=True)
class Gaps:
    """`after[i]`: nothing was sampled between sample i and the next one; a sample alone holds for `usual_ns`."""

    after: npt.NDArray[np.bool_]
    usual_ns: int


def gaps(times: Moments) -> Gaps:
    """The gaps in the sampling of one GPU, whose `times` rise."""
    apart = np.diff(times)
    some = apart[:: max(1, len(apart) // SOME)]
    rising = some[some > 0]
    usual_ns = int(np.median(rising)) if len(rising) else 0
    return Gaps(apart > longest_silence_ns(usual_ns), usual_ns)


def gaps_between(times: Moments, ticks: Numbers | Moments, width_ns: int) -> Gaps:
    """The same of rows, each of which stands for `width_ns` and the ticks in it, one at least.

    A GPU polled every 2 s has no gap where a second is missing, and one polled every 10 ms has.
    """
    if full(ticks) <= 1:
        return gaps(times)
    longest = max(longest_silence_ns(width_ns / full(ticks)), width_ns)
    return Gaps(np.diff(times) > longest, width_ns)


def longest_silence_ns(poll_ns: float) -> float:
    """How far apart two samples may lie before nothing is known of the time between them."""
    return max(GAP_POLLS * poll_ns, GAP_NS)


def full(ticks: Numbers | Moments) -> float:
    """How many ticks a row has that was sampled from its beginning to its end."""
    return max(float(np.quantile(ticks, 0.9, method="higher")), 1.0)


def until_next(times: Moments) -> SampleAndHold:
    """Ticks that hold until the next one, but before a gap, and at the end, no longer than a usual poll."""
    found = gaps(times)
    alone = times + found.usual_ns
    return SampleAndHold(times, np.append(np.where(found.after, alone[:-1], times[1:]), alone[-1:]))


class TimeWindows:
    """Many stretches of time over one GPU's ticks: [start, stop), in any order."""

    def __init__(self, holds: SampleAndHold, starts: Moments, stops: Moments) -> None:
        times = holds.times
        self._holds, self._starts, self._stops = holds, starts, stops
        self._first = np.maximum(np.searchsorted(times, starts, side="right") - 1, 0)
        self._after = np.searchsorted(times, stops, side="left")
        self._first_ns = self._overlap(self._first)
        self._last_ns = np.where(self._after - 1 > self._first, self._overlap(self._after - 1), 0)

    def integral(self, values: Numbers) -> tuple[Numbers, Numbers]:
        """Value times seconds, and the seconds in which it was measured; NaN values are none."""
        known = ~np.isnan(values)
        if known.all():
            return self._summed(values), self._held_s
        return self._summed(np.where(known, values, 0.0)), self._summed(known.astype(np.float64))

    def mean(self, values: Numbers) -> Numbers:
        total, seconds = self.integral(values)
        return divided(total, seconds)

    def peak(self, values: Numbers) -> Numbers:
        """The largest value that was polled in each window, or held when it began."""
        over = (self._first_ns == 0) & (self._holds.times[self._first] < self._starts)
        first = np.where(over, self._first + 1, self._first)
        found = _reduced(np.maximum, np.append(values, np.nan), first, self._after, -np.inf)
        return np.where(np.isneginf(found), np.nan, found)

    def count(self, ticks: npt.NDArray[np.bool_]) -> Numbers:
        """How many of these ticks lie in each window."""
        first = np.searchsorted(self._holds.times, self._starts, side="left")
        return _reduced(np.add, np.append(ticks, False).astype(np.float64), first, self._after, 0.0)

    @cached_property
    def _held_s(self) -> Numbers:
        return self._summed(np.ones(len(self._holds.times)))

    def _overlap(self, place: Places) -> Moments:
        """How long tick `place` holds within each window; 0 where the window lies before the first tick."""
        place = np.clip(place, 0, len(self._holds.times) - 1)
        begun = np.maximum(self._holds.times[place], self._starts)
        ended = np.minimum(self._holds.ends[place], self._stops)
        overlap: Moments = np.maximum(ended - begun, 0)
        return overlap

    def _summed(self, values: Numbers) -> Numbers:
        """The ticks in the middle hold as long as they do; the first and the last are cut at the edges.

        Each window is summed for itself: differences of one long cumulative sum would lose digits in short windows.
        """
        products = np.zeros(len(values) + 1)
        np.multiply(values, self._holds.widths, out=products[:-1])
        inner = _reduced(np.add, products, self._first + 1, self._after - 1, 0.0)
        last = np.clip(self._after - 1, 0, len(values) - 1)
        summed: Numbers = (inner + values[self._first] * self._first_ns + values[last] * self._last_ns) / 1e9
        return summed


def divided(above: Numbers, below: Numbers) -> Numbers:
    """NaN where there is nothing to divide by."""
    nothing: Numbers = np.full(len(above), np.nan)
    return np.divide(above, below, out=nothing, where=below > 0)


def used(
    counter: Numbers, read_at: Moments, power: Numbers, holds: SampleAndHold, starts: Moments, stops: Moments
) -> Numbers:
    """Joules in each window of one GPU, whose counter was read at these moments."""
    known = ~np.isnan(counter)
    times, values = (read_at, counter) if known.all() else (read_at[known], counter[known])
    grown = np.diff(values)
    changed = np.flatnonzero(grown) + 1
    if len(changed) == 0:
        return np.full(len(starts), np.nan)
    life = np.cumsum(grown < 0, dtype=np.int64)[changed - 1]  # counts how often the driver has begun anew
    starts, stops = holds.seen(starts, stops)
    refreshes = _Refreshes(times[changed], values[changed], life, power, holds)
    (before, born), (after, died) = refreshes.at(starts), refreshes.at(stops)
    return np.where((born == died) & (stops > starts), after - before, np.nan)


def _reduced(ufunc: Any, padded: Numbers, first: Places, after: Places, empty: float) -> Numbers:
    """Over [first, after) each. `reduceat` answers an empty stretch with the value beside it: that is put right.

    It wants every index within the array, so one value more stands at the end.
    """
    full = after > first
    pairs = np.empty(2 * len(first), dtype=np.intp)
    pairs[::2] = np.minimum(first, len(padded) - 1)
    pairs[1::2] = np.where(full, after, pairs[::2])
    if ufunc is np.maximum:
        ufunc = np.fmax  # passes over NaN
    found = ufunc.reduceat(padded, pairs)[::2] if len(first) else np.empty(0)
    return np.where(full & ~np.isnan(found), found, empty)


class _Refreshes:
    def __init__(
        self, at: Moments, counts: Numbers, life: Moments, power: Numbers, holds: SampleAndHold
    ) -> None:
        self._at, self._counts, self._life, self._power, self._holds = at, counts, life, power, holds

    def at(self, moments: Moments) -> tuple[Numbers, Moments]:
        """The counter, and in which of its lives; NaN where it cannot be told."""
        at, last = self._at, len(self._at) - 1
        place = np.clip(np.searchsorted(at, moments, side="right") - 1, 0, last)
        follows = np.minimum(place + 1, last)
        width = np.maximum(at[follows] - at[place], 1)  # nanoseconds since 1970 would be rounded as floats
        share = np.clip((moments - at[place]) / width, 0.0, 1.0)
        counts = self._counts[place] + share * (self._counts[follows] - self._counts[place])
        early, late = np.minimum(moments, at[0]), np.maximum(moments, at[last])
        counts = counts - self._beyond(early, np.full_like(early, at[0]))
        counts = counts + self._beyond(np.full_like(late, at[last]), late)
        torn = (self._life[place] != self._life[follows]) & (moments > at[place])
        return np.where(torn, np.nan, counts), self._life[place]

    def _beyond(self, starts: Moments, stops: Moments) -> Numbers:
        """By power, in the stretches that have a length; nothing is added where there is none."""
        used = np.zeros(len(starts))
        some = stops > starts
        if some.any():
            joules, seconds = self._holds.over(starts[some], stops[some]).integral(self._power)
            used[some] = np.where(seconds > 0, joules, np.nan)
        return used
