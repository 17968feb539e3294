"""Panels -> a picture for a paper or a slide: PNG, SVG or PDF, by matplotlib without its pyplot.

As wide as a column of a paper, with letters that are still read there. Several panels stand below each other, many
in columns, and those of a PDF on pages of their own.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from gputel.analysis.document import (
    Bars,
    Curves,
    Document,
    Heat,
    Level,
    Marker,
    Numbers,
    Panel,
    PlotAxis,
    Series,
)
from gputel.analysis.render import downsample, style
from gputel.analysis.text import event
from gputel.telemetry import secrets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_IN_LEGEND = 10
ON_A_PAGE = 8  # panels, two beside each other
TITLE_LETTERS = 46  # a line
MAKER = {
    "png": {"Software": "gputel"},
    "svg": {"Creator": "gputel", "Date": None},
    "pdf": {"Creator": "gputel", "CreationDate": None},
}


def drawn(
    panels: Sequence[Panel], kind: str, page: Document, look: style.PictureLook = style.LOOKS["paper"]
) -> bytes:
    """The bytes of a file of that kind; many panels are pages of a PDF. The page's caution stands in each."""
    out = io.BytesIO()
    with mpl.rc_context(look.settings()):
        if kind == "pdf":
            with PdfPages(out, metadata=MAKER[kind]) as pages:
                for first in range(0, len(panels), ON_A_PAGE):
                    pages.savefig(figure(panels[first : first + ON_A_PAGE], page.caution, look))
        else:
            figure(panels, page.caution, look).savefig(out, format=kind, metadata=MAKER[kind])
    return out.getvalue()


def figure(
    panels: Sequence[Panel], caution: str | None = None, look: style.PictureLook = style.LOOKS["paper"]
) -> Figure:
    """The same as an object of matplotlib's, to go on with: panels below each other, many in columns."""
    columns = next((number for number, most in ((1, 3), (2, 8)) if len(panels) <= most), 3)
    grid = [panels[first : first + columns] for first in range(0, len(panels), columns)]
    with mpl.rc_context(look.settings()):
        heights = [max(_height(panel, look) for panel in row) for row in grid]
        extra = 0.25 * look.scale if caution else 0.0
        made = Figure(figsize=(look.width * columns, sum(heights) + extra), layout="constrained")
        FigureCanvasAgg(made)
        spots = made.subplots(len(grid), columns, squeeze=False, height_ratios=heights).flat
        for panel, axes in zip_longest(_thinned(panels), spots):
            if panel is None:
                axes.set_axis_off()
            else:
                _draw(panel, axes)
        if caution:
            color = style.KINDS["light"]["fault"]
            made.suptitle(_text(caution), fontsize=6 * look.scale, color=color, wrap=True)
    return made


def _height(panel: Panel, look: style.PictureLook) -> float:
    if isinstance(panel, Bars):
        return (1.1 + 0.3 * len(panel.rows)) * look.scale
    rows = math.ceil(_in_legend(panel) / 2) if isinstance(panel, Curves) else 0
    return look.width * style.PANEL_SHAPE + 0.16 * rows * look.scale


def _in_legend(panel: Curves) -> int:
    named = sum(series.shown for series in panel.series) + len({mark.kind for mark in panel.marks})
    shown = min(named, MOST_IN_LEGEND + 1) + len(panel.levels)
    return 0 if shown < 2 else shown


def _thinned(panels: Sequence[Panel]) -> list[Panel]:
    curves = iter(downsample.curves([p for p in panels if isinstance(p, Curves)], style.PICTURE_NUMBERS))
    return [next(curves) if isinstance(panel, Curves) else panel for panel in panels]


def _draw(panel: Panel, axes: Axes) -> None:
    above: dict[str, Any] = {"pad": 18} if isinstance(panel, Bars) else {}  # the legend lies between
    axes.set_title(textwrap.fill(_text(panel.title), TITLE_LETTERS), loc="left", **above)
    if isinstance(panel, Curves):
        _curves(panel, axes)
    elif isinstance(panel, Heat):
        _heat(panel, axes)
    else:
        _bars(panel, axes)


def _curves(panel: Curves, axes: Axes) -> None:
    axis = panel.axes[0]
    marks = list(_marks(panel.marks, axis, axes))
    shown = [series for series in panel.series if axis.name in series.x and series.shown]
    for series in shown:
        _one(series, panel, axis, axes, len(shown))
    for level in panel.levels:
        axes.axhline(level.value, color="#444444", linewidth=0.7, linestyle=(0, (2, 2)))
    if panel.log and all(np.nanmin(series.y) > 0 for series in shown if len(series.y)):
        axes.set_yscale("log")
    elif panel.steady or panel.noisy or any(series.style == "dots" for series in shown):
        _cut(axes, shown, style.EXTREMES["steady" if panel.steady else "noisy"])
    if axis.log:
        axes.set_xscale("log")
    axes.margins(x=0.01 if len(shown) and len(shown[0].y) > 1 else 0.1)
    _label(axes, axis, panel.y)
    _legend(axes, panel, marks)


