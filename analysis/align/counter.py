"""The driver's energy counter at any moment: between two of its refreshes it is taken to rise evenly.

Before the first refresh that was seen and after the last one, power says how it went on. A window counts from the
first to the last moment of it that was sampled, holes between them included; where the counter began anew, NaN.
"""

from __future__ import annotations

import numpy as np

from gputel.analysis.align.held import Holds, Moments, Numbers


def used(
    counter: Numbers, read_at: Moments, power: Numbers, holds: Holds, starts: Moments, stops: Moments
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


class _Refreshes:
    def __init__(self, at: Moments, counts: Numbers, life: Moments, power: Numbers, holds: Holds) -> None:
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
