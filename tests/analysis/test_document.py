"""Strict JSON has one form in every command: whole numbers, nulls and moments."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import polars as pl

import gputel
from gputel.analysis.compare import compare
from gputel.analysis.compare.answer import comparison_json
from gputel.analysis.document import Document, FactList, Section, Table, as_json, caution, rows
from gputel.analysis.logs import summary
from gputel.analysis.report import run_report
from gputel.analysis.report.run_report import make_report
from gputel.analysis.runs import read_run

ROOT = Path(gputel.__file__).parent.parent
LOG = ROOT / "sample_logs"


def test_whole_floats_lose_their_point_and_what_is_not_finite_is_null() -> None:
    at = datetime(2025, 11, 21, 4, 40, 5, 316_449, timezone.utc)
    result = as_json({"depth": 16.0, "loss": (2.5, float("nan"), float("inf")), "large": 2.0**60, "at": at})
    assert json.dumps(result, allow_nan=False) == (
        '{"depth": 16, "loss": [2.5, null, null], "large": 1.152921504606847e+18, '
        '"at": "2025-11-21T04:40:05.316449000Z"}'
    )


def test_frame_is_rows_with_all_nine_digits_of_a_moment() -> None:
    at = pl.Series("time", [1_763_700_005_316_449_261, None]).cast(pl.Datetime("ns", "UTC"))
    frame = pl.DataFrame([at, pl.Series("value", [1.0, float("nan")])])
    assert (
        as_json(frame)
        == list(rows(frame))
        == [
            {"time": "2025-11-21T04:40:05.316449261Z", "value": 1},
            {"time": None, "value": None},
        ]
    )


def test_depth_of_a_log_is_written_alike_by_parse_compare_and_report() -> None:
    first, second = (read_run(path) for path in (LOG / "d16-base.log.gz", LOG / "d24-base.log.gz"))
    answers: list[Any] = [
        summary.run(first.log)["config"],
        {"depth": run_report.answer(make_report(first))["facts"]["depth"]["value"]},
        comparison_json(compare([first, second]))["summary"][first.name],
    ]
    assert {json.dumps(answer["depth"]) for answer in answers} == {str(int(first.log.config["depth"]))}


def test_no_other_module_turns_values_into_json_of_its_own() -> None:
    own = re.compile(r"\.isoformat\(|def _(plain|number|fact|whole)\(\w+: Any")
    found = {
        path.name
        for home in ("analysis", "gputel/cli")
        for path in (ROOT / home).rglob("*.py")
        if own.search(path.read_text())
    }
    assert found == set()


def test_caution_has_one_wording() -> None:
    assert caution("2xH100", composed=True) == "SIMULATED: 2xH100; no real GPU data"
    assert (caution(None, composed=True), caution(None)) == ("synthetic log", None)
    own = re.compile("no real GPU data|synthetic log")
    homes = [path for home in ("analysis", "gputel/cli") for path in (ROOT / home).rglob("*.py")]
    assert [path.name for path in homes if own.search(path.read_text())] == ["document.py"]


def test_document_has_its_secrets_masked_for_every_output() -> None:
    """Among them `ended by`, which is a line of the log."""
    facts = FactList({"ended by": "line 3: login --token hunter2", "git": None})
    table = Table("", ("run", "steps"), [("x --password=hunter2", 3)])
    whole = Document("run", [Section(items=[facts, table], text="HF_TOKEN=hunter2")], about="pw=hunter2")
    assert "hunter2" not in repr(whole)
    assert facts.known() == {"ended by": "line 3: login --token ***"}
    assert table.rows == [("x --password=***", 3)]
    assert (whole.sections[0].text, whole.about) == ("HF_TOKEN=***", "pw=***")
