"""Plots worked with as a person does: what they show first, zoom, many runs, what can be taken from them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from gputel.analysis.document import Bars, Curves, Document, FactList, Item, PlotAxis, Section, Series, Table
from gputel.analysis.render import html
from tests.browser import Browser, Tab

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.long]

STEP = PlotAxis("step", "step")
SVG = "{http://www.w3.org/2000/svg}"
PLOT = '[data-panel="0"] .over'


def falling(name: str, tint: int = 0, end: float = 3.0) -> Series:
    """A loss that falls from 11 within its first steps, and then slowly."""
    step = np.arange(2000.0)
    return Series(name, {"step": step}, end + 8 * np.exp(-step / 20) - step / 10_000, run=name, tint=tint)


def loss(*series: Series, name: str = "loss") -> Curves:
    return Curves(name, name.title(), (STEP,), PlotAxis(name, name), series, noisy=True, link="runs")


def opened(chromium: Browser, folder: Path, *items: Item, runs: tuple[str, ...] = (), view: str = "") -> Tab:
    file = folder / "page.html"
    file.write_bytes(html.html(Document("runs", [Section("", items)], runs=runs)))
    tab = chromium.tab(1280, 900)
    tab.open(file)
    if view:
        tab.evaluate(f"location.hash = {json.dumps(view)}")
        tab.evaluate("readAddress()")
        tab.evaluate("redraw()")
    return tab


def press(tab: Tab, within: str, name: str, event: str = "click") -> None:
    buttons = f"[...document.querySelectorAll('{within} button')]"
    fire = f"new MouseEvent('{event}', {{ bubbles: true }})"
    tab.evaluate(f"{buttons}.find(own => own.textContent === {json.dumps(name)}).dispatchEvent({fire})")


def height(tab: Tab) -> tuple[float, float]:
    low, high = tab.evaluate("[charts[0].frame.ys.low, charts[0].frame.ys.high]")
    return low, high


def width(tab: Tab) -> tuple[float, float]:
    low, high = tab.evaluate("[charts[0].frame.xs.low, charts[0].frame.xs.high]")
    return low, high


def test_loss_is_shown_where_it_settles_and_whole_when_asked(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    low, high = height(tab)
    assert low < 2.81 < 3.0 < high < 5
    press(tab, '[data-panel="0"]', "all values")
    assert height(tab)[1] > 11


def test_last_value_is_in_sight_though_it_is_an_extreme(chromium: Browser, tmp_path: Path) -> None:
    spike = falling("d16")
    spike.y[-1] = 20.0
    assert height(opened(chromium, tmp_path, loss(spike)))[1] > 20


def test_log_x_begins_at_the_first_step_above_zero(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    press(tab, "#controls", "log x")
    assert width(tab) == (1, 1999)
    middle = tab.evaluate("charts[0].frame.xs.at(Math.sqrt(1999)) / charts[0].frame.size.width")
    assert 0.4 < middle < 0.6
    assert tab.errors == []


def test_drag_across_and_down_zooms_into_a_box_and_double_click_shows_the_whole(
    chromium: Browser, tmp_path: Path
) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    before = width(tab), height(tab)
    tab.evaluate("zoomTo(charts[0], { x: 200, y: 60 }, { x: 300, y: 160 })")
    assert before[0][0] < width(tab)[0] < width(tab)[1] < before[0][1]
    assert before[1][0] < height(tab)[0] < height(tab)[1] < before[1][1]
    tab.evaluate("charts[0].over.dispatchEvent(new MouseEvent('dblclick'))")
    assert (width(tab), height(tab)) == before


def test_shift_and_drag_moves_the_plot(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    tab.drag(PLOT, 0.4, 0.6)
    low, high = width(tab)
    left, top, wide, tall = tab.box(PLOT)
    for kind, x, button in (("mousePressed", 0.5, 1), ("mouseMoved", 0.4, 1), ("mouseReleased", 0.4, 0)):
        place = {"x": left + x * wide, "y": top + tall / 2}
        tab.call(
            "Input.dispatchMouseEvent",
            type=kind,
            button="left",
            buttons=button,
            clickCount=1,
            modifiers=8,
            **place,
        )
    moved = width(tab)
    assert moved[0] > low
    assert moved[1] - moved[0] == pytest.approx(high - low)


def test_ctrl_and_wheel_zooms_about_the_pointer(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    at = tab.evaluate("charts[0].frame.xs.at(1000)")
    tab.evaluate(
        "(over => over.dispatchEvent(new WheelEvent('wheel', { deltaY: -300, ctrlKey: true, cancelable: true,"
        f" clientX: over.getBoundingClientRect().left + {at} }})))(charts[0].over)"
    )
    low, high = width(tab)
    assert high - low < 1200
    assert tab.evaluate("charts[0].frame.xs.at(1000)") == pytest.approx(at, abs=1)


RUNS = tuple(f"run{n}" for n in range(1, 13))


def twelve(chromium: Browser, folder: Path) -> Tab:
    curves = [falling(run, tint, 3 + tint / 10) for tint, run in enumerate(RUNS)]
    return opened(chromium, folder, loss(*curves), runs=RUNS)


def shown(tab: Tab) -> list[str]:
    return list(tab.evaluate("charts[0].shown().map(own => own.name)"))


def test_one_run_all_or_none_are_shown_at_a_click(chromium: Browser, tmp_path: Path) -> None:
    tab = twelve(chromium, tmp_path)
    press(tab, "#controls", "run3", "dblclick")
    assert shown(tab) == ["run3"]
    press(tab, "#controls", "none")
    assert shown(tab) == []
    press(tab, "#controls", "all")
    assert shown(tab) == list(RUNS)


def test_search_shows_only_runs_whose_name_holds_what_is_typed(chromium: Browser, tmp_path: Path) -> None:
    tab = twelve(chromium, tmp_path)
    tab.evaluate(
        "(field => { field.value = 'RUN1'; field.dispatchEvent(new Event('input')); })"
        "(document.querySelector('#controls .search'))"
    )
    assert shown(tab) == ["run1", "run10", "run11", "run12"]


def test_run_9_is_broken_where_run_1_is_whole_and_so_is_its_chip(chromium: Browser, tmp_path: Path) -> None:
    tab = twelve(chromium, tmp_path)
    assert tab.evaluate("[dashOf(0).length, dashOf(8).length]") == [0, 2]
    backgrounds = (
        "charts[0].series.map(own => own.chip.querySelector('i').style.background.includes('repeat'))"
    )
    assert tab.evaluate(backgrounds) == [False] * 8 + [True] * 4


@pytest.mark.parametrize(
    ("typed", "range_"), [("2, 3.5", [2, 3.5]), ("3, 2", None), ("a, b", None), ("", None)]
)
def test_y_range_is_set_by_hand(
    typed: str, range_: list[float] | None, chromium: Browser, tmp_path: Path
) -> None:
    """What is no range changes nothing."""
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    before = list(height(tab))
    press(tab, ".legend", "y range")
    field = "document.querySelector('dialog input')"
    tab.evaluate(f"{field}.value = {json.dumps(typed)}; {field}.dispatchEvent(new Event('change'))")
    press(tab, "dialog", "close")
    assert list(height(tab)) == (range_ or before)


def test_chip_of_a_dashed_curve_is_broken(chromium: Browser, tmp_path: Path) -> None:
    hot = replace(falling("GPU 0 memory"), style="dashed")
    tab = opened(chromium, tmp_path, loss(falling("GPU 0"), hot))
    backgrounds = "charts[0].series.map(own => own.chip.querySelector('i').style.background)"
    assert ["repeat" in background for background in tab.evaluate(backgrounds)] == [False, True]


VISIBLE = "[...document.querySelectorAll('.legend .chip:not(.tool)')].filter(chip => chip.offsetWidth).length"


def test_chips_of_runs_stand_once_above_all_plots_but_on_paper_and_phones(
    chromium: Browser, tmp_path: Path
) -> None:
    tab = twelve(chromium, tmp_path)
    assert tab.evaluate(VISIBLE) == 0
    tab.resize(390, 844)
    assert tab.evaluate(VISIBLE) == 12
    tab.resize(1280, 900)
    tab.call("Emulation.setEmulatedMedia", media="print")
    assert tab.evaluate(VISIBLE) == 12


def test_only_curve_of_a_plot_needs_no_chip(chromium: Browser, tmp_path: Path) -> None:
    assert opened(chromium, tmp_path, loss(falling("d16"))).evaluate(VISIBLE) == 0
    assert opened(chromium, tmp_path, loss(falling("GPU 0"), falling("GPU 1"))).evaluate(VISIBLE) == 2


def test_ticks_of_one_axis_have_one_unit(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    ticks = "[0, 8000, 12000].map(value => short(value, 2000, null, 12000))"
    assert tab.evaluate(ticks) == ["0", "8k", "12k"]
    assert tab.evaluate("[0, 2e-6, 1e-5].map(value => short(value, 2e-6, null, 1e-5))") == [
        "0",
        "2e-6",
        "1e-5",
    ]


def test_other_runs_step_back_while_one_is_pointed_at(chromium: Browser, tmp_path: Path) -> None:
    tab = twelve(chromium, tmp_path)
    picture = "charts[0].canvas.toDataURL()"
    before = tab.evaluate(picture)
    enter = "new PointerEvent('pointerenter', { pointerType: 'mouse' })"
    tab.evaluate(f"charts[0].series[2].chip.dispatchEvent({enter})")
    assert tab.evaluate(picture) != before
    tab.evaluate("charts[0].series[2].chip.dispatchEvent(new PointerEvent('pointerleave'))")
    assert tab.evaluate(picture) == before


def test_address_of_a_plot_brings_its_view_back(chromium: Browser, tmp_path: Path) -> None:
    runs, panels = ("d16", "d24"), (loss(falling("d16"), falling("d24", 1)),)
    tab = opened(chromium, tmp_path, *panels, runs=runs)
    press(tab, "#controls", "log x")
    press(tab, "#controls", "d24")
    tab.drag(PLOT, 0.4, 0.6)
    press(tab, '[data-panel="0"]', "link")
    view = tab.evaluate("location.hash")
    assert view.startswith("#loss&")
    again = opened(chromium, tmp_path, *panels, runs=runs, view=view)
    assert (width(again), shown(again)) == (width(tab), ["d16"])
    assert again.evaluate("view.logX") is True


def test_csv_of_a_plot_holds_what_is_shown_and_no_formula(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("=HYPERLINK(1)")))
    lines = tab.evaluate("csv(charts[0]).text()").splitlines()
    assert lines[0] == '"curve","step","value","low","high"'
    assert lines[1].startswith('"\'=HYPERLINK(1)",0,11,')
    assert len(lines) == 2001


def test_picture_of_a_plot_is_a_png(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    kind, size = tab.evaluate("picture(charts[0]).then((blob) => [blob.type, blob.size])")
    assert kind == "image/png"
    assert size > 2000


def test_plot_grows_and_shrinks(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")), loss(falling("d16"), name="val_loss"))
    before = tab.box(PLOT)
    press(tab, '[data-panel="0"]', "larger")
    assert tab.box(PLOT)[2] > 1.5 * before[2]
    press(tab, '[data-panel="0"]', "larger")
    assert tab.box(PLOT) == before


def test_question_mark_shows_the_keys(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    tab.evaluate("dispatchEvent(new KeyboardEvent('keydown', { key: '?' }))")
    assert "double click" in tab.evaluate("document.querySelector('dialog[open]').innerText")


SORTED = [
    (["9 min 00 s", "1 h 02 min", "–", "350 ms"], ["350 ms", "9 min 00 s", "1 h 02 min", "–"]),
    (["1,176 W", "98 W", "210 W"], ["98 W", "210 W", "1,176 W"]),
    (["458,752", "3.277M", "1.2B"], ["458,752", "3.277M", "1.2B"]),
    (["run10", "run2", "d16"], ["d16", "run2", "run10"]),
    (["36 ±5 kJ", "9,000 ±6,000 J", "107.5 ±3.1 kJ"], ["9,000 ±6,000 J", "36 ±5 kJ", "107.5 ±3.1 kJ"]),
    (["2 min 26 s ±8 s", "29 ±4 s", "7 ±5 s"], ["7 ±5 s", "29 ±4 s", "2 min 26 s ±8 s"]),
    (["0.81 @ 10,750", "0.79 @ 12,800", "0.8 @ 9"], ["0.79 @ 12,800", "0.8 @ 9", "0.81 @ 10,750"]),
    (["10.1–14.6", "3.78–5.57", "23.9–34.5"], ["3.78–5.57", "10.1–14.6", "23.9–34.5"]),
]


@pytest.mark.parametrize(("cells", "ascending"), SORTED)
def test_tables_sort_by_value_down_and_back(
    cells: list[str], ascending: list[str], chromium: Browser, tmp_path: Path
) -> None:
    tab = opened(chromium, tmp_path, Table("T", ("name", "cell"), [("x", cell) for cell in cells]))
    column = "[...document.querySelectorAll('tbody tr')].map(row => row.cells[1].textContent)"
    press(tab, "thead", "cell")
    assert tab.evaluate(column) == ascending
    press(tab, "thead", "cell")
    press(tab, "thead", "cell")
    assert tab.evaluate(column) == cells


def test_column_of_unlike_units_does_not_sort(chromium: Browser, tmp_path: Path) -> None:
    cells = ["12 W", "3 °C", "40 %"]
    tab = opened(chromium, tmp_path, Table("T", ("cell",), [(cell,) for cell in cells]))
    assert tab.evaluate("document.querySelectorAll('thead button').length") == 0


CONTRAST = """(() => {
    const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const light = (color) => {
        const [red, green, blue] = color.match(/\\d+/g).map((part) => linear(part / 255));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    return [...document.querySelectorAll(".bar-part")].map((part) => {
        const style = getComputedStyle(part), both = [light(style.color), light(style.backgroundColor)];
        return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    });
})()"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_on_bars_have_a_contrast_of_4_5(theme: str, chromium: Browser, tmp_path: Path) -> None:
    parts = ("start", "train", "eval", "checkpoint", "idle", "weights", "optimizer", "logits")
    bars = Bars("spent", "Spent", "s", ("d16",), parts, np.ones((1, len(parts))))
    tab = opened(chromium, tmp_path, bars)
    tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'; redraw()")
    assert min(tab.evaluate(CONTRAST)) >= 4.5


def test_headings_descend_one_level_at_a_time_and_heads_name_columns(
    chromium: Browser, tmp_path: Path
) -> None:
    facts, table = FactList({"run": "d16"}, "Facts"), Table("T", ("a",), [("b",)])
    file = tmp_path / "page.html"
    sections = [Section(title, [facts, table, loss(falling("d16"))]) for title in ("", "One", "Two", "Three")]
    file.write_bytes(html.html(Document("runs", sections)))
    tab = chromium.tab(1280, 900)
    tab.open(file)
    levels = tab.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(own => Number(own.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert tab.evaluate("document.querySelectorAll('th:not([scope])').length") == 0
    links = "[...document.querySelectorAll('.contents a')].map(own => !!document.querySelector(own.hash))"
    assert tab.evaluate(links) == [True] * 3


def test_plot_says_where_its_curves_end(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    assert tab.evaluate("charts[0].over.getAttribute('aria-label')").startswith(
        "Loss by step: d16 ends at 2.8"
    )


def test_drawing_of_a_plot_is_svg_with_its_curves_and_names(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(
        chromium, tmp_path, loss(falling("d16 & <co>"), falling("d24", 1)), runs=("d16 & <co>", "d24")
    )
    drawing = tab.evaluate("svg(charts[0]).text()")
    root = ElementTree.fromstring(drawing)
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert {"Loss", "step", "d16 & <co>", "d24"} <= set(texts)
    strokes = [node.get("stroke") for node in root.iter(f"{SVG}path")]
    assert {"#0072b2", "#d55e00"} <= set(strokes)
    assert tab.errors == []


def test_copied_plot_is_a_picture_in_the_clipboard(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    tab.evaluate(
        "navigator.clipboard.write = async ([item]) => { window.taken = await item.getType('image/png'); }"
    )
    press(tab, '[data-panel="0"]', "copy")
    tab.until("Boolean(window.taken)")
    assert tab.evaluate("taken.type") == "image/png"
    tab.until("[...document.querySelectorAll('button')].some(own => own.textContent === 'copied')")


def test_table_behind_a_plot_holds_the_figures_of_what_is_in_sight(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, loss(falling("d16")))
    press(tab, '[data-panel="0"]', "table")
    rows = (
        "[...document.querySelectorAll('.behind table')].map(own => [...own.rows].map(row => row.innerText))"
    )
    figures, values = tab.evaluate(rows)
    assert figures[1].split("\t") == ["d16", "2,000", "11", "2.8001", "2.8001", "11", "2.982067"]
    assert len(values) == 21
    assert values[-1].split("\t") == ["1,999", "2.8001"]
    press(tab, '[data-panel="0"]', "table")
    assert tab.evaluate("document.querySelectorAll('.behind').length") == 0


def names_at_ends(tab: Tab) -> set[str]:
    drawing = ElementTree.fromstring(tab.evaluate("svg(charts[0]).text()"))
    return {node.text or "" for node in drawing.iter(f"{SVG}text") if node.get("text-anchor") == "end"}


def test_names_of_runs_stand_at_the_ends_of_their_lines_where_colors_repeat(
    chromium: Browser, tmp_path: Path
) -> None:
    curves = [falling(run, tint, 3 + tint / 3) for tint, run in enumerate(RUNS)]
    tab = opened(chromium, tmp_path, loss(*curves), runs=RUNS)
    press(tab, '[data-panel="0"]', "larger")
    tab.until("charts[0].frame.size.height > 400")
    assert len(names_at_ends(tab) & {*RUNS}) > 8


def test_names_of_few_runs_cover_no_line(chromium: Browser, tmp_path: Path) -> None:
    curves = [falling(run, tint, 3 + tint / 3) for tint, run in enumerate(RUNS[:4])]
    assert not names_at_ends(opened(chromium, tmp_path, loss(*curves), runs=RUNS[:4])) & {*RUNS}


def test_contents_mark_the_section_that_is_read(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    sections = [
        Section(title, [loss(falling("d16"), name=f"loss{title}")] * 2) for title in ("One", "Two", "Three")
    ]
    file.write_bytes(html.html(Document("runs", sections)))
    tab = chromium.tab(1280, 500)
    tab.open(file)
    tab.click('.contents a[href="#section-1"]')
    tab.until("document.querySelector('.contents [aria-current]')?.textContent === 'Two'")
