"""A spreadsheet that opens a CSV runs none of its cells."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from gputel.analysis.exports import tables
from gputel.analysis.runs.paths import parse


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-", "-d16"]
)
def test_text_that_begins_like_a_formula_gets_an_apostrophe(text: str) -> None:
    assert tables.without_formulas(pl.DataFrame({"text": [text, "d16", None]}))["text"].to_list() == [
        f"'{text}",
        "d16",
        None,
    ]


@pytest.mark.parametrize("text", ["-5", "+1e-3", "-1,234.5", "-.5", "-inf", "-12%", "3.0", ""])
def test_number_in_a_column_of_text_stays(text: str) -> None:
    assert tables.without_formulas(pl.DataFrame({"text": [text]}))["text"].to_list() == [text]


def test_numbers_and_lazy_tables_are_untouched() -> None:
    table = pl.DataFrame({"loss": [-1.5, None], "step": [-3, 2], "run": ["=a", "b"]})
    safe = tables.without_formulas(table.lazy()).collect()
    assert safe.select("loss", "step").equals(table.select("loss", "step"))
    assert safe["run"].to_list() == ["'=a", "b"]


def test_name_of_a_column_is_no_formula() -> None:
    assert tables.without_formulas(pl.DataFrame({"=a": [1], "loss": [2], "-d16": ["x"]})).columns == [
        "'=a",
        "loss",
        "'-d16",
    ]


def test_event_of_a_log_is_no_formula_in_its_csv(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        "step 1/9 | loss: 3.0 | dt: 100.00ms\nTraceback (most recent call last):\nOSError: @SUM(1)\n"
    )
    written = tables.write_logs([parse(log)], tmp_path / "out", "csv", force=False)
    events = pl.read_csv(next(path for path in written if ".events." in path.name))
    assert not [text for text in events["text"] if text and text.startswith(tuple("=+-@"))]
