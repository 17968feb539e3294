"""More points than anyone can see -> as many as are drawn, with every extreme kept.

A curve that is too long is cut into stretches of equal length; each becomes one point, the mean, between the lowest
and the highest value that were in it. So a peak of one sample in three million is still there, and says its height.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gputel.analysis.figures.panel import Curves, Numbers, Series

BUDGET = 160_000  # points of all curves of a page; three numbers each where they were thinned
FEWEST = 500


def curves(panels: Sequence[Curves], budget: int = BUDGET) -> list[Curves]:
    """Short curves stay as they are; of the longer ones all get the same number of points."""
    most = _share([len(series.y) for panel in panels for series in panel.series], budget)
    return [replace(panel, series=tuple(thinned(own, most) for own in panel.series)) for panel in panels]


def thinned(series: Series, points: int) -> Series:
    """At most so many points; a curve that has no more is returned as it is."""
    if len(series.y) <= points:
        return series
    low = series.y if series.low is None else series.low
    high = series.y if series.high is None else series.high
    return replace(
        series,
        x={name: _reduced(values, points, np.nanmean) for name, values in series.x.items()},
        y=_reduced(series.y, points, np.nanmean),
        low=_reduced(low, points, np.nanmin),
        high=_reduced(high, points, np.nanmax),
        measured=series.count,
    )


def _share(lengths: Sequence[int], budget: int) -> int:
    """The largest length to which all may be cut so that together they keep to the budget."""
    left, most = budget, max(lengths, default=0)
    for done, length in enumerate(sorted(lengths)):
        most = left // (len(lengths) - done)
        if length > most:
            return max(most, FEWEST)
        left -= length
    return max(lengths, default=FEWEST)


def _reduced(values: Numbers, points: int, how: object) -> Numbers:
    """The stretches differ in length by one at most; those of each length are reduced in one go."""
    short, longer = divmod(len(values), points)
    border = longer * (short + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a stretch without a value stays NaN
        parts = [values[:border].reshape(longer, short + 1), values[border:].reshape(points - longer, short)]
        return np.concatenate([how(part, axis=1) for part in parts])  # type: ignore[operator]
