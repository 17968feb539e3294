"""The legend of a picture's panel, below its axis: curves by name, what happened behind them, and limits."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from gputel.analysis.document import Bars, Curves, Marker, Panel, Series
from gputel.analysis.render import style
from gputel.analysis.text import event
from gputel.telemetry import secrets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CURVES = 12
# widths of a letter and of what stands before a name, height of a line: in letters
LETTER, HANDLE, LINE = (
    0.58,
    3.6,
    1.5,
)
LEVEL_LINE: dict[str, Any] = {"color": "#444444", "linewidth": 0.7, "linestyle": (0, (2, 2))}
POINTS = 72  # an inch


@dataclass(frozen=True)
class Legend:
    """Names with their handles; nothing where a single one would say what the title says."""

    names: Sequence[str]
    handles: Sequence[Any]
    letters: float  # their height in points

    def columns(self, width: float) -> int:
        """How many names stand side by side in so many inches."""
        longest = max(len(line) for name in self.names for line in name.split("\n"))
        entry = self.letters * (LETTER * longest + HANDLE)
        return max(min(int(width * POINTS / entry), len(self.names)), 1)

    def height(self, width: float) -> float:
        """The height of the legend in inches."""
        if not self.names:
            return 0.0
        lines = max(name.count("\n") + 1 for name in self.names)
        return math.ceil(len(self.names) / self.columns(width)) * lines * LINE * self.letters / POINTS

    def draw(self, axes: Axes, width: float) -> None:
        """Below the ticks and the title of the axis."""
        if not self.names:
            return
        below = -(14 + 2.8 * self.letters) / POINTS
        scale = axes.figure.dpi_scale_trans
        axes.legend(
            self.handles,
            self.names,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=axes.transAxes + ScaledTranslation(0, below, scale),
            ncols=self.columns(width),
            frameon=False,
            borderaxespad=0,
            borderpad=0,
        )


def of_panel(panel: Panel, width: float, letters: float) -> Legend:
    """The legend of a panel that is so many inches wide, in letters of so many points."""
    pairs = list(_bars(panel) if isinstance(panel, Bars) else _entries(panel))
    if len(pairs) < 2 and isinstance(panel, Curves):
        pairs = []
    most = max(int(width * POINTS / letters / LETTER - HANDLE), 8)
    return Legend(
        [textwrap.fill(plain(name), most) for name, _ in pairs], [each for _, each in pairs], letters
    )


def _entries(panel: Panel) -> Iterator[tuple[str, Any]]:
    if isinstance(panel, Curves):
        shown = [series for series in panel.series if series.shown]
        for series in shown[:MOST_CURVES]:
            yield (
                series.name,
                Line2D([], [], color=tint(series.tint), linestyle=dashes(series), **_dot(series)),
            )
        if len(shown) > MOST_CURVES:
            yield f"and {len(shown) - MOST_CURVES} more", Line2D([], [], linestyle="none")
        yield from _happened(panel.marks)
    for level in panel.levels:  # type: ignore[union-attr]
        yield level.text, Line2D([], [], **LEVEL_LINE)


def _happened(marks: Sequence[Marker]) -> Iterator[tuple[str, Any]]:
    """A name for all kinds that look the same."""
    alike: dict[tuple[str, bool], dict[str, None]] = {}
    for mark in marks:
        color = style.KINDS["light"][style.kind(mark.kind)]
        alike.setdefault((color, mark.end is not None), {})[event(mark.kind)] = None
    for (color, is_span), kinds in alike.items():
        handle = (
            Patch(color=color, alpha=0.4, linewidth=0)
            if is_span
            else Line2D([], [], color=color, linestyle=":")
        )
        yield ", ".join(kinds), handle


def _bars(panel: Bars) -> Iterator[tuple[str, Any]]:
    for part, name in enumerate(panel.parts):
        if (panel.values[:, part] > 0).any():
            yield event(name), Patch(color=style.KINDS["light"][style.kind(name)], linewidth=0)


def _dot(series: Series) -> dict[str, Any]:
    """A dot in the middle of so short a line would hide its dashes."""
    return {"marker": "o", "markersize": 2} if series.style == "dots" and dashes(series) == "-" else {}


def tint(number: int) -> str:
    return style.TINTS["light"][number % len(style.TINTS["light"])]


def dashes(series: Series) -> Any:
    """The dashes of a curve, as on a page: they tell runs apart once all colors are used."""
    number = 1 if series.style == "dashed" else series.tint // len(style.TINTS["light"])
    pattern = style.DASHES[number % len(style.DASHES)]
    return (0, tuple(length / 1.6 for length in pattern)) if pattern else "-"  # in widths of a line


def plain(text: str) -> str:
    """Masked, and without the dollars that would make formulas of it."""
    return secrets.mask(text).replace("$", r"\$")
