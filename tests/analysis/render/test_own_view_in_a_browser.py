"""A page as a person arranges it: pinned plots, a metric against another, colors, ranges, all in its address."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gputel.analysis.document import Curves, Document, PlotAxis, Section, Series
from gputel.analysis.render import html
from tests.browser import Browser, Tab
from tests.browser.axe import violations

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.long]

STEP = PlotAxis("step", "step")
SHOWN = "[...document.querySelectorAll('figure')].map(own => own.id)"
POINTS = "against.chart.series.map(own => [own.name, [...own.x.against], [...own.y]])"


def metric(name: str, **runs: tuple[list[float], list[float]]) -> Curves:
    series = (
        Series(run, {"step": np.array(step)}, np.array(y), run=run, tint=tint)
        for tint, (run, (step, y)) in enumerate(runs.items())
    )
    title = name.replace("_", " ").capitalize()
    return Curves(name, title, (STEP,), PlotAxis(name, name), tuple(series), link="runs")


LOSS = metric("loss", d16=([0, 10, 20], [9, 5, 4]), d24=([0, 10, 20], [8, 4, 3]))
VALIDATION = metric("val_loss", d16=([5, 15], [8, 6]), d24=([5, 25], [7, 5]))
MFU = metric("mfu", d16=([0, 10, 20], [40, 44, 42]))
RUNS = ("d16", "d24")


def opened(chromium: Browser, folder: Path, *, phone: bool = False) -> Tab:
    file = folder / "page.html"
    sections = [Section("Training", [LOSS, VALIDATION], wide=True), Section("Speed", [MFU], wide=True)]
    file.write_bytes(html.html(Document("runs", sections, runs=RUNS)))
    tab = chromium.tab(390 if phone else 1280, 900, phone=phone)
    tab.open(file)
    return tab


def press(tab: Tab, within: str, name: str) -> None:
    """By keyboard: the chip has the focus, and Enter is pressed."""
    chips = f"[...document.querySelectorAll('{within} button')]"
    tab.evaluate(f"{chips}.find(own => own.textContent === {json.dumps(name)}).focus()")
    key(tab, "Enter", 13, "\r")


def key(tab: Tab, name: str, code: int, text: str = "") -> None:
    for kind in ("keyDown", "keyUp"):
        tab.call(
            "Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, text=text
        )


def choose(tab: Tab, label: str, value: str) -> None:
    """In a list; the page draws the plot anew, and the focus stays."""
    field = f"document.querySelector('.against [aria-label=\"{label}\"]')"
    tab.evaluate(f"{field}.value = {json.dumps(value)}; {field}.dispatchEvent(new Event('change'))")


def test_metric_is_drawn_against_another_at_equal_steps(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path)
    press(tab, "#controls", "y against x")
    choose(tab, "y", "val_loss")
    choose(tab, "x", "loss")
    assert tab.evaluate(POINTS) == [["d16", [4.5, 7.0], [6.0, 8.0]], ["d24", [6.0], [7.0]]]
    assert tab.evaluate("document.querySelector('.against h2').textContent") == "Val loss against Loss"
    assert tab.evaluate("document.activeElement.ariaLabel") == "x"
    assert tab.evaluate("against.chart.axis().title") == "Loss"
    press(tab, "#controls", "y against x")
    assert tab.evaluate(SHOWN) == ["loss", "val_loss", "mfu"]
    assert tab.errors == []


def test_run_without_the_other_metric_has_no_points(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path)
    tab.evaluate("drawAgainst(chartNamed('mfu'), chartNamed('loss'))")
    assert tab.evaluate(POINTS) == [["d16", [4.0, 5.0, 9.0], [42.0, 44.0, 40.0]]]
    tab.evaluate("drawAgainst(chartNamed('loss'), chartNamed('mfu'))")
    assert tab.evaluate(POINTS) == [["d16", [40.0, 42.0, 44.0], [9.0, 4.0, 5.0]]]


def test_readings_of_a_gpu_are_drawn_against_others_of_the_same_gpu(
    chromium: Browser, tmp_path: Path
) -> None:
    def of_gpus(panel: str, *names: str) -> Curves:
        series = (
            Series(name, {"time": np.arange(2.0)}, np.full(2, float(n))) for n, name in enumerate(names)
        )
        axis = PlotAxis("time", "time", "s")
        return Curves(panel, panel, (axis,), PlotAxis(panel, panel), tuple(series), link="recording")

    power = of_gpus("power", "mean of 11 GPUs", "GPU 0", "GPU 1", "GPU 10")
    clocks = of_gpus("clocks", "GPU 10 SM", "GPU 1 SM")
    loss = of_gpus("loss", "d16")
    file = tmp_path / "page.html"
    file.write_bytes(html.html(Document("d16", [Section("", [power, clocks, loss])], runs=("d16",))))
    tab = chromium.tab(1280, 900)
    tab.open(file)
    tab.evaluate("drawAgainst(chartNamed('clocks'), chartNamed('power'))")
    assert tab.evaluate(POINTS) == [
        ["GPU 10 SM against GPU 10", [3.0, 3.0], [0.0, 0.0]],
        ["GPU 1 SM against GPU 1", [2.0, 2.0], [1.0, 1.0]],
    ]
    tab.evaluate("drawAgainst(chartNamed('loss'), chartNamed('power'))")
    assert tab.evaluate(f"{POINTS}[0][0]") == "d16 against mean of 11 GPUs"


def test_pinned_plot_stands_first_and_goes_back(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, phone=True)
    press(tab, "#mfu", "pin")
    assert tab.evaluate(SHOWN) == ["mfu", "loss", "val_loss"]
    press(tab, "#val_loss", "pin")
    assert tab.evaluate(SHOWN) == ["mfu", "val_loss", "loss"]
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    press(tab, "#mfu", "pin")
    press(tab, "#val_loss", "pin")
    assert tab.evaluate(SHOWN) == ["loss", "val_loss", "mfu"]


def test_run_is_drawn_in_the_color_that_was_chosen(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path)
    press(tab, "#controls", "colors")
    field = "document.querySelector('dialog input[aria-label=d24]')"
    assert tab.evaluate(f"{field}.value") == tab.evaluate("tint(1)")
    tab.evaluate(f"{field}.value = '#123456'; {field}.dispatchEvent(new Event('input'))")
    press(tab, "dialog", "close")
    chips = "[...document.querySelectorAll('#controls .chip')].filter(chip => chip.textContent === 'd24')"
    assert tab.evaluate(f"{chips}[0].querySelector('i').style.background") == "rgb(18, 52, 86)"
    assert tab.evaluate("[tint(0) === '#123456', tint(1)]") == [False, "#123456"]


def test_range_is_typed_for_other_plots_too(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path)
    field, ranges = "document.querySelector('dialog input')", "charts.map(chart => chart.yZoom)"
    for typed, outcome in (
        ("3, 6, val", [[3, 6], [3, 6], None]),
        ("6, 3", [[3, 6], [3, 6], None]),
        ("", [None, [3, 6], None]),
    ):
        press(tab, "#loss", "y range")
        tab.evaluate(f"{field}.select()")
        key(tab, "Backspace", 8)
        tab.call("Input.insertText", text=typed)
        key(tab, "Enter", 13, "\r")
        press(tab, "dialog", "close")
        assert tab.evaluate(ranges) == outcome


def test_address_brings_the_arranged_page_back(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path)
    press(tab, "#mfu", "pin")
    press(tab, "#controls", "y against x")
    choose(tab, "x", "val_loss")
    tab.evaluate("paintRun('d24', '#123456'); chartNamed('val_loss').yZoom = [4, 8]; redraw()")
    press(tab, "#loss", "link")
    link, page = tab.evaluate("location.href"), tab.evaluate(SHOWN)
    assert page == ["against", "mfu", "loss", "val_loss"]
    other = chromium.tab(1280, 900)
    other.open(link)
    assert other.evaluate(SHOWN) == page
    assert other.evaluate(POINTS) == tab.evaluate(POINTS)
    assert other.evaluate("[tint(1), chartNamed('val_loss').yZoom]") == ["#123456", [4, 8]]
    pressed = "[...document.querySelectorAll('#controls [aria-pressed=true]')].map(chip => chip.textContent)"
    assert "y against x" in other.evaluate(pressed)
    assert other.errors == []


def test_first_evaluation_runs_out_of_the_plot(chromium: Browser, tmp_path: Path) -> None:
    step = np.arange(0.0, 500, 100)
    evaluated = Series("d16", {"step": step}, np.array([11.0, 2.2, 1.7, 1.6, 1.5]), run="d16", style="dots")
    file = tmp_path / "page.html"
    panel = Curves("val_loss", "Validation loss", (STEP,), PlotAxis("val_loss", "val_loss"), (evaluated,))
    file.write_bytes(html.html(Document("d16", [Section("", [panel])])))
    tab = chromium.tab(1280, 900)
    tab.open(file)
    assert 2.2 <= tab.evaluate("charts[0].frame.ys.high") < 4
    press(tab, '[data-panel="0"]', "all values")
    assert tab.evaluate("charts[0].frame.ys.high") > 11


@pytest.mark.parametrize("banded", [False, True])
def test_two_slow_steps_of_a_short_run_run_out_of_the_plot_but_no_means(
    banded: bool, chromium: Browser, tmp_path: Path
) -> None:
    step, values = np.arange(40.0), np.append([10.0, 20.0], np.full(38, 400.0))
    band = (values - 9, values + 9) if banded else (None, None)
    series = (Series("d16", {"step": step}, values, *band),)
    file = tmp_path / "page.html"
    panel = Curves("mfu", "MFU", (STEP,), PlotAxis("mfu", "mfu"), series, steady=True)
    file.write_bytes(html.html(Document("d16", [Section("", [panel])])))
    tab = chromium.tab(1280, 900)
    tab.open(file)
    assert (tab.evaluate("charts[0].frame.ys.low") < 10) == banded


def test_names_stand_beside_lines_that_end_early(chromium: Browser, tmp_path: Path) -> None:
    lines = {f"run{n}": ([0.0, 50.0 if n else 100.0], [float(n), float(n)]) for n in range(9)}
    file = tmp_path / "page.html"
    file.write_bytes(html.html(Document("runs", [Section("", [metric("loss", **lines)])], runs=tuple(lines))))
    tab = chromium.tab(1280, 900)
    tab.open(file)
    tab.evaluate("pen = new SvgPen(charts[0].over); charts[0].draw({ pen, size: charts[0].frame.size })")
    drawn = (
        "[...new DOMParser().parseFromString(pen.text(9, 9), 'image/svg+xml').querySelectorAll('text')]"
        ".filter(text => text.textContent === 'run8').map(text => Number(text.getAttribute('x')))"
    )
    end, width = tab.evaluate("[charts[0].frame.xs.at(50), pen.measureText('run8').width]")
    assert tab.evaluate(drawn) == pytest.approx([end + 5 + width] * 2, abs=0.1)


@pytest.mark.parametrize("dialog", ["colors", "y range", None])
def test_arranged_page_is_accessible(dialog: str | None, chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path)
    press(tab, "#mfu", "pin")
    press(tab, "#controls", "y against x")
    if dialog:
        press(tab, "body", dialog)
    assert violations(tab) == []
