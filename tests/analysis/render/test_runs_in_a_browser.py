"""The page of `gputel runs`: ranges of axes and words choose rows, heads sort them, and rows lead to reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gputel.analysis.catalogue import answer
from gputel.analysis.catalogue.answer import RunsQuestion
from gputel.analysis.catalogue.sweep import sweep
from gputel.analysis.documents.runs import runs_page
from gputel.analysis.render import html
from tests.analysis.catalogue.sweeps import recorded
from tests.browser import Browser, Tab
from tests.browser.axe import violations

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.long]
OPTIMIZERS = ("adamw", "muon")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty runs; the loss falls from 3.0 to 1.1 with the rate, and every second run has a report."""
    place = tmp_path_factory.mktemp("sweep")
    for n in range(20):
        settings = {"config.rate": n + 1, "config.optimizer": OPTIMIZERS[n % 2], "config.seed": n}
        recorded(place / "all runs" / f"run{n}", settings, report=n % 2 == 0, loss=3 - n / 10, gpus=8)
    file = place / "catalogue.db"
    question, _ = answer.refreshed(RunsQuestion((place / "all runs",)), file)
    (place / "gputel-runs.html").write_bytes(html.html(runs_page(sweep(question, file), place)))
    return place / "gputel-runs.html"


@pytest.fixture
def tab(page: Path, chromium: Browser) -> Tab:
    opened = chromium.tab()
    opened.open(page)
    return opened


def shown(tab: Tab) -> list[str]:
    rows: list[str] = tab.evaluate(
        "[...document.querySelectorAll('[data-target] tbody tr')].filter((row) => !row.hidden)"
        ".map((row) => row.cells[0].textContent)"
    )
    return rows


def drawn(tab: Tab) -> dict[str, int]:
    """How many lines are drawn in each color."""
    paths: list[list[Any]] = tab.evaluate(
        "[...document.querySelectorAll('.lines path')]"
        ".map((own) => [getComputedStyle(own).stroke, (own.getAttribute('d') || '').split('M').length - 1])"
    )
    assert all(color != "none" for color, count in paths if count)
    return {color: count for color, count in paths if count}


def press(tab: Tab, handle: str, key: str, times: int = 1) -> None:
    tab.evaluate(f"document.querySelector('[aria-label=\"{handle}\"]').focus()")
    for _ in range(times):
        tab.evaluate(
            f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))"
        )


def test_every_row_is_shown_and_those_with_a_report_lead_to_it(tab: Tab, page: Path) -> None:
    assert shown(tab) == [f"run{n}" for n in range(20)]
    links: list[Any] = tab.evaluate("[...document.querySelectorAll('tbody th a')].map((own) => own.href)")
    assert links == [
        (page.parent / "all runs" / f"run{n}" / "gputel-report.html").as_uri() for n in range(0, 20, 2)
    ]


def test_every_run_is_a_line_in_the_color_of_its_rank(tab: Tab) -> None:
    lines = drawn(tab)
    assert sum(lines.values()) == 20
    assert len(lines) > 10


def test_arrow_keys_on_an_axis_choose_rows(tab: Tab) -> None:
    press(tab, "rate: lowest that is shown", "ArrowUp", 17)
    assert shown(tab) == ["run17", "run18", "run19"]
    press(tab, "optimizer: highest that is shown", "Home")
    assert shown(tab) == ["run18"]
    assert tab.evaluate("document.querySelector('.count').textContent") == "1 of 20 runs"
    lines = drawn(tab)
    assert len(lines) == 2
    assert sum(lines.values()) == 20
    assert lines[tab.evaluate("getComputedStyle(document.querySelector('.lines .out')).stroke")] == 19
    tab.evaluate(
        "[...document.querySelectorAll('.chip')].find((own) => own.textContent === 'all runs').click()"
    )
    assert len(shown(tab)) == 20


def test_words_choose_rows(tab: Tab) -> None:
    tab.evaluate("document.querySelector('.filter input').value = 'muon'")
    tab.evaluate("document.querySelector('.filter input').dispatchEvent(new Event('input'))")
    assert shown(tab) == [f"run{n}" for n in range(1, 20, 2)]


def test_a_click_on_a_head_sorts_what_is_shown(tab: Tab) -> None:
    press(tab, "rate: highest that is shown", "ArrowDown", 17)
    sort = "[...document.querySelectorAll('.sort')].find((own) => own.textContent === 'loss').click()"
    tab.evaluate(sort)
    assert shown(tab) == ["run2", "run1", "run0"]


def test_page_says_which_setting_matters(tab: Tab) -> None:
    words = tab.evaluate("document.body.innerText")
    assert "What matters for loss" in words
    assert "config.rate" in words


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_page_breaks_no_rule(dark: bool, page: Path, chromium: Browser) -> None:
    opened = chromium.tab(dark=dark)
    opened.open(page)
    assert violations(opened) == []
    assert opened.errors == []


def test_page_fits_a_phone(page: Path, chromium: Browser) -> None:
    opened = chromium.tab(390, 800, phone=True)
    opened.open(page)
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
