"""A page in Chromium: it paints, switches, zooms, tells what is under the pointer, and asks for nothing."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from gputel.analysis.document import (
    Bars,
    Curves,
    Document,
    FactList,
    Heat,
    Level,
    Marker,
    Panel,
    PlotAxis,
    Section,
    Series,
    Table,
)
from gputel.analysis.render import html, style
from gputel.analysis.render.packing import Packer
from tests.browser import Browser, Tab

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.long]

EVIL = "<script>document.title='pwned'</script>"
STEP, TIME = PlotAxis("step", "step"), PlotAxis("time", "time", "s", 1_763_700_000 * 10**9)
OVER = '[data-panel="{}"] .over'


def series(name: str, tint: int, slope: float) -> Series:
    step = np.arange(1001.0)
    return Series(name, {"step": step, "time": step**2}, 10 - slope * step, run=name, tint=tint)


def panel(name: str = "loss", *, noisy: bool = False) -> Curves:
    mark = Marker("nan", f"step 500: {EVIL}", {"step": 500.0, "time": 250_000.0})
    own = (series("d16", 0, 0.001), series(EVIL, 1, 0.002))
    drawn = Curves(name, name.title(), (STEP, TIME), PlotAxis(name, name, "W"), own, (mark,), noisy=noisy)
    return replace(drawn, levels=(Level(9.5, "limit"),), link="runs")


HEAT = Heat("rhythm", "Rhythm", TIME, PlotAxis("f", "frequency", "Hz"), PlotAxis("p", "density", "dB"),
            np.arange(11.0), np.arange(6.0), np.where(np.eye(5, 10) > 0, np.nan, 7.0))  # fmt: skip
BARS = Bars("spent", "Spent", "s", ("d16",), ("train", "eval"), np.array([[90.0, 10.0]]))


def shown(
    chromium: Browser, folder: Path, *panels: Panel | Table, phone: bool = False, dark: bool = False
) -> Tab:
    file = folder / "page.html"
    file.write_bytes(html.html(Document(EVIL, [Section(EVIL, panels, EVIL)], EVIL, EVIL, runs=("d16", EVIL))))
    tab = chromium.tab(390 if phone else 1280, 900, phone=phone, dark=dark)
    tab.open(file)
    return tab


def pixels(tab: Tab, number: int = 0) -> str:
    """What is drawn, so that two drawings can be compared."""
    return str(tab.evaluate(f"document.querySelector('[data-panel=\"{number}\"] canvas').toDataURL()"))


def hover(tab: Tab) -> str | None:
    text = tab.evaluate("(h => h.hidden ? null : h.innerText)(document.getElementById('hover'))")
    return None if text is None else str(text)


def chip(tab: Tab, within: str, name: str) -> None:
    """Click on what is called so."""
    chips = f"[...document.querySelectorAll('{within} button')]"
    tab.evaluate(f"{chips}.find(chip => chip.textContent === {json.dumps(name)}).click()")


def test_page_paints_complains_of_nothing_and_asks_for_nothing(chromium: Browser, tmp_path: Path) -> None:
    tab = shown(chromium, tmp_path, panel(), HEAT, BARS, Table("T", ("a",), [("b",)]))
    inked = """[...document.querySelectorAll(".paper canvas:first-child")].map((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.some(Boolean);
    })"""
    assert tab.evaluate(inked) == [True, True]
    assert tab.errors == []
    assert [request for request in tab.requests if not request.startswith(("file:", "data:"))] == []


def sheets(tab: Tab, folder: Path) -> npt.NDArray[np.int16]:
    """Every pixel of the page as it is printed, a row a pixel: red, green, blue."""
    tab.pdf(folder / "page.pdf")
    subprocess.run(["pdftoppm", "-r", "120", folder / "page.pdf", folder / "sheet"], check=True)
    pages = [sheet.read_bytes().split(b"\n", 3)[3] for sheet in sorted(folder.glob("sheet*.ppm"))]
    return np.frombuffer(b"".join(pages), np.uint8).reshape(-1, 3).astype(np.int16)


def near(pixels: npt.NDArray[np.int16], color: str) -> int:
    """How many pixels have about this color."""
    wanted = [int(color[at : at + 2], 16) for at in (1, 3, 5)]
    return int((np.abs(pixels - wanted).max(axis=1) < 40).sum())


@pytest.mark.needs("poppler")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("drawn", "colors"),
    [
        (panel(), dict.fromkeys(style.TINTS["light"][:2], 500)),
        (HEAT, {style.HEAT[0]: 40_000}),
        (BARS, {style.KINDS["light"]["train"]: 10_000, style.KINDS["light"]["eval"]: 1000}),
    ],
    ids=["curves", "heat", "bars"],
)
def test_print_holds_every_plot_in_its_light_colors(
    chromium: Browser, tmp_path: Path, drawn: Panel, colors: dict[str, int], dark: bool
) -> None:
    tab = shown(chromium, tmp_path, drawn, dark=dark)
    before = pixels(tab) if drawn is not BARS else ""
    printed = sheets(tab, tmp_path)
    assert {color for color, fewest in colors.items() if near(printed, color) < fewest} == set()
    assert (printed.max(axis=1) < 60).mean() < (0.5 if drawn is HEAT else 0.05)  # paper is white
    assert tab.errors == []
    assert drawn is BARS or pixels(tab) == before


@pytest.mark.needs("poppler")
def test_no_printed_sheet_ends_with_a_heading(chromium: Browser, tmp_path: Path) -> None:
    tab, ends = chromium.tab(), set()
    for count in range(40, 46):  # lines above the heading, until it would stand at the end of the first sheet
        facts = FactList({f"fact {n}": "known" for n in range(count)})
        sections = [Section("", [facts]), Section("Training", [panel()], wide=True)]
        (tmp_path / "page.html").write_bytes(html.html(Document("run", sections)))
        tab.open(tmp_path / "page.html")
        tab.pdf(tmp_path / "page.pdf")
        words = ["pdftotext", "-l", "1", str(tmp_path / "page.pdf"), "-"]
        ends.add(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[-1])
    assert "Training" not in ends


@pytest.mark.needs("poppler")
def test_print_holds_every_column_of_a_wide_table(chromium: Browser, tmp_path: Path) -> None:
    wide = Table("T", tuple(f"column {n}" for n in range(30)), [tuple(f"{n}.123456" for n in range(30))])
    tab = shown(chromium, tmp_path, wide)
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.resize(717, 1000)  # a sheet of A4 between its margins
    tab.call("Emulation.setEmulatedMedia", media="print")
    widths = "(box => [box.scrollWidth, box.clientWidth])(document.querySelector('.scroll'))"
    needed, there = tab.evaluate(widths)
    assert needed <= there


def test_text_of_logs_is_shown_and_never_run(chromium: Browser, tmp_path: Path) -> None:
    tab = shown(chromium, tmp_path, panel(), BARS, Table(EVIL, (EVIL,), [(EVIL,)]))
    tab.point(OVER.format(0), 0.53)
    assert EVIL in (hover(tab) or "")
    assert tab.evaluate("document.title") == EVIL
    assert tab.evaluate("document.querySelector('h1').textContent") == EVIL
    assert tab.evaluate("document.querySelectorAll('script').length") == 3
    assert tab.errors == []


def test_markup_that_gets_in_all_the_same_does_not_run(chromium: Browser, tmp_path: Path) -> None:
    tab = shown(chromium, tmp_path, panel())
    tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title=1\">')")
    tab.until("true")
    assert tab.evaluate("document.title") == EVIL
    assert any("Content Security Policy" in error for error in tab.errors)


def test_pointer_shows_every_digit_with_its_unit(chromium: Browser, tmp_path: Path) -> None:
    tab = shown(chromium, tmp_path, panel())
    tab.point(OVER.format(0), 0.999)
    assert hover(tab) is None
    across = "(c => (c.frame.xs.at(800) / c.frame.size.width))(charts[0])"
    tab.point(OVER.format(0), tab.evaluate(across))
    result = hover(tab) or ""
    assert "step 800" in result
    assert "9.2 W" in result
    assert "8.4 W" in result


def test_switch_of_the_axis_changes_the_curves_and_their_labels(chromium: Browser, tmp_path: Path) -> None:
    tab = shown(chromium, tmp_path, panel())
    before = pixels(tab)
    tab.evaluate(
        "(s => { s.value = 'time'; s.dispatchEvent(new Event('change')); })(document.getElementById('axis'))"
    )
    assert pixels(tab) != before
    tab.point(OVER.format(0), tab.evaluate("(c => c.frame.xs.at(640000) / c.frame.size.width)(charts[0])"))
    assert "177 h 46 min 40 s (2025-11-28 14:26:40 UTC)" in (hover(tab) or "")
    assert "9.2 W" in (hover(tab) or "")


def test_legend_and_the_switch_of_runs_take_curves_away_and_bring_them_back(
    chromium: Browser, tmp_path: Path
) -> None:
    tab = shown(chromium, tmp_path, panel(), panel("power"))
    before = [pixels(tab, 0), pixels(tab, 1)]
    chip(tab, '[data-panel="0"]', "d16")
    assert pixels(tab, 0) != before[0]
    assert pixels(tab, 1) == before[1]
    chip(tab, '[data-panel="0"]', "d16")
    chip(tab, "#controls", "d16")
    assert pixels(tab, 0) != before[0]
    assert pixels(tab, 1) != before[1]
    chip(tab, "#controls", "d16")
    assert [pixels(tab, 0), pixels(tab, 1)] == before


def test_dragging_zooms_all_linked_panels_and_a_double_click_undoes_it(
    chromium: Browser, tmp_path: Path
) -> None:
    tab = shown(chromium, tmp_path, panel(), panel("power"))
    before = [pixels(tab, 0), pixels(tab, 1)]
    tab.drag(OVER.format(0), 0.4, 0.6)
    tab.point(OVER.format(0), 0.999)
    low, high = tab.evaluate("[charts[1].frame.xs.low, charts[1].frame.xs.high]")
    assert 300 < low < high < 700
    assert pixels(tab, 1) != before[1]
    tab.evaluate("charts[0].over.dispatchEvent(new MouseEvent('dblclick'))")
    assert [pixels(tab, 0), pixels(tab, 1)] == before


def test_slider_smooths_what_is_noisy_and_nothing_else(chromium: Browser, tmp_path: Path) -> None:
    tab = shown(chromium, tmp_path, panel(noisy=True), panel("power"))
    before = [pixels(tab, 0), pixels(tab, 1)]
    tab.evaluate(
        "(s => { s.value = 0; s.dispatchEvent(new Event('input')); })(document.getElementById('smoothing'))"
    )
    assert pixels(tab, 0) != before[0]
    assert pixels(tab, 1) == before[1]
    assert tab.evaluate("document.querySelector('output').textContent") == "none"


def test_running_mean_is_the_mean_of_what_lies_around(chromium: Browser, tmp_path: Path) -> None:
    tab = shown(chromium, tmp_path, panel(noisy=True))
    means = tab.evaluate(
        "[...runningMean(charts[0], charts[0].series[0], 100)].map(v => isNaN(v) ? null : v)"
    )
    y = 10 - 0.001 * np.arange(1001)
    assert means[0] is means[-1] is None
    assert np.allclose(means[50:951], [y[i - 50 : i + 51].mean() for i in range(50, 951)])


def test_heat_map_tells_its_window_and_where_nothing_was_measured(chromium: Browser, tmp_path: Path) -> None:
    tab = shown(chromium, tmp_path, HEAT)
    tab.point(OVER.format(0), tab.evaluate("charts[0].frame.xs.at(4.5) / charts[0].frame.size.width"), 0.3)
    assert "7 dB" in (hover(tab) or "")
    place = "charts[0].frame.{}.at(4.5) / charts[0].frame.size.{}"
    tab.point(
        OVER.format(0), tab.evaluate(place.format("xs", "width")), tab.evaluate(place.format("ys", "height"))
    )
    assert "not measured" in (hover(tab) or "")


def test_bars_lie_on_tracks_of_one_length_with_their_sums_in_short(chromium: Browser, tmp_path: Path) -> None:
    """A name or a sum that is longer than the others moves all tracks; a full one is the whole of a GPU."""
    values = np.array([[20.0], [30.125]])
    memory = Bars("m", "Memory", "GiB", ("d8", "a longer name"), ("weights",), values, whole=80.0)
    energy = Bars("e", "Energy", "J", ("d8",), ("train",), np.array([[40_175.6]]))
    tab = shown(chromium, tmp_path, memory, energy)
    boxes = tab.evaluate(
        "[...document.querySelectorAll('[data-panel=\"0\"] .bar-track')].map(t => t.getBoundingClientRect())"
        ".map(b => [b.left, b.width])"
    )
    assert boxes[0] == boxes[1]
    shares = tab.evaluate(
        "[...document.querySelectorAll('[data-panel=\"0\"] .bar-part')].map(p => p.style.width)"
    )
    assert shares[0] == "25%"
    sums = tab.evaluate("[...document.querySelectorAll('.bar-total')].map(t => [t.textContent, t.title])")
    assert sums == [["20 GiB", "20 GiB"], ["30.13 GiB", "30.125 GiB"], ["40.2 kJ", "40,175.6 J"]]


def test_page_without_plots_has_nothing_to_zoom_back(chromium: Browser, tmp_path: Path) -> None:
    chips = "[...document.querySelectorAll('#controls button')].map(chip => chip.textContent)"
    assert shown(chromium, tmp_path, BARS).evaluate(chips) == ["d16", EVIL, "light / dark"]
    assert "reset zoom" in shown(chromium, tmp_path, panel()).evaluate(chips)


def test_controls_name_markers_and_the_x_axis(chromium: Browser, tmp_path: Path) -> None:
    labels = "[...document.querySelectorAll('#controls .label')].map(label => label.textContent)"
    assert shown(chromium, tmp_path, panel()).evaluate(labels) == ["runs", "x axis", "markers"]


def test_name_of_a_level_stands_in_the_legend_and_not_over_the_curves(
    chromium: Browser, tmp_path: Path
) -> None:
    tab = shown(chromium, tmp_path, panel())
    assert tab.evaluate("document.querySelector('.legend .level').textContent") == "limit"


def test_finger_shows_values_too_and_nothing_is_wider_than_a_phone(chromium: Browser, tmp_path: Path) -> None:
    wide = Table("T", tuple("abcdefghijklmnop"), [tuple("a" * 20 for _ in range(16))])
    tab = shown(chromium, tmp_path, panel(), HEAT, BARS, wide, phone=True)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    left, top, width, height = tab.box(OVER.format(0))
    touch = [{"x": left + width / 2, "y": top + height / 2}]
    tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=touch)
    assert "W" in (hover(tab) or "")
    tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])


def test_light_and_dark_follow_the_system_and_the_button(chromium: Browser, tmp_path: Path) -> None:
    paper = "getComputedStyle(document.querySelector('figure')).backgroundColor"
    light, dark = shown(chromium, tmp_path, panel()), shown(chromium, tmp_path, panel(), dark=True)
    assert (light.evaluate(paper), dark.evaluate(paper)) == ("rgb(255, 255, 255)", "rgb(24, 26, 31)")
    before = pixels(light)
    chip(light, "#controls", "light / dark")
    assert light.evaluate(paper) == "rgb(24, 26, 31)"
    assert pixels(light) != before


def test_page_prints(chromium: Browser, tmp_path: Path) -> None:
    tab = shown(chromium, tmp_path, panel(), BARS, dark=True)
    tab.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert tab.errors == []


def test_arrow_keys_walk_along_a_curve(chromium: Browser, tmp_path: Path) -> None:
    tab = shown(chromium, tmp_path, panel())
    tab.evaluate("charts[0].over.focus()")
    for _ in range(2):
        tab.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    assert "step" in (hover(tab) or "")
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="+")
    low, high = tab.evaluate("[charts[0].frame.xs.low, charts[0].frame.xs.high]")
    assert high - low < 600


def test_numbers_come_out_of_the_page_as_they_went_in(chromium: Browser, tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    arrays = [
        np.array([]),
        np.array([np.nan, np.nan]),
        np.arange(1000.0),
        np.cumsum(np.full(100, 524_288.0)),
        np.array([2.815345, np.nan, -2.90716, 0.0, 1e-7]),
        np.array([431_260.0, -431_260.0, 2.0**31, -(2.0**31)]),
        np.array([2.0**40, 0.0, 2.0**52]),
        chance.normal(size=333).astype(np.float32).astype(float),
        np.array([1.35e19, 3.64e19]).astype(np.float32).astype(float),
    ]
    packer = Packer()
    spots = [packer.add(values) for values in arrays]
    tab = shown(chromium, tmp_path, panel())
    whole = "(spot) => [...numbersAt(bytes, spot)].map((value) => isNaN(value) ? null : value)"
    script = f"unpack({json.dumps(packer.text())}).then((bytes) => {json.dumps(spots)}.map({whole}))"
    for sent, got in zip(arrays, tab.evaluate(script), strict=True):
        assert [None if np.isnan(value) else value for value in sent] == got


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("431260", "431,260"),
        ("2.907160", "2.90716"),
        ("Math.fround(0.1)", "0.1"),
        ("NaN", "not measured"),
        ("-12800.5", "-12,800.5"),
        ("1e21", "1e+21"),
    ],
)
def test_number_is_said_whole(value: str, said: str, chromium: Browser, tmp_path: Path) -> None:
    assert shown(chromium, tmp_path, panel()).evaluate(f"exactly({value})") == said
