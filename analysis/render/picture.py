"""Panels -> a picture for a paper or a slide: PNG, SVG or PDF, by matplotlib without its pyplot.

As wide as a column of a paper, with letters that are still read there. Several panels stand below each other, or
side by side where there is room, and those of a PDF on as many pages as they need.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from gputel.analysis.document import Bars, Curves, Document, Heat, Marker, Numbers, Panel, PlotAxis, Series
from gputel.analysis.render import downsample, legend, ranges, style
from gputel.analysis.render.legend import POINTS, dashes, plain, tint
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOLD = 0.62  # mean width of a letter of a title, of its height
LINE = 1.25  # height of a line of a title, of its letters
MARGIN, FEW = 0.01, 10  # of an axis, on either side of the curves; more beside so few points
Item = TypeVar("Item")
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
            columns = look.columns(len(panels), paged=True)
            with PdfPages(out, metadata=MAKER[kind]) as pages:
                for part in _pages(panels, look, columns):
                    pages.savefig(figure(part, page.caution, look, columns))
        else:
            _refuse_strip(panels, look)
            figure(panels, page.caution, look).savefig(out, format=kind, metadata=MAKER[kind])
    return out.getvalue()


def figure(
    panels: Sequence[Panel],
    caution: str | None = None,
    look: style.PictureLook = style.LOOKS["paper"],
    columns: int | None = None,
) -> Figure:
    """The picture as a figure of matplotlib, to style further."""
    columns = columns or look.columns(len(panels))
    width = look.panel_width(columns)
    in_sight = _in_sight(panels)
    with mpl.rc_context(look.settings()):
        heights = [max(_height(panel, width, look) for panel, _ in row) for row in _rows(in_sight, columns)]
        extra = 0.25 * look.scale if caution else 0.0
        made = Figure(figsize=(width * columns, sum(heights) + extra), layout="constrained")
        FigureCanvasAgg(made)
        spots = made.subplots(len(heights), columns, squeeze=False, height_ratios=heights).flat
        for known, axes in zip_longest(in_sight, spots):
            if known is None:
                axes.set_axis_off()
                continue
            panel, across = known
            _draw(panel, across, axes, width, look)
        if caution:
            color = style.KINDS["light"]["fault"]
            made.suptitle(plain(caution), fontsize=6 * look.scale, color=color, wrap=True)
    return made


def _rows(panels: Sequence[Item], columns: int) -> list[Sequence[Item]]:
    return [panels[first : first + columns] for first in range(0, len(panels), columns)]


def _pages(panels: Sequence[Panel], look: style.PictureLook, columns: int) -> Iterator[list[Panel]]:
    """Pages of panels: on each as many rows as fit, at least one."""
    page: list[Panel] = []
    left = look.page
    for row in _rows(panels, columns):
        height = max(_height(panel, look.panel_width(columns), look) for panel in row)
        if page and height > left:
            yield page
            page, left = [], look.page
        page += row
        left -= height
    yield page


def _refuse_strip(panels: Sequence[Panel], look: style.PictureLook) -> None:
    if look.width is not None and len(list(_pages(panels, look, look.columns(len(panels))))) > 1:
        fault = f"{len(panels)} panels below each other are higher than a page of a picture {look.width:g} in wide"
        raise GputelError("--width", fault, "choose some with --panel, or write --pdf, which has pages")


def _height(panel: Panel, width: float, look: style.PictureLook) -> float:
    key = _legend(panel, width, look).height(width)
    title = LINE * look.font / POINTS * (len(_title_lines(panel, width, look)) - 1)
    plot = (0.8 + 0.3 * len(panel.rows)) * look.scale if isinstance(panel, Bars) else width * look.shape
    return plot + key + title


def _legend(panel: Panel, width: float, look: style.PictureLook) -> legend.Legend:
    return legend.of_panel(panel, width, look.font - 0.5 * look.scale)


def _title_lines(panel: Panel, width: float, look: style.PictureLook) -> list[str]:
    return textwrap.wrap(plain(panel.title), int(0.85 * width * POINTS / (BOLD * look.font))) or [""]


def _in_sight(panels: Sequence[Panel]) -> list[tuple[Panel, ranges.Range | None]]:
    """Curves as far as they are in sight at first, thinned to what a picture can show; None has no axis to cut."""
    cut = [_cropped(panel) if isinstance(panel, Curves) else (panel, None) for panel in panels]
    thinned = iter(
        downsample.curves([panel for panel, _ in cut if isinstance(panel, Curves)], style.PICTURE_NUMBERS)
    )
    return [(next(thinned) if isinstance(panel, Curves) else panel, across) for panel, across in cut]


def _cropped(panel: Curves) -> tuple[Panel, ranges.Range | None]:
    """What happened out of sight is left out, and the axis says which runs go on."""
    axis = panel.axes[0]
    across = ranges.across([own for own in panel.series if own.shown and axis.name in own.x], axis)
    if across is None:
        return panel, None
    marks = tuple(mark for mark in panel.marks if _touches(mark, axis.name, across))
    named = replace(axis, title=across.title(axis))
    return replace(ranges.cropped(panel, axis, across), axes=(named, *panel.axes[1:]), marks=marks), across


def _touches(mark: Marker, axis: str, across: ranges.Range) -> bool:
    if axis not in mark.x:
        return False
    end = (mark.end or mark.x).get(axis, mark.x[axis])
    return mark.x[axis] <= across.high and end >= across.low


def _draw(
    panel: Panel, across: ranges.Range | None, axes: Axes, width: float, look: style.PictureLook
) -> None:
    axes.set_title("\n".join(_title_lines(panel, width, look)), loc="left")
    if isinstance(panel, Curves):
        _curves(panel, across, axes)
    elif isinstance(panel, Heat):
        _heat(panel, axes)
    else:
        _bars(panel, axes)
    _legend(panel, width, look).draw(axes, width)


def _curves(panel: Curves, across: ranges.Range | None, axes: Axes) -> None:
    axis = panel.axes[0]
    shown = [series for series in panel.series if axis.name in series.x and series.shown]
    for series in shown:
        _one(series, panel, axis, axes, len(shown))
    for level in panel.levels:
        axes.axhline(level.value, **legend.LEVEL_LINE)
    if panel.log and all(np.nanmin(series.y) > 0 for series in shown if len(series.y)):
        axes.set_yscale("log")
    elif panel.steady or panel.noisy or any(series.style == "dots" for series in shown):
        share = style.EXTREMES["steady" if panel.steady else "noisy"]
        axes.set_ylim(ranges.upwards(shown, share, panel.levels))
    if axis.log:
        axes.set_xscale("log")
    if across:
        _marks(panel.marks, axis, axes, across)
        few = max(len(series.y) for series in shown) < FEW
        axes.set_xlim(_with_margin(across, 5 * MARGIN if few else MARGIN, log=axis.log))
    _label(axes, axis, panel.y)


def _with_margin(across: ranges.Range, share: float, *, log: bool) -> tuple[float, float]:
    low, high = across.low, across.high
    if log:
        more = (high / low) ** share if high > low else 2.0
        return low / more, high * more
    more = share * (high - low) or 0.1 * abs(high) or 1.0
    return low - more, high + more


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
    axes.plot(
        x,
        running_mean(y, max(3, len(y) // 100)) if smooth else y,
        color=color,
        label=plain(series.name),
        drawstyle="steps-post" if series.style == "held" else "default",
        linestyle=dashes(series),
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


def _marks(marks: Sequence[Marker], axis: PlotAxis, axes: Axes, shown: ranges.Range) -> None:
    """Draws the marks behind the curves, as far as these reach."""
    for mark in marks:
        color, x = style.KINDS["light"][style.kind(mark.kind)], mark.x[axis.name]
        end = mark.end.get(axis.name) if mark.end else None
        if end is None:
            axes.axvline(x, color=color, linewidth=0.6, linestyle=":", zorder=0)
        else:
            axes.axvspan(
                max(x, shown.low), min(end, shown.high), color=color, alpha=0.25, linewidth=0, zorder=0
            )


def _heat(panel: Heat, axes: Axes) -> None:
    colors = LinearSegmentedColormap.from_list("gputel", style.HEAT)
    cells = axes.pcolormesh(
        panel.x_edges, panel.y_edges, np.ma.masked_invalid(panel.values), cmap=colors, rasterized=True
    )
    for level in panel.levels:
        axes.axhline(level.value, color="white", linewidth=1.6)
        axes.axhline(level.value, color="black", linewidth=0.8, linestyle=(0, (2, 2)))
    bar = axes.get_figure().colorbar(cells, ax=axes, pad=0.02)  # type: ignore[union-attr]
    bar.set_label(titled(panel.value))
    axes.grid(visible=False)
    _label(axes, panel.x, panel.y)
    if panel.names:
        axes.set_yticks(np.arange(len(panel.names)) + 0.5, [plain(name) for name in panel.names])


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
                height=0.6,
            )
        left += widths
    axes.set_yticks(places, [plain(name) for name in panel.rows])
    axes.set_xlabel(unit or "")
    axes.xaxis.set_major_formatter(_Numbers())
    if panel.whole:
        axes.set_xlim(0, max(panel.whole, left.max()))
    axes.grid(visible=False, axis="y")


def _label(axes: Axes, x: PlotAxis, y: PlotAxis) -> None:
    divisor, unit = _time_unit(axes.get_xlim()) if x.unit == "s" else (1.0, x.unit)
    if axes.get_xscale() == "linear":
        axes.xaxis.set_major_locator(_Ticks(divisor))
        axes.xaxis.set_major_formatter(_Numbers(divisor))
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(_of_log_axis))
    else:
        axes.yaxis.set_major_formatter(_Numbers())
    axes.set_xlabel(titled(PlotAxis(x.name, x.title, unit)))
    axes.set_ylabel(titled(y))


def titled(axis: PlotAxis) -> str:
    """`Power (W)`."""
    return plain(f"{axis.title} ({axis.unit})" if axis.unit else axis.title)


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


class _Numbers(Formatter):
    """All ticks of an axis with the same letter and as many decimals: `7.5k` beside `10.0k`, `3.00` beside 3.25."""

    def __init__(self, divisor: float = 1.0) -> None:
        self._divisor = divisor

    def __call__(self, value: float, pos: int | None = None) -> str:
        return self.format_ticks([value])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        shown = np.divide(values, self._divisor)
        widest = np.abs(shown).max(initial=0)
        if widest >= 1e15 or 0 < widest < 1e-4:
            return [f"{value:.3g}" for value in shown]
        size, letter = _letter(widest)
        shown = shown / size
        exact = (
            digits for digits in range(6) if np.allclose(np.round(shown, digits), shown, rtol=0, atol=1e-9)
        )
        decimals = next(exact, 6)
        texts = (f"{value:,.{decimals}f}{letter}" if value else "0" for value in np.round(shown, decimals))
        return [text.replace("-", "\N{MINUS SIGN}") for text in texts]


def _letter(widest: float) -> tuple[float, str]:
    """The divisor of numbers up to this one, and its letter: 1000 and `k`."""
    letters = ((1e12, 1e12, "T"), (1e9, 1e9, "B"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
    return next(((size, letter) for least, size, letter in letters if widest >= least), (1.0, ""))


def _of_log_axis(value: float, _place: int) -> str:
    if abs(value) >= 1e15:
        return f"{value:.3g}"
    size, letter = _letter(abs(value))
    return f"{value / size:,.6g}{letter}"
