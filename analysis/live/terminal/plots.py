"""Draws curves as characters: braille plots with 2 x 4 dots per cell, and block strips with one value per cell.

Values that share a column are drawn as their mean, with dots for the minimum and maximum, so that no spike is lost.
A value that is not finite leaves a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.text import Text

from gputel.analysis.live.series import Numbers, Points

BLOCKS = "▁▂▃▄▅▆▇█"
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
BRAILLE = 0x2800
FEW = 50  # points; with more, the range ignores the highest ones
USUAL = 98  # percent of the points that set the top of the range


Dots = np.ndarray[tuple[int, int], np.dtype[np.bool_]]


class PlotLine(NamedTuple):
    """A curve and its color."""

    points: Points
    style: str


class PlotRange(NamedTuple):
    """The steps and values that a plot shows; with `log`, `bottom` and `top` are logarithms."""

    left: float
    right: float
    bottom: float
    top: float
    log: bool


def window(curves: Sequence[Points], share: float = 1.0, *, log: bool = False) -> PlotRange | None:
    """The range that shows the last `share` of the steps; None if there is nothing to draw."""
    steps = np.concatenate([points.step for points in curves]) if curves else np.array([])
    if not len(steps):
        return None
    left, right = float(steps.min()), float(steps.max())
    left = right - share * (right - left)
    lows, highs = [], []
    for points in curves:
        shown = points.step >= left
        low, high = _finite(points.least[shown], log=log), _finite(points.largest[shown], log=log)
        if len(low):
            lows.append(low.min())
            highs.append(np.percentile(high, USUAL) if len(high) > FEW else high.max())
    if not lows:
        return None
    bottom, top = min(lows), max(highs)
    if not top > bottom:
        room = math.log(2) if log else 0.5 * abs(bottom or 1)
        bottom, top = bottom - room, top + room
    return PlotRange(left, right, float(bottom), float(top), log)


def plot(lines: Sequence[PlotLine], seen: PlotRange, width: int, height: int) -> list[Text]:
    """Draws curves in a box of braille cells; later curves cover earlier ones."""
    dots = np.zeros((4 * height, 2 * width), dtype=bool)
    owners = np.full((height, width), -1)
    for number, line in enumerate(lines):
        drawn = _dots(line.points, seen, 2 * width, 4 * height)
        dots |= drawn
        owners[drawn.reshape(height, 4, width, 2).any(axis=(1, 3))] = number
    codes = (dots.reshape(height, 4, width, 2) * DOTS[None, :, None, :]).sum(axis=(1, 3))
    return [_row(codes[y], owners[y], lines) for y in range(height)]


def strip(values: Sequence[float] | Numbers, width: int, low: float, high: float) -> str:
    """Draws values as blocks; a cell is the mean of the values that share it, a blank if there are none."""
    shared = max(1, math.ceil(len(values) / width)) if width > 0 else 1
    tail = np.asarray(values[-(width * shared) :] if width > 0 else [], dtype=float)
    groups = np.concatenate([np.full(-len(tail) % shared, np.nan), tail]).reshape(-1, shared)
    finite = np.isfinite(groups)
    counts = finite.sum(axis=1)
    means = np.where(finite, groups, 0).sum(axis=1) / np.maximum(counts, 1)
    span = high - low or 1
    cells = [
        BLOCKS[min(max(int((mean - low) / span * len(BLOCKS)), 0), len(BLOCKS) - 1)] if count else " "
        for mean, count in zip(means.tolist(), counts.tolist(), strict=True)
    ]
    return "".join(cells).rjust(width)


def _finite(values: Numbers, *, log: bool) -> Numbers:
    finite = values[np.isfinite(values)]
    return np.log(finite[finite > 0]) if log else finite


def _dots(points: Points, seen: PlotRange, width: int, height: int) -> Dots:
    """Draws the mean as a line, and the maximum and minimum as dots."""
    rows = np.arange(height)[:, None]
    scale = (height - 1) / (seen.top - seen.bottom)
    means, *extremes = (
        np.clip(np.round((seen.top - values) * scale), 0, height - 1)
        for values in _columns(points, seen, width)
    )
    first, last = means.copy(), means.copy()  # neighbors that share no row are joined
    first[1:] = np.where(np.isnan(first[1:]), np.nan, np.fmin(first[1:], last[:-1] + 1))
    last[1:] = np.where(np.isnan(last[1:]), np.nan, np.fmax(last[1:], first[:-1] - 1))
    drawn: Dots = (rows >= first) & (rows <= last)
    for edge in extremes:
        drawn |= rows == edge
    return drawn


def _columns(points: Points, seen: PlotRange, width: int) -> tuple[Numbers, Numbers, Numbers]:
    """Mean, minimum and maximum of each column of dots, NaN if empty; gaps in the mean are interpolated."""
    inside = points.step >= seen.left
    step, *values = (numbers[inside] for numbers in points)
    if seen.log:
        values = [np.log(np.where(numbers > 0, numbers, np.nan)) for numbers in values]
    least, mean, largest = values
    column = np.round((step - seen.left) / ((seen.right - seen.left) or 1) * (width - 1)).astype(int)
    finite = np.isfinite(least) & np.isfinite(mean) & np.isfinite(largest)
    lows, highs = np.full(width, np.inf), np.full(width, -np.inf)
    np.minimum.at(lows, column[finite], least[finite])
    np.maximum.at(highs, column[finite], largest[finite])
    lows[np.isinf(lows)] = highs[np.isinf(highs)] = np.nan
    counts = np.bincount(column[finite], minlength=width)
    sums = np.bincount(column[finite], weights=mean[finite], minlength=width)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return _bridged(means, column[~finite]), lows, highs


def _bridged(values: Numbers, gaps: Numbers) -> Numbers:
    """Interpolates columns between two points, except across a value that was not finite."""
    filled_columns = np.flatnonzero(~np.isnan(values))
    if len(filled_columns) < 2:
        return values
    columns = np.arange(len(values))
    filled = np.interp(columns, filled_columns, values[filled_columns], left=np.nan, right=np.nan)
    between = np.searchsorted(filled_columns, columns, side="right")  # which two points a column is between
    torn = np.isin(between, between[np.setdiff1d(gaps.astype(int), filled_columns)])
    return np.where(torn, values, filled)


def _row(codes: Numbers, owners: Numbers, lines: Sequence[PlotLine]) -> Text:
    """One row of cells. A blank takes the color of the cell before it, so that the row has few spans."""
    text, run, owner = Text(end="", no_wrap=True), "", -1
    for code, here in zip(codes.tolist(), owners.tolist(), strict=True):
        if here >= 0 and here != owner:
            text.append(run, lines[owner].style if owner >= 0 else None)
            run, owner = "", here
        run += chr(BRAILLE + code) if code else " "
    return text.append(run, lines[owner].style if owner >= 0 else None)
