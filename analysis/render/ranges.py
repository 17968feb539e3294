"""How much of a plot is in sight before anyone zooms: as far as most runs go, and without first steps and outliers.

The scripts of pages (`plots.js`, `curves.js`) follow the same rules, by the same numbers of `style`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gputel.analysis import text
from gputel.analysis.document import Curves, Level, PlotAxis, Series
from gputel.analysis.render import style


@dataclass(frozen=True)
class Range:
    """From `low` to `high` of an axis; the runs named in `longer` go on, the longest of them to `end`."""

    low: float
    high: float
    longer: tuple[str, ...] = ()
    end: float = math.nan

    def title(self, axis: PlotAxis) -> str:
        """`step; run8 goes on to 7,999`; the axis's own title where all of it is in sight."""
        if not self.longer:
            return axis.title
        only = self.longer[0] if len(self.longer[0]) <= style.LONG["letters"] else "one run"
        who = f"{only} goes" if len(self.longer) == 1 else f"{len(self.longer)} runs go"
        far = (
            text.duration(self.end)
            if axis.unit == "s"
            else (text.count(self.end) if self.end >= 1e6 else f"{self.end:,.6g}")
        )
        return f"{axis.title}; {who} on to {far}"


def across(series: Sequence[Series], axis: PlotAxis) -> Range | None:
    """The whole of what was measured, unless a few long runs would squash all others: then as far as those go.

    None where nothing was measured.
    """
    reaches: dict[str, tuple[float, float]] = {}
    for own in series:
        x = own.x[axis.name][np.isfinite(own.y)]
        x = x[np.isfinite(x) & ((x > 0) | (not axis.log))]
        if x.size:
            low, high = reaches.get(own.run or "", (math.inf, -math.inf))
            reaches[own.run or ""] = (min(low, float(x[0])), max(high, float(x[-1])))
    if not reaches:
        return None
    low = min(first for first, _ in reaches.values())
    ends = sorted(last for _, last in reaches.values())
    usual = low + style.LONG["times"] * (ends[int(style.LONG["share"] * (len(ends) - 1))] - low)
    most = [end for end in ends if end <= usual]
    if axis.log or len(ends) < style.LONG["least"] or len(most) == len(ends) or most[-1] <= low:
        return Range(low, ends[-1])
    longer = tuple(run for run, (_, last) in reaches.items() if last > usual)
    return Range(low, most[-1], longer, ends[-1])


def cropped(panel: Curves, axis: PlotAxis, shown: Range) -> Curves:
    """The panel with the points in sight, and one more on either side, so that curves run out of the plot."""
    if not shown.longer:
        return panel
    return replace(panel, series=tuple(_cropped(own, axis.name, shown) for own in panel.series))


def _cropped(series: Series, axis: str, shown: Range) -> Series:
    if axis not in series.x:
        return series
    first = max(int(np.searchsorted(series.x[axis], shown.low)) - 1, 0)
    last = int(np.searchsorted(series.x[axis], shown.high, side="right")) + 1
    kept = slice(first, last)
    return replace(
        series,
        x={name: values[kept] for name, values in series.x.items()},
        y=series.y[kept],
        low=None if series.low is None else series.low[kept],
        high=None if series.high is None else series.high[kept],
        measured=None,
    )


def upwards(
    series: Sequence[Series], share: float, levels: Sequence[Level] = ()
) -> tuple[float, float] | None:
    """Lowest and highest value in sight: first steps, evaluations and outliers are not, the last of a curve is.

    `share` of the values at either end may be out of sight; levels are in sight that are near. None where nothing
    was measured.
    """
    finite = [own.y[np.isfinite(own.y)] for own in series]
    ends = [float(values[-1]) for values in finite if values.size]
    if not ends:
        return None
    whole = np.concatenate(finite)
    values = np.sort(
        np.concatenate([y[_begins_far_off(own) :] for own, y in zip(series, finite, strict=True)])
    )
    few = 0 if any(own.low is not None for own in series) else 2
    out = max(int(share * len(values)), min(few, len(values) // 10))
    low, high = values[out], values[len(values) - 1 - out]
    more = max(0.5 * (high - low), 0.02 * abs(high))
    edge = more / 10
    bottom = max(min(low - more, *ends), whole.min())
    top = min(max(high + more, *ends), whole.max())
    near = [level.value for level in levels if level.value <= top * style.LEVEL_NEAR]
    bottom, top = min(bottom, *near, top), max(top, *near, bottom)
    return float(bottom - edge), float(top + edge)


def _begins_far_off(series: Series) -> bool:
    """Whether its first value, an evaluation of a model that has learned nothing, may lie out of sight."""
    return series.style == "dots" and len(series.y) >= style.EXTREMES["least"]
