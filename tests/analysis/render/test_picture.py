"""Pictures, by what stands in them: curves, labels, units, ranges; not by pixels."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gputel.analysis.document import Bars, Curves, Document, Heat, Level, Marker, Panel, PlotAxis, Series
from gputel.analysis.render import style
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOURS = PlotAxis("time", "time", "s")
X = np.linspace(0, 4 * 3600, 2000)
LOSS = Curves(
    "loss",
    "Loss",
    (HOURS,),
    PlotAxis("loss", "loss"),
    tuple(Series(f"d{n}", {"time": X}, n + np.cos(X), run=f"d{n}", tint=i) for i, n in enumerate((16, 24))),
    marks=(
        Marker("eval", "validation", {"time": 60.0}, {"time": 90.0}),
        Marker("checkpoint", "saved", {"time": 99.0}),
    ),
    levels=(Level(20.0, "target 20"),),
    noisy=True,
)
NARROW = Series("d16", {"time": X}, 3 + 0.3 * np.cos(X))
HEAT = Heat(
    "s",
    "Spectrogram",
    HOURS,
    PlotAxis("f", "frequency", "Hz"),
    PlotAxis("p", "density", "dB"),
    np.arange(5) * 3600.0,
    np.arange(4.0),
    np.arange(12.0).reshape(3, 4),
    (Level(1.5, "limit"),),
)
BARS = Bars(
    "b", "Where the time went", "s", ("d16", "d24"), ("train", "eval"), np.array([[9000, 60], [8000, np.nan]])
)


def figure(panels: Sequence[Panel], **how: Any) -> Figure:
    """Imports matplotlib, which takes a second, where these tests run and not where they are collected."""
    from gputel.analysis.render import picture

    return picture.figure(panels, **how)


def drawn(panels: Sequence[Panel], kind: str, *how: Any) -> bytes:
    from gputel.analysis.render import picture

    return picture.drawn(panels, kind, *how)


def test_curves_have_names_units_and_hours() -> None:
    (axes,) = figure([LOSS]).axes
    assert axes.get_title("left") == "Loss"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (h)", "loss")
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "d16",
        "d24",
        "evaluation",
        "checkpoint",
        "target 20",
    ]
    assert not axes.texts  # beside its line the level's name would lie on the curves
    low, high = axes.get_ylim()
    assert low < 15
    assert high > 25
    labels = [axes.xaxis.get_major_formatter()(tick, 0) for tick in axes.get_xticks()]
    assert {"0", "1", "2", "3", "4"} <= set(labels)


def test_first_evaluation_runs_out_of_the_picture() -> None:
    step, values = np.arange(5.0), np.array([11.0, 2.2, 1.7, 1.6, 1.5])
    evaluated = replace(
        LOSS, levels=(), noisy=False, series=(Series("d16", {"time": step}, values, style="dots"),)
    )
    (axes,) = figure([evaluated]).axes
    assert 2.2 <= axes.get_ylim()[1] < 4


@pytest.mark.parametrize("banded", [False, True])
def test_two_slow_steps_of_a_short_run_run_out_of_the_picture_but_no_means(banded: bool) -> None:
    x, values = np.arange(40.0), np.append([10.0, 20.0], np.full(38, 400.0))
    band = (values - 9, values + 9) if banded else (None, None)
    series = (Series("d16", {"time": x}, values, *band),)
    (axes,) = figure([replace(LOSS, levels=(), noisy=False, steady=True, series=series)]).axes
    assert (axes.get_ylim()[0] < 10) == banded


def test_noisy_curve_is_drawn_faint_under_its_running_mean() -> None:
    (axes,) = figure([LOSS]).axes
    faint = [line for line in axes.get_lines() if line.get_alpha()]
    strong = [line for line in axes.get_lines() if line.get_label() in ("d16", "d24")]
    assert len(faint) == len(strong) == 2
    assert np.ptp(np.asarray(strong[0].get_ydata())[100:-100]) < np.ptp(np.asarray(faint[0].get_ydata()))


def test_colors_are_those_of_the_page() -> None:
    (axes,) = figure([LOSS]).axes
    colors = {line.get_label(): line.get_color() for line in axes.get_lines()}
    assert (colors["d16"], colors["d24"]) == style.TINTS["light"][:2]


def test_heat_map_has_its_key_and_its_line() -> None:
    axes, key = figure([HEAT]).axes
    assert (axes.get_ylabel(), key.get_ylabel()) == ("frequency (Hz)", "density (dB)")
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["limit"]
    assert axes.get_xlim() == (0, 4 * 3600)


def test_bars_are_hours_where_they_are_long() -> None:
    (axes,) = figure([BARS]).axes
    assert axes.get_xlabel() == "h"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["d16", "d24"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["training", "evaluation"]
    assert [round(float(patch.get_width()), 3) for patch in axes.patches] == [2.5, 2.222, 0.017, 0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
@pytest.mark.parametrize("panel", [LOSS, HEAT, BARS], ids=lambda panel: panel.name)
def test_every_panel_is_a_file_of_every_kind_that_says_its_caution(panel: Panel, kind: str) -> None:
    made = drawn([panel], kind, Document("a run", [], caution="SIMULATED: 2xH100"))
    assert made.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind])
    if kind == "svg":
        assert b"SIMULATED: 2xH100" in made
        assert panel.title.encode() in made


def test_several_panels_stand_below_each_other() -> None:
    made = figure([LOSS, BARS])
    assert [axes.get_title("left") for axes in made.axes] == ["Loss", "Where the time went"]
    assert made.get_figheight() > figure([LOSS]).get_figheight()


def test_width_font_and_dpi_are_those_asked_for() -> None:
    look = style.PictureLook(width=6.75, font=9, dpi=100)
    made = figure([LOSS], look=look)
    assert (made.get_figwidth(), made.dpi) == (6.75, 100)
    assert made.axes[0].xaxis.label.get_fontsize() == 9


@pytest.mark.parametrize(
    ("width", "font", "side_by_side"), [(3.25, 8, 1), (6.75, 8, 2), (6.75, 12, 1), (12, 8, 3)]
)
def test_picture_of_several_panels_is_as_wide_as_asked_for(
    width: float, font: float, side_by_side: int
) -> None:
    made = figure([LOSS] * 3, look=style.PictureLook(width=width, font=font))
    assert made.get_figwidth() == width
    made.draw_without_rendering()
    assert len({axes.get_position().x0 for axes in made.axes}) == side_by_side


def test_picture_higher_than_a_page_is_refused_and_a_pdf_has_pages() -> None:
    look = style.PictureLook(width=3.25)
    with pytest.raises(GputelError) as raised:
        drawn([LOSS] * 9, "png", Document("a run", []), look)
    fault = "9 panels below each other are higher than a page of a picture 3.25 in wide"
    assert (raised.value.place, raised.value.fault) == ("--width", fault)
    assert drawn([LOSS] * 9, "pdf", Document("a run", []), look).count(b"/Type /Page ") == 3


def test_ticks_of_an_axis_have_the_same_letter_and_decimals() -> None:
    (axes,) = figure([replace(LOSS, series=(NARROW,), marks=(), levels=())]).axes
    texts = axes.yaxis.get_major_formatter().format_ticks
    assert texts([3, 3.25, 3.5]) == ["3.00", "3.25", "3.50"]
    assert texts([0, 5000, 10_000, 12_500]) == ["0", "5.0k", "10.0k", "12.5k"]
    assert texts([-0.1, 0, 0.1]) == ["−0.1", "0", "0.1"]
    assert texts([0, 2e-5]) == ["0", "2e-05"]


def test_axis_begins_where_the_curves_do_and_what_happened_before_is_left_out() -> None:
    x = np.linspace(7200, 7800, 50)
    late = replace(LOSS, series=(Series("d16", {"time": x}, np.ones(50)),), levels=())
    (axes,) = figure([late]).axes
    assert 7190 < axes.get_xlim()[0] < 7200
    assert axes.get_legend() is None


def test_one_long_run_does_not_squash_the_others_and_the_axis_says_how_far_it_goes() -> None:
    runs = [
        Series(f"d{n}", {"step": np.arange(n)}, np.full(n, 3.0), run=f"d{n}") for n in (90, 100, 110, 8000)
    ]
    (axes,) = figure([replace(LOSS, axes=(PlotAxis("step", "step"),), series=tuple(runs), marks=())]).axes
    assert 109 <= axes.get_xlim()[1] < 112
    assert axes.get_xlabel() == "step; d8000 goes on to 7,999"


def test_many_panels_stand_in_columns() -> None:
    made = figure([LOSS] * 8)
    assert made.get_figwidth() == 2 * style.LOOKS["paper"].panel
    assert made.get_figheight() < 1.6 * made.get_figwidth()


@pytest.mark.needs("poppler")
def test_many_panels_are_pages_of_a_pdf_as_large_as_paper(tmp_path: Path) -> None:
    file = tmp_path / "all.pdf"
    file.write_bytes(drawn([LOSS] * 11, "pdf", Document("a run", [], caution="SIMULATED: 2xH100")))
    facts = subprocess.run(["pdfinfo", "-l", "2", file], capture_output=True, text=True, check=True).stdout
    assert "Pages:           2\n" in facts
    sizes = re.findall(r"Page +\d size: +([\d.]+) x ([\d.]+) pts", facts)
    assert len(sizes) == 2
    assert all(float(width) < 612 and float(height) < 842 for width, height in sizes)
    text = subprocess.run(["pdftotext", file, "-"], capture_output=True, text=True, check=True).stdout
    assert text.count("SIMULATED: 2xH100") == 2


def test_loss_is_drawn_where_it_settles_with_its_last_value() -> None:
    y = 3 + 8 * np.exp(-np.arange(2000) / 20)
    y[-1] = 4.5
    falling = replace(LOSS, series=(Series("d16", {"time": np.arange(2000.0)}, y),), marks=(), levels=())
    low, high = figure([falling]).axes[0].get_ylim()
    assert low < 3.01
    assert 4.5 < high < 6


def test_legend_of_many_runs_names_twelve_and_counts_the_rest() -> None:
    many = replace(
        LOSS, series=tuple(replace(LOSS.series[0], name=f"r{n}") for n in range(40)), marks=(), levels=()
    )
    (axes,) = figure([many]).axes
    legend = axes.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert (len(texts), texts[-1]) == (13, "and 28 more")


def test_names_are_text_and_no_formula_and_keys_are_masked() -> None:
    odd = replace(
        LOSS, series=(replace(LOSS.series[0], name="a_$x^2 sk-abcdefghijklmnopqrstuvwx"), LOSS.series[1])
    )
    made = drawn([odd], "svg", Document("a run", []))
    assert b"a_$x^2 ***" in made


def test_picture_of_nothing_measured_is_still_a_picture() -> None:
    empty = replace(
        LOSS, series=(Series("a", {"time": X}, np.full(len(X), np.nan)),), marks=(), levels=(), steady=True
    )
    assert drawn([empty], "png", Document("a run", [])).startswith(b"\x89PNG")
