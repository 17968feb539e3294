"""Median and spread of the last so many values, kept sorted: a value costs microseconds, whatever came before."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque

NORMAL = 1.4826  # of a normal distribution: standard deviation over median absolute deviation

OF_MEDIAN = 1.2533  # the error of a median over that of a mean


class Window:
    def __init__(self, size: int) -> None:
        self._size = size
        self._values: deque[float] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._values)

    @property
    def full(self) -> bool:
        return len(self._values) == self._size

    def add(self, value: float) -> float | None:
        """The value that left, once the window is full."""
        gone = None
        values, ordered = self._values, self._sorted
        if len(values) == self._size:
            gone = values.popleft()
            del ordered[bisect_left(ordered, gone)]
        values.append(value)
        insort(ordered, value)
        return gone

    def clear(self) -> None:
        self._values.clear()
        self._sorted.clear()

    def median(self) -> float:
        return _middle(self._sorted)

    def deviation(self) -> float:
        """By the median of deviations, so that a spike inside the window does not hide the next."""
        middle = self.median()
        return NORMAL * _middle(sorted(abs(value - middle) for value in self._sorted))

    def error(self) -> float:
        """How far the median of so many values lies from the true one, about."""
        return OF_MEDIAN * self.deviation() / math.sqrt(len(self))


def _middle(ordered: list[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
