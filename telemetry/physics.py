"""What a simulated GPU does: a true load over time with an exact integral, and sensors that see it as real ones do.

A sensor holds what it measured at its last refresh: the mean over a window that may be shorter than the time
between refreshes. So it misses part of the truth, as an H100's does with its 25 ms every 100 ms; the energy counter
misses nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

SECOND = 1_000_000_000
MS = 1_000_000


class Waveform:
    """A load between 0 and 1 that is constant in each of some stretches (ns, level), and then begins again."""

    def __init__(self, stretches: Iterable[tuple[int, float]]) -> None:
        listed = list(stretches)
        self._levels = [level for _, level in listed]
        self._edges = [0, *accumulate(duration for duration, _ in listed)]
        self._sums = [0.0, *accumulate(duration * level for duration, level in listed)]
        self.period: int = self._edges[-1]

    def level(self, at: int) -> float:
        return self._levels[bisect_right(self._edges, at % self.period) - 1]

    def integral(self, until: int) -> float:
        """Of the load, from 0 on, in nanoseconds of full load."""
        rounds, rest = divmod(until, self.period)
        i = bisect_right(self._edges, rest) - 1
        return rounds * self._sums[-1] + self._sums[i] + (rest - self._edges[i]) * self._levels[i]

    def mean(self, start: int, end: int) -> float:
        return (self.integral(end) - self.integral(start)) / (end - start)


def training() -> Waveform:
    """Two minutes of a training: a start without load, steps with their dips, an evaluation, a checkpoint."""
    step = [(330 * MS, 1.0), (140 * MS, 0.86), (40 * MS, 0.52), (60 * MS, 0.72)]
    evaluation = [(180 * MS, 0.78), (20 * MS, 0.35)]
    return Waveform([(1200 * MS, 0.02), *step * 120, *evaluation * 30, *step * 70, (1600 * MS, 0.06)])


@dataclass(frozen=True)
class Sensor:
    """Measures over `window` every `refresh` nanoseconds; `phase` is when its first refresh is."""

    window: int
    refresh: int
    phase: int = 0

    def last(self, now: int) -> int:
        """The number of its last refresh."""
        return (now - self.phase) // self.refresh

    def span(self, number: int) -> tuple[int, int]:
        end = number * self.refresh + self.phase
        return end - self.window, end


class Temperature:
    """Follows power with a lag, as a block of metal on a cold plate does."""

    def __init__(self, ambient: float, kelvin_per_watt: float, lag_s: float) -> None:
        self.now, self._ambient, self._slope, self._lag = ambient, ambient, kelvin_per_watt, lag_s

    def warm(self, watts: float, seconds: float) -> float:
        goal = self._ambient + self._slope * watts
        self.now = goal + (self.now - goal) * math.exp(-seconds / self._lag)
        return self.now


def wobble(seed: int) -> float:
    """A sensor's noise: between -1 and 1, the same for the same seed on every machine."""
    x = (seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (x >> 11) / (1 << 52) - 1
