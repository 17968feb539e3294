"""The table that people make by hand: the metric at round points of an axis, run by run, and how far each is off.

Values are as printed, not smoothed; one between two records lies on the line between them, and is marked.
Differences are from the first run, and of unrounded values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gputel.analysis.comparing.clocks import Numbers
from gputel.analysis.comparing.curves import interpolated

if TYPE_CHECKING:
    from gputel.analysis.comparing.curves import Curve

FULL = 1000
EXACT = 1e-9
MINUTE = 60.0
SCHEMA = {
    "x": pl.Float64,
    "run": pl.String,
    "value": pl.Float64,
    "difference": pl.Float64,
    "interpolated": pl.Boolean,
}


def of(curves: Sequence[Curve], axis: str) -> pl.DataFrame:
    """`x`, `run`, `value`, `difference` from the first run, and whether the value was `interpolated`."""
    xs = [curve.x(axis) for curve in curves]
    points = np.array(_points(axis, common_end(xs)))
    values = [interpolated(x, curve.y, points) for x, curve in zip(xs, curves, strict=True)]
    wanted = np.isfinite(values).any(axis=0) if len(points) else np.zeros(0, dtype=bool)
    points, values = points[wanted], [own[wanted] for own in values]
    parts = [
        pl.DataFrame(
            {
                "x": points,
                "run": [curve.track.name] * len(points),
                "value": own,
                "difference": own - values[0] if i else np.full(len(points), np.nan),
                "interpolated": ~np.isin(points, x) & np.isfinite(own),
            },
            schema=SCHEMA,
        )
        for i, (x, curve, own) in enumerate(zip(xs, curves, values, strict=True))
    ]
    return pl.concat(parts).with_columns(pl.col("value", "difference").fill_nan(None))


def _points(axis: str, end: float) -> list[float]:
    if axis == "step":
        return steps(end)
    unit = MINUTE if axis == "time" else 1.0
    return [point * unit for point in rounds(end / unit)]


def steps(end: float) -> list[float]:
    """0, then 1 and 5 of each power of ten from 1,000 on, then the last full thousand that all reached.

    Where none reached 1,000, hundreds are counted in tens and less by ones.
    """
    if not end >= 0:
        return []
    full = _unit(end)
    last = float(math.floor(end / full) * full)
    found = [0.0, *_ones_and_fives(full, last)]
    return found if last in found else [*found, last]


def _unit(end: float) -> int:
    if end >= FULL:
        return FULL
    return 10 if end >= 100 else 1


def rounds(end: float) -> list[float]:
    """Of any other axis: 1 and 5 of each power of ten over three of them, then the end to two digits."""
    if not (math.isfinite(end) and end > 0):
        return []
    ten = 10.0 ** math.floor(math.log10(end))
    last = math.floor(end / ten * 10 * (1 + EXACT)) * ten / 10
    found = _ones_and_fives(ten / 1000, last)
    return found if math.isclose(last, found[-1], rel_tol=EXACT) else [*found, last]


def common_end(xs: Sequence[Numbers]) -> float:
    """How far all have come; NaN where one has not come anywhere."""
    ends = [np.nanmax(x) if np.isfinite(x).any() else np.nan for x in xs]
    return float(np.min(ends)) if ends else math.nan


def _ones_and_fives(start: float, last: float) -> list[float]:
    tens = (
        [start * 10**n for n in range(math.floor(math.log10(last / start) + EXACT) + 1)]
        if last >= start
        else []
    )
    return [point for ten in tens for point in (ten, 5 * ten) if point <= last * (1 + EXACT)]
