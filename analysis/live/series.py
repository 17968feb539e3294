"""Keeps a growing curve in bounded memory without losing an extreme.

A point has the minimum, mean and maximum of its values. When there are too many points, neighbors are merged in
pairs, so that every point stands for 1, 2, 4, 8... values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

MOST = 2048


class Points(NamedTuple):
    """`step` is the step of a point's last value; the values are NaN if none of the point's was finite."""

    step: Numbers
    least: Numbers
    mean: Numbers
    largest: Numbers


class CurveHistory:
    """A curve of at most `most` points."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._width = 1  # values per point
        self._filled = 0  # values in the last point
        self._size = 0
        self._steps, self._least, self._sum, self._largest, self._count = (np.zeros(most) for _ in range(5))
        self.last: float | None = None
        self.last_step: float | None = None

    def __len__(self) -> int:
        return self._size

    def add(self, steps: Numbers, values: Numbers) -> None:
        """Adds values in the order of their steps; a value that is not finite becomes a gap."""
        while len(values):
            if self._size == self._most and self._filled == self._width:
                self._halve()
            taken = min(len(values), self._most * self._width - self._total)
            self._put(steps[:taken], values[:taken])
            steps, values = steps[taken:], values[taken:]

    def cut(self, step: float) -> None:
        """Drops the points of this step and later ones, because the run resumes from here."""
        remaining = int(np.searchsorted(self._steps[: self._size], step))
        if remaining < self._size:
            self._size, self._filled = remaining, self._width if remaining else 0

    def points(self, scale: float = 1.0) -> Points:
        """A copy of all points, their values times `scale`."""
        size = self._size
        count = np.where(self._count[:size] > 0, self._count[:size], np.nan)
        has_values = ~np.isnan(count)
        least = np.where(has_values, self._least[:size], np.nan)
        largest = np.where(has_values, self._largest[:size], np.nan)
        mean = self._sum[:size] / count
        return Points(self._steps[:size].copy(), scale * least, scale * mean, scale * largest)

    @property
    def _total(self) -> int:
        return (self._size - 1) * self._width + self._filled if self._size else 0

    def _put(self, steps: Numbers, values: Numbers) -> None:
        self.last, self.last_step = float(values[-1]), float(steps[-1])
        at = (self._total + np.arange(len(values))) // self._width
        first, size = int(at[0]), int(at[-1]) + 1
        for new in range(self._size, size):
            self._least[new], self._sum[new], self._largest[new], self._count[new] = np.inf, 0, -np.inf, 0
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        finite = np.isfinite(values)
        here = slice(first, size)
        self._least[here] = np.minimum(
            self._least[here], np.minimum.reduceat(np.where(finite, values, np.inf), starts)
        )
        self._largest[here] = np.maximum(
            self._largest[here], np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
        )
        self._sum[here] += np.add.reduceat(np.where(finite, values, 0.0), starts)
        self._count[here] += np.add.reduceat(finite.astype(np.float64), starts)
        self._steps[at[np.append(starts[1:] - 1, len(at) - 1)]] = steps[
            np.append(starts[1:] - 1, len(at) - 1)
        ]
        self._filled = self._total + len(values) - (size - 1) * self._width
        self._size = size

    def _halve(self) -> None:
        half = self._size // 2
        pairs = slice(0, 2 * half)
        self._least[:half] = self._least[pairs].reshape(-1, 2).min(axis=1)
        self._largest[:half] = self._largest[pairs].reshape(-1, 2).max(axis=1)
        self._sum[:half] = self._sum[pairs].reshape(-1, 2).sum(axis=1)
        self._count[:half] = self._count[pairs].reshape(-1, 2).sum(axis=1)
        self._steps[:half] = self._steps[1 : 2 * half : 2]
        self._width *= 2
        self._size, self._filled = half, self._width
