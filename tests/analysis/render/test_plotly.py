"""Figures of plotly hold what their panels hold: every number, name, unit, mark and level."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from gputel.analysis.document import Bars, Curves, Document, Heat, Level, Marker, PlotAxis, Section, Series
from gputel.analysis.render import downsample, plotly, style
from gputel.analysis.render.notebook import Figures
from gputel.analysis.render.picture import running_mean
from gputel.telemetry.errors import GputelError

TIME, STEP = PlotAxis("time", "time", "s"), PlotAxis("step", "step", log=True)
X = np.arange(1.0, 101.0)
LOSS = Curves(
    "loss",
    "Loss",
    (TIME, STEP),
    PlotAxis("loss", "loss", "nats"),
    tuple(Series(f"d{n}", {"time": X, "step": 10 * X}, n / X, tint=i) for i, n in enumerate((16, 24))),
    marks=(
        Marker("eval", "validation", {"time": 60.0}, {"time": 90.0}),
        Marker("checkpoint", "saved", {"time": 99.0}),
        Marker("checkpoint", "saved again", {"time": 100.0}),
    ),
    levels=(Level(20.0, "target 20"),),
)
HEAT = Heat(
    "spectrogram",
    "Spectrogram",
    TIME,
    PlotAxis("frequency", "frequency", "Hz"),
    PlotAxis("density", "density", "dB"),
    np.arange(5) * 3600.0,
    np.arange(4.0),
    np.arange(12.0).reshape(3, 4),
    (Level(1.5, "limit"),),
)
BARS = Bars(
    "memory",
    "Memory",
    "GiB",
    ("d16", "d24"),
    ("weights", "logits"),
    np.array([[9, 6], [8, np.nan]]),
    whole=80.0,
)


def named(figure: go.Figure, name: str) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.name == name]


def test_curves_hold_the_numbers_names_units_and_colors_of_the_panel() -> None:
    figure = plotly.figure(LOSS)
    assert figure.layout.title.text == "Loss"
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("time (s)", "loss (nats)")
    for series in LOSS.series:
        (curve,) = named(figure, series.name)
        np.testing.assert_array_equal(curve.x, series.x["time"])
        np.testing.assert_array_equal(curve.y, series.y)
        assert curve.line.color == style.TINTS["light"][series.tint]


def test_axis_is_chosen_by_name_and_is_logarithmic_where_the_panel_says_so() -> None:
    figure = plotly.figure(LOSS, x="step")
    np.testing.assert_array_equal(figure.data[0].x, 10 * X)
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "linear")
    assert plotly.figure(replace(LOSS, log=True)).layout.yaxis.type == "log"


def test_axis_that_the_panel_lacks_is_refused() -> None:
    with pytest.raises(GputelError) as refused:
        plotly.figure(LOSS, x="tokens")
    assert str(refused.value) == "x='tokens': is not an axis of loss; one of time, step"
    with pytest.raises(GputelError, match="memory has one axis"):
        plotly.figure(BARS, x="time")


def test_marks_and_levels_are_drawn_where_the_panel_has_them() -> None:
    figure = plotly.figure(LOSS)
    (span,), (saved,) = named(figure, "evaluation"), named(figure, "checkpoint")
    assert (span.x[0], span.x[2], span.fill, span.text[0]) == (60.0, 90.0, "toself", "validation")
    assert [x for x in saved.x if x is not None] == [99.0] * 5 + [100.0] * 5
    assert saved.line.color == style.KINDS["light"]["checkpoint"]
    (level,) = figure.layout.shapes
    assert (level.name, level.y0, level.y1, level.showlegend) == ("target 20", 20.0, 20.0, True)
    assert not [trace for trace in plotly.figure(LOSS, x="step").data if trace.name == "evaluation"]


def test_band_lies_between_low_and_high() -> None:
    series = replace(LOSS.series[0], low=LOSS.series[0].y - 1, high=LOSS.series[0].y + 1, style="dashed")
    low, high, curve = plotly.figure(replace(LOSS, series=(series,), marks=())).data
    np.testing.assert_array_equal(low.y, series.low)
    np.testing.assert_array_equal(high.y, series.high)
    assert (high.fill, curve.line.dash) == ("tonexty", plotly.DASH)


def test_noisy_curve_is_faint_under_its_running_mean() -> None:
    x = np.arange(1000.0)
    series = Series("d16", {"time": x}, np.cos(x))
    faint, mean = plotly.figure(replace(LOSS, series=(series,), marks=(), noisy=True)).data
    np.testing.assert_array_equal(faint.y, series.y)
    np.testing.assert_array_equal(mean.y, running_mean(series.y, 10))
    assert (faint.opacity, faint.showlegend, mean.showlegend) == (0.25, False, None)


def test_curve_that_is_too_long_for_a_page_is_thinned_with_its_extremes() -> None:
    y = np.zeros(downsample.BUDGET + 1)
    y[1234] = 9.0
    series = Series("power", {"time": np.arange(len(y))}, y)
    _, high, curve = plotly.figure(replace(LOSS, series=(series,), marks=())).data
    assert len(curve.y) < len(y)
    assert max(high.y) == 9.0


def test_heat_map_has_cells_edges_units_and_colors_of_the_panel() -> None:
    figure = plotly.figure(HEAT)
    (cells,) = figure.data
    np.testing.assert_array_equal(cells.x, HEAT.x_edges)
    np.testing.assert_array_equal(cells.y, HEAT.y_edges)
    np.testing.assert_array_equal(cells.z, HEAT.values)
    assert tuple(color for _, color in cells.colorscale) == style.HEAT
    assert cells.colorbar.title.text == "density (dB)"
    assert figure.layout.shapes[0].label.text == "limit"


def test_bars_are_stacked_and_end_at_the_whole() -> None:
    figure = plotly.figure(BARS)
    for part, bar in enumerate(figure.data):
        np.testing.assert_array_equal(bar.x, BARS.values[:, part])
        assert (bar.y, bar.name) == (BARS.rows, BARS.parts[part])
        assert bar.marker.color == style.KINDS["light"][BARS.parts[part]]
    assert (figure.layout.barmode, figure.layout.xaxis.range) == ("stack", (0, 80))


def test_names_from_logs_are_text_and_the_caution_stands_below_the_title() -> None:
    series = replace(LOSS.series[0], name="<a href=x>d16</a>")
    figure = plotly.figure(replace(LOSS, series=(series,)), "SIMULATED")
    assert figure.data[0].name == "&lt;a href=x&gt;d16&lt;/a&gt;"
    assert figure.layout.title.subtitle.text == "SIMULATED"


def test_every_panel_of_a_page_becomes_a_figure() -> None:
    figures = Figures(Document("page", (Section(items=(LOSS, HEAT, BARS)),), caution="SIMULATED"))
    for panel in figures.values():
        assert panel.plotly().layout.title.subtitle.text == "SIMULATED"
    assert figures["loss"].plotly(x="step").layout.xaxis.title.text == "step"


def test_missing_plotly_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gputel.analysis.render.plotly")
    monkeypatch.delattr("gputel.analysis.render.plotly")
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(GputelError) as missing:
        Figures(Document("page", (Section(items=(LOSS,)),)))["loss"].plotly()
    assert str(missing.value) == "plotly: is not installed; pip install 'gputel[notebook]'"
