"""One file that opens offline, in which whatever came from a log is text."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from gputel.analysis.document import Bars, Curves, Document, Marker, PlotAxis, Section, Series, Table
from gputel.analysis.render.html import html

EVIL = "<script>document.title='pwned'</script>"


def curves(count: int = 10, name: str = "d12", **more: object) -> Curves:
    x = np.arange(count, dtype=float)
    series = Series(name, {"step": x}, np.sin(x), run=name)
    return Curves("loss", "Loss", (PlotAxis("step", "step"),), PlotAxis("loss", "loss"), (series,), **more)  # type: ignore[arg-type]


def page_html(*items: object, **more: object) -> str:
    return html(Document("a run", [Section(items=items)], **more)).decode()  # type: ignore[arg-type]


def test_page_names_no_address_but_its_own_data() -> None:
    addresses = re.findall(r"""(?:https?:)?//[\w.-]+\.\w+|src=|@import|url\((?!#)""", page_html(curves()))
    assert addresses == ["http://www.w3.org"]  # the name of SVG, for a plot that is saved as such
    assert re.findall(r"<link[^>]*>", page_html(curves())) == ['<link rel="icon" href="data:,">']


def test_its_policy_lets_only_its_own_script_run_and_nothing_be_fetched() -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page_html(curves()))
    assert policy.startswith("default-src &#x27;none&#x27;; script-src &#x27;sha256-")
    assert "unsafe" not in policy


def test_text_of_a_log_is_text_wherever_it_stands() -> None:
    mark = Marker("nan", EVIL, {"step": 1.0})
    bars = Bars("b", EVIL, EVIL, (EVIL,), (EVIL,), np.array([[1.0]]))
    table = Table(EVIL, (EVIL,), [(EVIL,)], note=EVIL)
    text = page_html(
        curves(name=EVIL, marks=(mark,), note=EVIL), bars, table, about=EVIL, caution=EVIL, runs=(EVIL,)
    )
    assert text.count("<script>") == 1
    assert text.count("<script") == 3
    data = json.loads(re.findall(r'id="panels">(.*?)</script>', text, re.DOTALL)[0])
    assert data["panels"][0]["series"][0]["name"] == EVIL


@pytest.mark.parametrize(
    "key", ["sk-abcdefghijklmnopqrstuvwx", "hf_abcdefghijklmnopqrstuvwx", "AKIAABCDEFGHIJKLMNOP"]
)
def test_key_is_masked_wherever_it_stands(key: str) -> None:
    mark = Marker("nan", f"line with {key}", {"step": 1.0})
    text = page_html(
        curves(name=key, marks=(mark,), note=key), Table(key, (key,), [(key,)]), about=key, runs=(key,)
    )
    assert key not in text
    assert "line with ***" in text


def test_caution_stands_at_its_head() -> None:
    text = page_html(curves(), caution="SIMULATED: 2xH100; no real GPU data")
    assert '<p class="caution" role="alert">SIMULATED: 2xH100; no real GPU data</p>' in text


def test_page_says_from_how_many_points_to_how_many() -> None:
    assert "<footer>10 points" in page_html(curves())
    assert "<footer>3,000,000 → 100,000 points, with every extreme kept" in page_html(curves(3_000_000))
    assert "<footer>written by gputel" in page_html(Table("T", ("a",), [(1,)]))


def test_number_stands_on_one_line_and_a_sentence_that_begins_with_one_is_folded() -> None:
    sentence = "1 (0.6 to 2) GiB of context and libraries; 0.5 (0.2 to 1.5) GiB of NCCL"
    text = page_html(Table("T", ("a", "b"), [("x", "4 h 19 min"), ("y", sentence), ("z", None)]))
    assert '<td class="number">4 h 19 min</td>' in text
    assert f"<td>{sentence}</td>" in text
    assert "<td>–</td>" in text


def test_three_million_samples_and_a_long_log_stay_under_a_megabyte_and_a_half() -> None:
    chance = np.random.default_rng(3)
    x = np.arange(33_600.0)
    log = [
        Curves(
            str(n),
            "",
            (PlotAxis("step", "step"),),
            PlotAxis("y", "y"),
            (Series("a", {"step": x}, np.round(chance.normal(3, 0.1, len(x)), 6)),),
        )
        for n in range(6)
    ]
    watts = np.round(chance.normal(600, 50, 3_000_000), 3)
    gpu = Curves(
        "w",
        "",
        (PlotAxis("time", "time", "s"),),
        PlotAxis("w", "w", "W"),
        (Series("0", {"time": np.arange(3e6) / 100}, watts),),
    )
    assert len(html(Document("a run", [Section(items=[*log, gpu])]))) < 1_500_000


def test_table_shows_numbers_whole_and_what_was_not_measured_as_a_dash() -> None:
    text = page_html(Table("T", ("a", "b", "c"), [(33600, 2.815345, None)]))
    assert '<td class="number">33,600</td><td class="number">2.8153</td><td class="number">–</td>' in text


def test_same_page_has_the_same_bytes() -> None:
    assert page_html(curves()) == page_html(curves())
