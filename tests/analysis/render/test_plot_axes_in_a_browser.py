"""What the x axes of plots can be, and which plots are drawn when."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gputel.analysis.document import (
    Conversion,
    Curves,
    Document,
    Heat,
    Marker,
    PlotAxis,
    Section,
    Series,
    Table,
)
from gputel.analysis.render import html, ranges
from tests.browser import Browser, Tab

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.long]

STEP, TIME = PlotAxis("step", "step"), PlotAxis("time", "time", "s", 0)


def opened(chromium: Browser, folder: Path, *items: Curves | Heat | Table, runs: tuple[str, ...] = ()) -> Tab:
    file = folder / "page.html"
    file.write_bytes(html.html(Document("runs", [Section("", items, wide=True)], runs=runs)))
    tab = chromium.tab(1280, 900)
    tab.open(file)
    return tab


def choose(tab: Tab, axis: str) -> None:
    change = f"s.value = {json.dumps(axis)}; s.dispatchEvent(new Event('change'))"
    tab.evaluate(f"(s => {{ {change} }})(document.getElementById('axis'))")


def loss(*lengths: int) -> Curves:
    series = [
        Series(
            f"run{n}",
            {"step": np.arange(float(length))},
            9 - np.arange(length) / length,
            run=f"run{n}",
            tint=n,
        )
        for n, length in enumerate(lengths)
    ]
    marks = (Marker("nan", "nan", {"step": 50.0}, run="run0"),)
    return Curves("loss", "Loss", (STEP,), PlotAxis("loss", "loss"), tuple(series), marks, link="runs")


def test_long_run_does_not_squash_short_ones_by_share_of_the_run(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(101, 100_001), runs=("run0", "run1"))
    assert tab.evaluate("[charts[0].frame.xs.low, charts[0].frame.xs.high]") == [0, 100_000]
    choose(tab, "share")
    assert tab.evaluate("[charts[0].frame.xs.low, charts[0].frame.xs.high]") == [0, 100]
    ends = "charts[0].series.map(own => [own.x.share[0], own.x.share[own.x.share.length - 1]])"
    assert tab.evaluate(ends) == [[0, 100], [0, 100]]
    assert tab.evaluate("charts[0].panel.marks[0].x.share") == 50


def test_first_view_ends_where_most_runs_end_and_says_which_goes_on(
    chromium: Browser, tmp_path: Path
) -> None:
    lengths = (4_001, 401, 301, 401)
    tab = opened(chromium, tmp_path, loss(*lengths), runs=tuple(f"run{n}" for n in range(4)))
    shown = "[charts[0].frame.xs.low, charts[0].frame.xs.high]"
    assert tab.evaluate(shown) == [0, 400]
    title = "titleOfAxis(charts[0])"
    assert tab.evaluate(title) == "step; run0 goes on to 4,000 (double click shows all)"
    tab.evaluate("resetZoom()")
    assert tab.evaluate(shown) == [0, 4_000]
    assert tab.evaluate(title) == "step"


def test_first_view_is_whole_where_many_runs_are_long(chromium: Browser, tmp_path: Path) -> None:
    runs = tuple(f"run{n}" for n in range(4))
    tab = opened(chromium, tmp_path, loss(4_001, 4_001, 301, 401), runs=runs)
    assert tab.evaluate("charts[0].frame.xs.high") == 4_000


@pytest.mark.parametrize(
    "lengths",
    [(5, 6), (5, 6, 7), (5, 6, 400), (5, 6, 7, 15, 16, 400), (1, 1, 9), (2, 2, 2, 50, 60), (3, 9, 27, 81)],
)
def test_pages_and_pictures_have_the_same_first_range(
    chromium: Browser, tmp_path: Path, lengths: tuple[int, ...]
) -> None:
    runs = tuple(f"run{n}" for n in range(len(lengths)))
    panel = loss(*lengths)
    tab = opened(chromium, tmp_path, panel, runs=runs)
    known = ranges.across(panel.series, STEP)
    assert known is not None
    assert tab.evaluate("firstRange(charts[0])") == [known.low, known.high]
    assert tab.evaluate("mostRuns(charts[0])?.longer ?? []") == [*known.longer]
    assert tab.evaluate("titleOfAxis(charts[0])").replace(" (double click shows all)", "") == known.title(
        STEP
    )


def many_runs(chromium: Browser, folder: Path) -> Tab:
    names = tuple(f"run{n}" for n in range(40))
    table = Table("Summary", ("run", "loss"), [(name, 3.0) for name in names])
    return opened(chromium, folder, table, loss(*[20] * 40), runs=names)


def test_plots_below_a_long_table_begin_on_the_first_screen_and_paper_has_every_row(
    chromium: Browser, tmp_path: Path
) -> None:
    tab = many_runs(chromium, tmp_path)
    assert tab.evaluate("document.getElementById('loss').getBoundingClientRect().top") < 900
    head, row = (
        f"document.querySelector('{cell}').getBoundingClientRect()" for cell in ("thead th", "tbody th")
    )
    tab.evaluate("document.querySelector('.scroll').scrollTop = 200")
    assert tab.evaluate(f"{head}.top > {row}.bottom")
    tab.call("Emulation.setEmulatedMedia", media="print")
    assert tab.evaluate("(b => b.scrollHeight === b.clientHeight)(document.querySelector('.scroll'))")


def test_link_to_a_plot_brings_it_to_below_the_controls(chromium: Browser, tmp_path: Path) -> None:
    tab = many_runs(chromium, tmp_path)
    tab.evaluate("document.querySelector('main').style.paddingBottom = '2000px'; location.hash = '#loss'")
    tab.until("scrollY > 0")
    top = tab.evaluate("document.getElementById('loss').getBoundingClientRect().top")
    assert 0 <= top - tab.evaluate("document.querySelector('.bar').offsetHeight") < 20


def recording() -> tuple[Curves, Curves]:
    """A power curve over 100 s; steps 0 to 20 were done from 40 s to 80 s."""
    seconds = np.arange(101.0)
    power = Series("GPU 0", {"time": seconds}, 500 + seconds)
    done = np.arange(21.0)
    trained = Series("d16", {"time": 40 + 2 * done, "step": done}, 9 - done / 10, run="d16")
    return (
        Curves("power", "Power", (TIME,), PlotAxis("power", "Power", "W"), (power,), link="recording"),
        Curves("loss", "Loss", (TIME, STEP), PlotAxis("loss", "loss"), (trained,), link="recording"),
    )


def test_readings_of_gpus_lie_on_the_steps_of_the_run(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, *recording())
    choose(tab, "step")
    assert tab.evaluate("charts.map(chart => chart.axis().name)") == ["step", "step"]
    steps = tab.evaluate("[0, 40, 41, 60, 80, 100].map(at => charts[0].series[0].x.step[at])")
    assert steps == [0, 0, 0.5, 10, 20, 20]


HUNDRED = tuple(
    Curves(
        f"m{n}",
        f"m{n}",
        (STEP,),
        PlotAxis("m", "m"),
        (Series("a", {"step": np.arange(9.0)}, np.arange(9.0)),),
    )
    for n in range(100)
)


def test_plots_far_below_the_window_are_drawn_when_they_come_near(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, *HUNDRED)
    drawn = "charts.filter(chart => chart.frame).length"
    assert 4 <= tab.evaluate(drawn) < 20
    tab.evaluate("charts[99].over.scrollIntoView()")
    tab.until("charts[99].frame")
    assert tab.evaluate(drawn) < 50
    tab.evaluate("layOutForPrint()")
    assert tab.evaluate(drawn) == 100


def test_search_finds_one_of_a_hundred_plots_and_draws_it(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, *HUNDRED)
    tab.evaluate(
        "(field => { field.value = 'm87'; field.dispatchEvent(new Event('input')); })"
        "(document.querySelector('#controls .search'))"
    )
    assert tab.evaluate("[...document.querySelectorAll('figure:not([hidden])')].map(own => own.id)") == [
        "m87"
    ]
    assert tab.evaluate("Boolean(charts[87].frame)")


def test_search_takes_a_regular_expression(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, *HUNDRED)
    typed = (
        "(field => {{ field.value = {}; field.dispatchEvent(new Event('input')); }})"
        "(document.querySelector('#controls .search'))"
    )
    shown = "[...document.querySelectorAll('figure:not([hidden])')].map(own => own.id)"
    tab.evaluate(typed.format(json.dumps("^m(7|8)$|m9[01]")))
    assert tab.evaluate(shown) == ["m7", "m8", "m90", "m91"]
    tab.evaluate(typed.format(json.dumps("m(7")))  # not an expression yet
    assert tab.evaluate(shown) == []


def test_curve_that_is_not_shown_at_first_comes_at_a_click(chromium: Browser, tmp_path: Path) -> None:
    x = {"time": np.arange(9.0)}
    series = (
        Series("mean of 8 GPUs", x, np.arange(9.0)),
        Series("GPU 0", x, np.arange(9.0), tint=1, shown=False),
    )
    panel = Curves("power", "Power", (TIME,), PlotAxis("power", "Power", "W"), series)
    tab = opened(chromium, tmp_path, panel)
    shown = "charts[0].shown().map(own => own.name)"
    assert tab.evaluate(shown) == ["mean of 8 GPUs"]
    pressed = "charts[0].series[1].chip.getAttribute('aria-pressed')"
    assert tab.evaluate(pressed) == "false"
    assert tab.box("figure .folded")[2] == 0
    more = "document.querySelector('figure [aria-expanded]')"
    assert tab.evaluate(f"[{more}.textContent, {more}.ariaExpanded]") == ["1 more", "false"]
    tab.click("figure [aria-expanded]")
    assert tab.evaluate(f"{more}.ariaExpanded") == "true"
    tab.click("figure .folded button")
    assert tab.evaluate(shown) == ["mean of 8 GPUs", "GPU 0"]


def test_rows_of_a_heat_map_have_the_names_of_its_gpus(chromium: Browser, tmp_path: Path) -> None:
    heat = Heat(
        "power-by-gpu", "Power by GPU", TIME, PlotAxis("gpu", "GPU"), PlotAxis("power", "Power", "W"),
        np.arange(11.0), np.arange(9.0), np.full((8, 10), 600.0), names=tuple(f"GPU {n}" for n in range(8)),
    )  # fmt: skip
    tab = opened(chromium, tmp_path, heat)
    tab.point('[data-panel="0"] .over', 0.5, 0.3)
    result = tab.evaluate("document.getElementById('hover').innerText")
    assert "GPU " in result
    assert "600 W" in result


def test_readings_and_losses_lie_on_energy_and_the_wall_clock(chromium: Browser, tmp_path: Path) -> None:
    """100 J a second, from the moment 2026-11-22 00:00:00 on."""
    seconds = np.array([0.0, 100.0])
    energy = Conversion("recording", PlotAxis("energy", "energy", "J"), seconds, 100 * seconds)
    start = PlotAxis("time", "time", "s", 1_795_305_600 * 10**9)
    panels = [replace(panel, axes=(start, *panel.axes[1:])) for panel in recording()]
    file = tmp_path / "page.html"
    file.write_bytes(html.html(Document("d16", [Section("", panels)], conversions=(energy,))))
    tab = chromium.tab(1280, 900)
    tab.open(file)
    offered = "[...document.getElementById('axis').options].map(own => own.value)"
    assert tab.evaluate(offered) == ["time", "step", "energy", "clock"]
    choose(tab, "energy")
    assert tab.evaluate("charts.map(chart => chart.series[0].x.energy[20])") == [2000, 8000]
    tab.point('[data-panel="1"] .over', 0.5)
    assert tab.evaluate("document.querySelector('#hover .where').textContent") == "energy 4,600.0 J"
    choose(tab, "clock")
    tab.point('[data-panel="1"] .over', 0.5)
    where = tab.evaluate("document.querySelector('#hover .where').textContent")
    assert where.startswith("2026-11-22 00:0")
    assert where.endswith(" UTC")
    assert tab.evaluate("shortClock(1795305600 + 52215, 15)") == "14:30:15"
    assert tab.evaluate("shortClock(1795305600, 3600)") == "11-22"


def test_runs_of_logs_with_timestamps_lie_on_the_wall_clock(chromium: Browser, tmp_path: Path) -> None:
    x = {"step": np.arange(9.0), "time": np.arange(9.0)}
    series = [
        Series(name, x, np.arange(9.0), run=name, start_ns=start * 10**9)
        for name, start in (("first", 1_795_305_600), ("second", 1_795_309_200))
    ]
    time = PlotAxis("time", "time", "s")
    panel = Curves("loss", "Loss", (STEP, time), PlotAxis("loss", "loss"), tuple(series), link="runs")
    tab = opened(chromium, tmp_path, panel, runs=("first", "second"))
    choose(tab, "clock")
    assert tab.evaluate("charts[0].series.map(own => own.x.clock[8])") == [1_795_305_608, 1_795_309_208]
