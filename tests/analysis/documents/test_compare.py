"""The page of a comparison: its metric on every axis, what lies between runs, and the tables of the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

import gputel
from gputel.analysis.compare import Comparison, compare
from gputel.analysis.document import Curves, Document, Table
from gputel.analysis.documents.compare import comparison_document

LOGS = Path(__file__).resolve().parents[3] / "sample_logs"
D16, D24 = LOGS / "d16-base.log.gz", LOGS / "d24-base.log.gz"


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare([D16, D24], price=4)


def panels(page: Document) -> dict[str, Curves]:
    return {panel.name: panel for panel in page.panels() if isinstance(panel, Curves)}


def test_metric_can_be_switched_to_every_axis_that_the_runs_have(found: Comparison) -> None:
    loss = panels(comparison_document(found))["loss"]
    assert [axis.name for axis in loss.axes] == ["step", "tokens", "time", "flops", "cost"]
    assert [series.name for series in loss.series] == ["d16-base", "d24-base"]
    assert all(len(x) == len(series.y) for series in loss.series for x in series.x.values())


def test_panel_of_the_chosen_metric_comes_first() -> None:
    page = comparison_document(compare([D16, D24], by="tokens"))
    assert panels(page)["loss"].axes[0].name == "tokens"
    assert [axis.name for axis in panels(page)["difference"].axes] == ["tokens"]


def test_differences_are_from_the_first_run(found: Comparison) -> None:
    difference = panels(comparison_document(found))["difference"]
    (series,) = difference.series
    assert (series.name, series.tint, difference.levels[0].text) == ("d24-base", 1, "d16-base")
    assert -0.2 < series.y[len(series.y) // 2] < -0.1


def test_sizes_have_their_panels_where_they_differ(found: Comparison) -> None:
    drawn = panels(comparison_document(found))
    assert drawn["frontier"].axes[0].log
    assert [series.name for series in drawn["frontier"].series] == ["d16-base", "d24-base", "frontier"]
    assert [axis.name for axis in drawn["tok_per_sec-by-size"].axes] == ["depth", "parameters"]
    alike = panels(comparison_document(compare([D16, D16])))
    assert "frontier" not in alike


def test_tables_are_those_of_the_terminal(found: Comparison) -> None:
    page = comparison_document(found)
    tables = [item for section in page.sections for item in section.items if isinstance(item, Table)]
    assert list(tables[1].rows[1]) == ["1,000", "3.4627", "3.3553", "-0.1074"]
    assert page.caution == "d16-base, d24-base: synthetic log"


def test_page_begins_with_how_the_runs_ended_and_their_last_loss(found: Comparison) -> None:
    (summary, first_panel, *_) = comparison_document(found).sections[0].items
    assert isinstance(summary, Table)
    assert [list(row) for row in summary.rows[:2]] == [
        ["status", "completed", "unknown"],
        ["last loss", "2.7702", "2.8091"],
    ]
    assert isinstance(first_panel, Curves)


def test_seeds_are_a_mean_and_a_band() -> None:
    grouped = compare([D16, D16, D24], group="depth")
    bands = panels(comparison_document(grouped))["groups"]
    assert [series.name for series in bands.series] == ["depth=16", "depth=24"]
    assert all(series.low is not None for series in bands.series)
    loss = panels(comparison_document(grouped))["loss"]
    assert [(series.run, series.tint) for series in loss.series] == [
        ("depth=16", 0),
        ("depth=16", 0),
        ("depth=24", 1),
    ]


def test_figures_are_shown_inline_in_a_notebook() -> None:
    found = gputel.compare([D16, D24], price=4)
    assert "loss" in found.figures
    assert found.figures["loss"]._repr_png_().startswith(b"\x89PNG")
    assert found.figures["loss"].matplotlib().axes[0].get_title("left") == "Loss"
    shown = found.figures._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    assert "<script>" not in shown
    assert repr(found.figures).startswith("<figures loss, difference")
