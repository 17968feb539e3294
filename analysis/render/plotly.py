"""A panel -> a figure of plotly, to style and to export; the colors are those of the page.

plotly is an extra, so only `PanelPicture.plotly` imports this module. Times stay in seconds, because plotly cannot
label durations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from gputel.analysis.document import Bars, Curves, Heat, Level, Marker, Panel, PlotAxis, Series
from gputel.analysis.render import downsample, ranges, style
from gputel.analysis.render.legend import tint
from gputel.analysis.render.picture import running_mean
from gputel.analysis.text import event
from gputel.telemetry import secrets
from gputel.telemetry.errors import GputelError

DASH = "6px,3px"
LEVEL_LINE = {"color": "#444444", "width": 1, "dash": "2px,2px"}
BAND_OPACITY = 0.3


def figure(panel: Panel, caution: str | None = None, x: str | None = None) -> go.Figure:
    """`x` is the name of an axis, the first one if it is not given. Curves longer than a page holds are thinned."""
    if isinstance(panel, Curves):
        made = _curves(panel, _axis(panel, x))
    elif x is not None and not (isinstance(panel, Heat) and x == panel.x.name):
        raise GputelError(f"x={x!r}", f"{panel.name} has one axis", "leave x out", exit_code=2)
    else:
        made = _heat(panel) if isinstance(panel, Heat) else _bars(panel)
    made.update_layout(template="plotly_white", title={"text": _text(panel.title)})
    if caution:
        color = style.KINDS["light"]["fault"]
        made.update_layout(title_subtitle={"text": _text(caution), "font": {"color": color}})
    return made


def _axis(panel: Curves, name: str | None) -> PlotAxis:
    if name is None:
        return panel.axes[0]
    by_name = {axis.name: axis for axis in panel.axes}
    if name not in by_name:
        choices = f"one of {', '.join(by_name)}"
        raise GputelError(f"x={name!r}", f"is not an axis of {panel.name}", choices, exit_code=2)
    return by_name[name]


def _curves(panel: Curves, axis: PlotAxis) -> go.Figure:
    """Draws marks as traces on a hidden second y axis behind the curves: plotly shows no hover text of shapes."""
    (panel,) = downsample.curves([panel])
    shown = [series for series in panel.series if axis.name in series.x and series.shown]
    traces = [trace for series in shown for trace in _traces(series, panel, axis, len(shown))]
    marks = list(_marks(panel.marks, axis))
    made = go.Figure([*traces, *marks])
    across = ranges.across(shown, axis)
    made.update_xaxes(title=_title(axis), type="log" if axis.log else "linear")
    if across and across.longer:
        made.update_xaxes(
            title=_title(replace(axis, title=across.title(axis))), range=[across.low, across.high]
        )
    positive = all(np.all(series.y[np.isfinite(series.y)] > 0) for series in shown)
    made.update_yaxes(title=_title(panel.y), type="log" if panel.log and positive else "linear")
    if marks:
        made.update_layout(
            yaxis={"overlaying": "y2", "tickmode": "auto"},
            yaxis2={"range": [0, 1], "visible": False, "fixedrange": True},
        )
    for level in panel.levels:
        made.add_shape(**_level(level), showlegend=True)
    return made


def _traces(series: Series, panel: Curves, axis: PlotAxis, count: int) -> Iterator[go.Scatter]:
    """The extremes as a band, a noisy curve faint under its running mean, as on the page."""
    x, y, color, name = series.x[axis.name], series.y, tint(series.tint), _text(series.name)
    group: dict[str, Any] = {"x": x, "legendgroup": name, "name": name}
    if series.low is not None and series.high is not None:
        edge: dict[str, Any] = {
            "mode": "lines",
            "line": {"width": 0},
            "showlegend": False,
            "hoverinfo": "skip",
        }
        fill = _faint(color, BAND_OPACITY / count**0.75)
        yield go.Scatter(y=series.low, **edge, **group)
        yield go.Scatter(y=series.high, fill="tonexty", fillcolor=fill, **edge, **group)
    line = {"color": color, "shape": "hv" if series.style == "held" else "linear"}
    if series.style == "dashed" or series.tint >= len(style.TINTS["light"]):
        line["dash"] = DASH
    smooth = panel.noisy and series.style in ("line", "dashed") and len(y) > style.SMOOTH_FROM
    mode = "lines+markers" if series.style == "dots" else "lines"
    yield go.Scatter(y=y, mode=mode, line=line, opacity=0.25 if smooth else 1, showlegend=not smooth, **group)
    if smooth:
        mean = running_mean(y, max(3, len(y) // 100))
        yield go.Scatter(y=mean, mode="lines", line=line, **group)


def _marks(marks: Sequence[Marker], axis: PlotAxis) -> Iterator[go.Scatter]:
    """A trace for each kind of moment and each kind of span: verticals, and rectangles, with a hole between."""
    placed: dict[tuple[str, bool], list[tuple[float, float, str]]] = {}
    for mark in marks:
        if axis.name in mark.x:
            start = mark.x[axis.name]
            end = mark.end.get(axis.name) if mark.end else None
            place = (start, start if end is None else end, _text(mark.text))
            placed.setdefault((mark.kind, end is not None), []).append(place)
    for (kind, is_span), places in placed.items():
        color = style.KINDS["light"][style.kind(kind)]
        yield go.Scatter(
            x=[x for start, end, _ in places for x in (start, start, end, end, start, None)],
            y=[y for _ in places for y in (0, 1, 1, 0, 0, None)],
            text=[text for _, _, text in places for _ in range(6)],
            name=_text(event(kind)),
            mode="lines",
            line={"color": color, "width": 0} if is_span else {"color": color, "width": 1, "dash": "dot"},
            fill="toself" if is_span else "none",
            fillcolor=_faint(color, 0.25),
            hoverinfo="x+text+name",
            yaxis="y2",
        )


def _heat(panel: Heat) -> go.Figure:
    steps = np.linspace(0, 1, len(style.HEAT)).tolist()
    cells = go.Heatmap(
        x=panel.x_edges,
        y=panel.y_edges,
        z=panel.values,
        colorscale=[list(stop) for stop in zip(steps, style.HEAT, strict=True)],
        colorbar={"title": {"text": _title(panel.value)}},
        hoverongaps=False,
    )
    made = go.Figure(cells)
    made.update_xaxes(title=_title(panel.x), type="log" if panel.x.log else "linear")
    made.update_yaxes(title=_title(panel.y), type="log" if panel.y.log else "linear")
    if panel.names:
        made.update_yaxes(
            tickvals=np.arange(len(panel.names)) + 0.5, ticktext=[_text(name) for name in panel.names]
        )
    for level in panel.levels:
        label = {"text": _text(level.text), "textposition": "end", "font": {"color": "white"}}
        made.add_shape(**{**_level(level), "line": {**LEVEL_LINE, "color": "white"}}, label=label)
    return made


def _bars(panel: Bars) -> go.Figure:
    rows = [_text(row) for row in panel.rows]
    made = go.Figure(
        [
            go.Bar(
                x=panel.values[:, part],
                y=rows,
                name=_text(event(name)),
                orientation="h",
                marker={"color": style.KINDS["light"][style.kind(name)]},
            )
            for part, name in enumerate(panel.parts)
        ]
    )
    made.update_layout(barmode="stack")
    made.update_yaxes(autorange="reversed", type="category")
    made.update_xaxes(title=panel.unit or "")
    if panel.whole:
        longest = float(np.nansum(panel.values, axis=1).max(initial=0))
        made.update_xaxes(range=[0, max(panel.whole, longest)])
    return made


def _level(level: Level) -> dict[str, Any]:
    place = {"xref": "x domain", "x0": 0, "x1": 1, "y0": level.value, "y1": level.value}
    return {"type": "line", "name": _text(level.text), "line": LEVEL_LINE, **place}


def _faint(color: str, opacity: float) -> str:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:.3f})"


def _title(axis: PlotAxis) -> str:
    """`power (W)`."""
    return _text(f"{axis.title} ({axis.unit})" if axis.unit else axis.title)


def _text(text: str) -> str:
    """Masked; plotly understands some HTML, so what a log says is escaped."""
    return escape(secrets.mask(text), quote=False)
