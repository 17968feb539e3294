"""More points than anyone can see -> as many as are drawn, with every extreme kept.

A curve that is too long is cut into stretches of equal length; each becomes one point, the mean, between the lowest
and the highest value that were in it. So a peak of one sample in three million is still there, and says its height.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from gputel.analysis.document import Curves, Numbers, Series

BUDGET = 300_000  # numbers of all curves together, not counting where they lie
OF_A_POINT = 3  # mean, lowest, highest
UNSEEN = 600  # points of a curve that a page shows only when asked for
FEWEST = 200  # points that even one curve of a thousand has


def curves(panels: Sequence[Curves], budget: int = BUDGET) -> list[Curves]:
    """Short curves stay as they are; the longer ones get equally many points. A curve on two panels counts once.

    Curves that are shown only when asked for get fewer.
    """
    every = {id(series): series for panel in panels for series in panel.series}
    most = _share([_numbers(series) for series in every.values()], budget)
    points = max(most // OF_A_POINT, FEWEST)
    done = {
        key: thinned(series, points if series.shown else min(points, UNSEEN))
        if _numbers(series) > most or not series.shown
        else series
        for key, series in every.items()
    }
    return [replace(panel, series=tuple(done[id(own)] for own in panel.series)) for panel in panels]


def thinned(series: Series, points: int) -> Series:
    """Keeps at most so many points; a curve that has no more is returned as it is."""
    if len(series.y) <= points:
        return series
    low = series.y if series.low is None else series.low
    high = series.y if series.high is None else series.high
    middles = _middles(len(series.y), points)
    return replace(
        series,
        x={name: values[middles] for name, values in series.x.items()},
        y=_reduced(series.y, points, np.nanmean),
        low=_reduced(low, points, np.nanmin),
        high=_reduced(high, points, np.nanmax),
        measured=series.count,
    )


def _numbers(series: Series) -> int:
    return len(series.y) * (1 if series.low is None else OF_A_POINT)


def _share(lengths: Sequence[int], budget: int) -> int:
    """The largest length to which all may be cut so that together they keep to the budget."""
    left = budget
    for done, length in enumerate(sorted(lengths)):
        most = left // (len(lengths) - done)
        if length > most:
            return most
        left -= length
    return max(lengths, default=0)


def _reduced(values: Numbers, points: int, how: Callable[..., Numbers]) -> Numbers:
    """The stretches differ in length by one at most; those of each length are reduced in one go."""
    short, longer = divmod(len(values), points)
    border = longer * (short + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a stretch without a value stays NaN
        parts = [values[:border].reshape(longer, short + 1), values[border:].reshape(points - longer, short)]
        return np.concatenate([how(part, axis=1) for part in parts])


def _middles(count: int, points: int) -> Numbers:
    short, longer = divmod(count, points)
    starts = np.arange(points) * short + np.minimum(np.arange(points), longer)
    middles: Numbers = starts + short // 2
    return middles
