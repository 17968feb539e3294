"""Ticks of one GPU x windows of time -> sums, means, peaks and counter energy: one value per window.

Each value holds until the next tick (sample-and-hold), but not across a gap in the sampling: time without samples
costs nothing. A window without measurements is NaN.

The energy counter is interpolated linearly between its refreshes; before the first and after the last one, it is
extrapolated with power. It counts from the first to the last sampled moment of a window, gaps between them
included; NaN if the driver reset it in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

GAP_POLLS = 10  # a silence longer than this many polls, and than a second, is a gap in the sampling
GAP_NS = 1_000_000_000
REGULAR = 3  # so many long silences in a row are a lower rate
LONGEST_READING_S = 4.0  # a reading is rarely repeated for longer
SOME = 50_000  # distances between samples: enough for a good median
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
        """Trims gaps from the ends of each window; a window of which nothing remains ends before it starts."""
        last = len(self.times) - 1
        current = np.searchsorted(self.times, starts, side="right") - 1
        covered = (current >= 0) & (starts < self.ends[current])
        follows = np.minimum(current + 1, last)
        begun = np.where(covered, starts, np.maximum(self.times[follows], starts))
        before = np.searchsorted(self.times, stops, side="left") - 1
        ended = np.where(before >= 0, np.minimum(self.ends[before], stops), stops)
        return begun, np.where(begun < self.times[0], begun - 1, ended)


@dataclass(frozen=True)
class Gaps:
    """`after[i]`: there is a gap between sample i and the next; a sample before a gap holds for `usual_ns`."""

    after: npt.NDArray[np.bool_]
    usual_ns: int


def gaps(times: Moments) -> Gaps:
    """Finds the gaps in the sampling of one GPU; `times` are sorted."""
    apart = np.diff(times)
    some = apart[:: max(1, len(apart) // SOME)]
    rising = some[some > 0]
    usual_ns = int(np.median(rising)) if len(rising) else 0
    return Gaps(_silent(apart, longest_silence_ns(usual_ns)), usual_ns)


def gaps_between(times: Moments, ticks: Numbers | Moments, width_ns: int) -> Gaps:
    """Finds the gaps between rows, each of which covers `width_ns` and the ticks in it, at least one.

    For a GPU polled every 2 s a missing second is no gap; for one polled every 10 ms it is.
    """
    if full(ticks) <= 1:
        return gaps(times)
    longest, apart = max(longest_silence_ns(width_ns / full(ticks)), width_ns), np.diff(times)
    return Gaps(_silent(apart, longest), width_ns)


def _silent(apart: Moments, longest_ns: float) -> npt.NDArray[np.bool_]:
    """Returns which silences are gaps. Long ones of similar length in a row are not: the rate was lowered there."""
    long = apart > longest_ns
    if len(apart) < REGULAR or not long.any():
        return long
    windows = np.lib.stride_tricks.sliding_window_view
    shortest = np.pad(windows(np.where(long, apart, 0), REGULAR).min(axis=1), REGULAR - 1)
    gaps: npt.NDArray[np.bool_] = long & (apart > GAP_POLLS * windows(shortest, REGULAR).max(axis=1))
    return gaps


def longest_silence_ns(poll_ns: float) -> float:
    """Returns the longest time between two samples that is not a gap."""
    return max(GAP_POLLS * poll_ns, GAP_NS)


def full(ticks: Numbers | Moments) -> float:
    """Returns the number of ticks in a row that was sampled throughout."""
    return max(float(np.quantile(ticks, 0.9, method="higher")), 1.0)


def until_next(times: Moments) -> SampleAndHold:
    """Holds each tick until the next one; before a gap and at the end, for one usual poll."""
    breaks = gaps(times)
    alone = times + breaks.usual_ns
    return SampleAndHold(times, np.append(np.where(breaks.after, alone[:-1], times[1:]), alone[-1:]))


class TimeWindows:
    """Windows [start, stop) over the ticks of one GPU, in any order."""

    def __init__(self, holds: SampleAndHold, starts: Moments, stops: Moments) -> None:
        times = holds.times
        self._holds, self._starts, self._stops = holds, starts, stops
        self._first = np.maximum(np.searchsorted(times, starts, side="right") - 1, 0)
        self._after = np.searchsorted(times, stops, side="left")
        self._first_ns = self._overlap(self._first)
        self._last_ns = np.where(self._after - 1 > self._first, self._overlap(self._after - 1), 0)

    def integral(self, values: Numbers) -> tuple[Numbers, Numbers]:
        """Returns value x seconds, and the seconds in which the value was measured (not NaN)."""
        known = ~np.isnan(values)
        if known.all():
            return self._summed(values), self._held_s
        return self._summed(np.where(known, values, 0.0)), self._summed(known.astype(np.float64))

    def mean(self, values: Numbers) -> Numbers:
        total, seconds = self.integral(values)
        return divided(total, seconds)

    def peak(self, values: Numbers) -> Numbers:
        """Returns the largest value in each window, including the one held when it began."""
        over = (self._first_ns == 0) & (self._holds.times[self._first] < self._starts)
        first = np.where(over, self._first + 1, self._first)
        highest = _reduced(np.maximum, np.append(values, np.nan), first, self._after, -np.inf)
        return np.where(np.isneginf(highest), np.nan, highest)

    def total(self, ticks: Numbers | npt.NDArray[np.bool_]) -> Numbers:
        """Adds up the values of the ticks in each window, however long they hold; of marks, their number."""
        first = np.searchsorted(self._holds.times, self._starts, side="left")
        return _reduced(np.add, np.append(ticks, 0).astype(np.float64), first, self._after, 0.0)

    def sampling_error(self, values: Numbers) -> Numbers:
        """Returns the standard error of the integral of a signal that may change faster than it was read.

        A slow change adds next to nothing. One of its full height adds that times how long a reading holds, as the
        level may have changed at any moment in between.
        """
        rises = np.diff(values, prepend=values[:1])
        return np.sqrt(self.total(np.nan_to_num(rises) ** 2 / 2 * (self._holds.widths / 1e9) ** 2))

    def mean_error(self, values: Numbers) -> Numbers:
        """Returns the standard error of the mean of readings, each of which is repeated until the next.

        Two readings in a row differ by the square root of two of their spread. A value that stays for
        longer was read again and again: it is a level, not a reading.
        """
        known, begun = ~np.isnan(values), changed(values)
        if not begun.any():
            return np.full(len(self._starts), np.nan)
        place = np.cumsum(begun) - 1
        held_s = np.bincount(place[known], self._holds.widths[known]) / 1e9
        rises = np.diff(values[begun], prepend=values[begun][:1])
        each = np.where(held_s < LONGEST_READING_S, rises**2 / 2, 0.0)
        total, seconds = self.integral(np.where(known, (each * held_s)[place], np.nan))
        return divided(np.sqrt(total), seconds)

    @cached_property
    def _held_s(self) -> Numbers:
        return self._summed(np.ones(len(self._holds.times)))

    def _overlap(self, place: Places) -> Moments:
        """Returns how long tick `place` holds within each window; 0 before the first tick."""
        place = np.clip(place, 0, len(self._holds.times) - 1)
        begun = np.maximum(self._holds.times[place], self._starts)
        ended = np.minimum(self._holds.ends[place], self._stops)
        overlap: Moments = np.maximum(ended - begun, 0)
        return overlap

    def _summed(self, values: Numbers) -> Numbers:
        """Sums value x width over each window; its first and last tick are cut at the edges.

        Each window is summed separately: differences of one cumulative sum would lose digits in short windows.
        """
        products = np.zeros(len(values) + 1)
        np.multiply(values, self._holds.widths, out=products[:-1])
        inner = _reduced(np.add, products, self._first + 1, self._after - 1, 0.0)
        last = np.clip(self._after - 1, 0, len(values) - 1)
        summed: Numbers = (inner + values[self._first] * self._first_ns + values[last] * self._last_ns) / 1e9
        return summed


def changed(values: Numbers) -> npt.NDArray[np.bool_]:
    """Marks the values that are not those before them, the first known one too."""
    new: npt.NDArray[np.bool_] = ~np.isnan(values) & (values != np.append(np.nan, values[:-1]))
    return new


def divided(above: Numbers, below: Numbers) -> Numbers:
    """Divides; NaN where the divisor is not positive."""
    nothing: Numbers = np.full(len(above), np.nan)
    return np.divide(above, below, out=nothing, where=below > 0)


def used(
    counter: Numbers, read_at: Moments, power: Numbers, holds: SampleAndHold, starts: Moments, stops: Moments
) -> Numbers:
    """Returns joules in each window by the energy counter of one GPU, read at `read_at`."""
    known = ~np.isnan(counter)
    times, values = (read_at, counter) if known.all() else (read_at[known], counter[known])
    grown = np.diff(values)
    changed = np.flatnonzero(grown) + 1
    if len(changed) == 0:
        return np.full(len(starts), np.nan)
    life = np.cumsum(grown < 0, dtype=np.int64)[changed - 1]  # number of resets so far
    starts, stops = holds.seen(starts, stops)
    refreshes = _Refreshes(times[changed], values[changed], life, power, holds)
    (before, born), (after, died) = refreshes.at(starts), refreshes.at(stops)
    return np.where((born == died) & (stops > starts), after - before, np.nan)


def _reduced(ufunc: Any, padded: Numbers, first: Places, after: Places, empty: float) -> Numbers:
    """Reduces over each [first, after). For an empty slice `reduceat` returns a neighbor, which becomes `empty`.

    `reduceat` needs every index within the array, so the array is padded by one value.
    """
    full = after > first
    pairs = np.empty(2 * len(first), dtype=np.intp)
    pairs[::2] = np.minimum(first, len(padded) - 1)
    pairs[1::2] = np.where(full, after, pairs[::2])
    if ufunc is np.maximum:
        ufunc = np.fmax  # ignores NaN
    reduced = ufunc.reduceat(padded, pairs)[::2] if len(first) else np.empty(0)
    return np.where(full & ~np.isnan(reduced), reduced, empty)


class _Refreshes:
    def __init__(
        self, at: Moments, counts: Numbers, life: Moments, power: Numbers, holds: SampleAndHold
    ) -> None:
        self._at, self._counts, self._life, self._power, self._holds = at, counts, life, power, holds

    def at(self, moments: Moments) -> tuple[Numbers, Moments]:
        """Returns the counter, NaN if unknown, and the number of resets before."""
        times, last = self._at, len(self._at) - 1
        place = np.clip(np.searchsorted(times, moments, side="right") - 1, 0, last)
        follows = np.minimum(place + 1, last)
        # nanoseconds since 1970 would be rounded as floats
        width = np.maximum(times[follows] - times[place], 1)
        share = np.clip((moments - times[place]) / width, 0.0, 1.0)
        counts = self._counts[place] + share * (self._counts[follows] - self._counts[place])
        early, late = np.minimum(moments, times[0]), np.maximum(moments, times[last])
        counts = counts - self._beyond(early, np.full_like(early, times[0]))
        counts = counts + self._beyond(np.full_like(late, times[last]), late)
        torn = (self._life[place] != self._life[follows]) & (moments > times[place])
        return np.where(torn, np.nan, counts), self._life[place]

    def _beyond(self, starts: Moments, stops: Moments) -> Numbers:
        """Integrates power over the stretches that are not empty."""
        used = np.zeros(len(starts))
        some = stops > starts
        if some.any():
            joules, seconds = self._holds.over(starts[some], stops[some]).integral(self._power)
            used[some] = np.where(seconds > 0, joules, np.nan)
        return used
