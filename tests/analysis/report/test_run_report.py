"""A report of a run: its spans, sums and verdicts agree with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.logs.files import read_file
from gputel.analysis.report import run_report
from gputel.analysis.report.run_report import make_report
from gputel.analysis.runs import RunData

SAMPLES = Path(__file__).parents[3] / "sample_logs"


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir()))
def test_every_sample_log_has_verdicts_with_evidence_and_no_doubt(name: str) -> None:
    made = make_report(RunData(read_file(SAMPLES / name)))
    assert made.doubts == ()
    answer = run_report.answer(made)
    assert all(verdict["evidence"] for verdict in answer["verdicts"])
    assert len(answer["verdicts"]) in (2, 5)