def _one(series: Series, panel: Curves, axis: PlotAxis, axes: Axes, count: int) -> None:
    """A noisy curve faint under its running mean, with its extremes as a band, as the page has it."""
    x, y = series.x[axis.name], series.y
    color = tint(series.tint)
    smooth = panel.noisy and len(y) > style.SMOOTH_FROM
    if series.low is not None and series.high is not None:
        axes.fill_between(x, series.low, series.high, color=color, alpha=0.3 / count**0.75, linewidth=0)
    elif smooth:
        axes.plot(x, y, color=color, alpha=0.25, linewidth=0.5)
    dots: dict[str, Any] = {"marker": "o", "markersize": 2} if series.style == "dots" and len(y) < 200 else {}
    steps = "steps-post" if series.style == "held" else "default"
    dashed = series.style == "dashed" or series.tint >= len(style.TINTS["light"])
    line = running_mean(y, max(3, len(y) // 100)) if smooth else y
    axes.plot(
        x,
        line,
        color=color,
        label=_text(series.name),
        drawstyle=steps,
        linestyle="--" if dashed else "-",
        **dots,
    )


def running_mean(values: Numbers, width: int) -> Numbers:
    """The mean of as many values on either side; nearer to the ends of fewer. NaN counts for nothing and stays."""
    known = ~np.isnan(values)
    sums, counts = (np.insert(np.cumsum(part), 0, 0) for part in (np.where(known, values, 0), known))
    here = np.arange(len(values))
    half = np.minimum(np.minimum(width // 2, here), here[::-1])
    first, last = here - half, here + half + 1
    count = counts[last] - counts[first]
    return np.where(known, (sums[last] - sums[first]) / np.maximum(count, 1), np.nan)


def _cut(axes: Axes, shown: Sequence[Series], share: float) -> None:
    """Cuts an axis as the page does: first steps, evaluations and outliers leave the plot, no last value does."""
    finite = [series.y[np.isfinite(series.y)] for series in shown]
    ends = [values[-1] for values in finite if values.size]
    if not ends:
        return
    whole = np.concatenate(finite)
    later = [y[_begins_far_off(series) :] for series, y in zip(shown, finite, strict=True)]
    values = np.sort(np.concatenate(later))
    few = 0 if any(series.low is not None for series in shown) else 2
    out = max(int(share * len(values)), min(few, len(values) // 10))
    low, high = values[out], values[len(values) - 1 - out]
    more = max(0.5 * (high - low), 0.02 * abs(high))
    edge = more / 10
    bottom, top = max(min(low - more, *ends), whole.min()), min(max(high + more, *ends), whole.max())
    axes.set_ylim(bottom - edge, top + edge)


def _begins_far_off(series: Series) -> bool:
    """Whether its first value, an evaluation of a model that has learned nothing, may lie out of sight."""
    return series.style == "dots" and len(series.y) >= style.EXTREMES["least"]


def _marks(marks: Sequence[Marker], axis: PlotAxis, axes: Axes) -> Iterator[str]:
    """Behind the curves; the kinds that there are, for the legend."""
    for mark in marks:
        if axis.name not in mark.x:
            continue
        color, x = style.KINDS["light"][style.kind(mark.kind)], mark.x[axis.name]
        end = mark.end.get(axis.name) if mark.end else None
        if end is None:
            axes.axvline(x, color=color, linewidth=0.6, linestyle=":", zorder=0)
        else:
            axes.axvspan(x, end, color=color, alpha=0.25, linewidth=0, zorder=0)
        yield mark.kind


def _legend(axes: Axes, panel: Curves, kinds: Sequence[str]) -> None:
    if not _in_legend(panel):
        return
    handles, labels = axes.get_legend_handles_labels()
    handles, labels = handles[:MOST_IN_LEGEND], labels[:MOST_IN_LEGEND]
    for kind in dict.fromkeys(kinds):
        color = style.KINDS["light"][style.kind(kind)]
        handles.append(mpl.patches.Patch(color=color, alpha=0.5))
        labels.append(event(kind))
    for level in panel.levels:  # written beside its line it would lie on the curves
        handles.append(mpl.lines.Line2D([], [], color="#444444", linewidth=0.7, linestyle=(0, (2, 2))))
        labels.append(_text(level.text))
    left = sum(series.shown for series in panel.series) - MOST_IN_LEGEND
    if left > 0:
        handles.append(mpl.lines.Line2D([], [], linestyle="none"))
        labels.append(f"and {left} more")
    axes.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=2, frameon=False)


def _heat(panel: Heat, axes: Axes) -> None:
    colors = LinearSegmentedColormap.from_list("gputel", style.HEAT)
    cells = axes.pcolormesh(
        panel.x_edges, panel.y_edges, np.ma.masked_invalid(panel.values), cmap=colors, rasterized=True
    )
    for level in panel.levels:
        axes.axhline(level.value, color="white", linewidth=1.6)
        axes.axhline(level.value, color="black", linewidth=0.8, linestyle=(0, (2, 2)))
        _say(level, axes)
    bar = axes.get_figure().colorbar(cells, ax=axes, pad=0.02)  # type: ignore[union-attr]
    bar.set_label(titled(panel.value))
    axes.grid(visible=False)
    _label(axes, panel.x, panel.y)
    if panel.names:
        axes.set_yticks(np.arange(len(panel.names)) + 0.5, [_text(name) for name in panel.names])


def _say(level: Level, axes: Axes) -> None:
    """Writes a text at the right end of its line, above it."""
    axes.annotate(
        _text(level.text),
        (1.0, level.value),
        xycoords=("axes fraction", "data"),
        xytext=(-3, 2),
        textcoords="offset points",
        ha="right",
        fontsize=6,
        bbox={"facecolor": "white", "alpha": 0.8, "pad": 1, "linewidth": 0},
    )


def _bars(panel: Bars, axes: Axes) -> None:
    left = np.zeros(len(panel.rows))
    places = np.arange(len(panel.rows))[::-1]
    divisor, unit = (
        (3600.0, "h") if panel.unit == "s" and np.nansum(panel.values) > 7200 else (1.0, panel.unit)
    )
    for part, name in enumerate(panel.parts):
        widths = np.nan_to_num(panel.values[:, part]) / divisor
        if widths.any():
            axes.barh(
                places,
                widths,
                left=left,
                color=style.KINDS["light"][style.kind(name)],
                label=_text(event(name)),
                height=0.6,
            )
        left += widths
    axes.set_yticks(places, [_text(name) for name in panel.rows])
    axes.set_xlabel(unit or "")
    axes.xaxis.set_major_formatter(FuncFormatter(partial(_tick, 1.0)))
    if panel.whole:
        axes.set_xlim(0, max(panel.whole, left.max()))
    axes.grid(visible=False, axis="y")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, borderaxespad=0)


def _label(axes: Axes, x: PlotAxis, y: PlotAxis) -> None:
    divisor, unit = _time_unit(axes.get_xlim()) if x.unit == "s" else (1.0, x.unit)
    if axes.get_xscale() == "linear":
        axes.xaxis.set_major_locator(_Ticks(divisor))
        axes.xaxis.set_major_formatter(FuncFormatter(partial(_tick, divisor)))
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(partial(_tick, 1.0)))
    axes.set_xlabel(titled(PlotAxis(x.name, x.title, unit)))
    axes.set_ylabel(titled(y))


def titled(axis: PlotAxis) -> str:
    """`Power (W)`."""
    return _text(f"{axis.title} ({axis.unit})" if axis.unit else axis.title)


def _time_unit(limits: tuple[float, float]) -> tuple[float, str]:
    width = limits[1] - limits[0]
    return next(
        ((size, unit) for size, unit in ((3600.0, "h"), (60.0, "min")) if width > 2 * size), (1.0, "s")
    )


class _Ticks(MaxNLocator):
    """Round numbers of hours or minutes, where seconds are shown as these."""

    def __init__(self, divisor: float) -> None:
        super().__init__(nbins=6, steps=[1, 2, 2.5, 5, 10] if divisor == 1 else [1, 2, 3, 5, 6, 10])
        self._divisor = divisor

    def tick_values(self, vmin: float, vmax: float) -> Any:
        return np.multiply(self._divisor, super().tick_values(vmin / self._divisor, vmax / self._divisor))


def _tick(divisor: float, value: float, _place: int) -> str:
    shown = value / divisor
    for size, letter in ((1e15, ""), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "k")):
        if abs(shown) >= size:
            return f"{shown:.3g}" if not letter else f"{shown / (1e3 if letter == 'k' else size):.6g}{letter}"
    return f"{shown:,.6g}"


def tint(number: int) -> str:
    return style.TINTS["light"][number % len(style.TINTS["light"])]


def _text(text: str) -> str:
    """Masked, and without the dollars that would make formulas of it."""
    return secrets.mask(text).replace("$", r"\$")
