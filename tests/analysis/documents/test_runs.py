"""The page of runs: settings that differ, links to reports, and what matters, or why that cannot be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.catalogue import answer
from gputel.analysis.catalogue.answer import RunsQuestion
from gputel.analysis.catalogue.sweep import sweep
from gputel.analysis.document import Document, FactList, Table
from gputel.analysis.documents.runs import runs_page
from tests.analysis.catalogue.sweeps import recorded


def page(folder: Path, **asked: object) -> Document:
    file = folder / "catalogue.db"
    question, _ = answer.refreshed(RunsQuestion((folder / "runs",), **asked), file)  # type: ignore[arg-type]
    return runs_page(sweep(question, file), folder)


def filled(folder: Path, count: int) -> None:
    for n in range(count):
        settings = {"config.rate": n % 5, "config.note": f"try {n}", "config.vocab": 50304, "config.seed": n}
        recorded(folder / "runs" / f"run{n}", settings, report=n == 1, loss=3.0 - n % 5, tok_per_sec=9.0 + n)


def rows(document: Document) -> Table:
    (table,) = document.sections[0].items
    assert isinstance(table, Table)
    return table


def test_only_settings_that_differ_and_name_no_run_become_columns(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    table = rows(page(tmp_path))
    assert list(table.columns[:4]) == ["run", "note", "rate", "status"]
    assert [row[2] for row in table.rows] == ["0", "1", "2"]


def test_setting_that_fewer_than_half_of_the_runs_state_is_no_column(tmp_path: Path) -> None:
    """In a folder of many programs the table would begin with empty columns."""
    filled(tmp_path, 3)
    for n in range(2):
        recorded(tmp_path / "runs" / f"other{n}", {"config.dropout": n / 2}, loss=2.0)
    assert list(rows(page(tmp_path)).columns[:4]) == ["run", "note", "rate", "status"]
    few = rows(page(tmp_path, where="run glob 'other*'"))
    assert list(few.columns[:3]) == ["run", "dropout", "status"]


def test_page_shows_a_usual_column_only_where_a_run_has_a_value(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    assert "simulated" not in rows(page(tmp_path)).columns
    assert "simulated" in rows(page(tmp_path, columns=("run", "simulated"))).columns


def test_run_with_a_report_leads_to_it_from_where_the_page_lies(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    assert list(rows(page(tmp_path)).links) == [None, "runs/run1/gputel-report.html", None]


def test_few_runs_are_said_to_be_too_few(tmp_path: Path) -> None:
    filled(tmp_path, 15)
    (facts,) = page(tmp_path).sections[1].items
    assert isinstance(facts, FactList)
    assert facts.pairs["importance"] == "15 runs are too few: 16 are needed to tell a setting from chance"


def test_runs_without_a_setting_that_differs_say_so(tmp_path: Path) -> None:
    for n in range(20):
        recorded(tmp_path / "runs" / f"run{n}", {"config.vocab": 50304}, loss=3.0 + n)
    (facts,) = page(tmp_path).sections[1].items
    assert isinstance(facts, FactList)
    assert facts.pairs["importance"] == "no setting that differs is known for 16 or more runs with loss"


@pytest.mark.parametrize(("sort", "target"), [((), "loss"), (("-tok_per_sec",), "tok/s"), (("run",), "loss")])
def test_sorting_by_a_figure_makes_it_the_target(tmp_path: Path, sort: tuple[str, ...], target: str) -> None:
    filled(tmp_path, 20)
    document = page(tmp_path, sort=sort)
    assert rows(document).target == target
    (table,) = document.sections[1].items
    assert isinstance(table, Table)
    assert table.rows[0][0] == "config.rate"
    assert (table.rows[0][1] == "100 %") == (target == "loss")


def test_runs_without_a_figure_have_rows_and_no_importance(tmp_path: Path) -> None:
    for n in range(3):
        recorded(tmp_path / "runs" / f"run{n}", {"config.rate": n})
    document = page(tmp_path)
    assert len(document.sections) == 1
    assert rows(document).target == "no figure"
