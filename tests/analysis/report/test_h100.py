"""The report of a real H100: what a real driver and a compiled training do, and simulated ones do not."""

from __future__ import annotations

import polars as pl
import pytest

from gputel.analysis.documents.report import report_document
from gputel.analysis.render.markdown import markdown
from gputel.analysis.report.run_report import Report, make_report
from gputel.analysis.runs import read_run
from tests.sources import ROOT

TRAINED_S = 23.8  # sum of the printed step times, with a usual one for the first, which compiles


@pytest.fixture(scope="module")
def report() -> Report:
    return make_report(read_run(ROOT / "sample_runs" / "h100-depth12"))


def seconds(report: Report, kind: str) -> float:
    return float(report.totals.filter(kind=kind)["duration_s"].sum())


def test_compilation_is_no_training(report: Report) -> None:
    assert seconds(report, "train") == pytest.approx(TRAINED_S, rel=0.002)
    assert seconds(report, "start") == pytest.approx(88.3, abs=1)


def test_lines_that_come_a_step_late_lengthen_no_evaluation(report: Report) -> None:
    evaluations = report.spans.filter(pl.col("kind") == "eval", pl.col("step") > 0)
    lasted = (evaluations["end"] - evaluations["start"]).dt.total_milliseconds()
    assert lasted.to_list() == pytest.approx([490] * 3, abs=20)


def test_training_is_bound_by_compute(report: Report) -> None:
    answers = {verdict.question: verdict.answer for verdict in report.verdicts}
    assert (answers["bottleneck"], answers["mfu"]) == ("compute", "41.4 %")


def test_finding_and_table_have_one_utilization(report: Report) -> None:
    train = report.totals.filter(kind="train").row(0, named=True)
    facts = next(verdict.facts for verdict in report.verdicts if verdict.question == "bottleneck")
    assert (facts["util"], facts["util_error"]) == pytest.approx((train["util"], train["util_error"]))


def test_integral_agrees_with_a_counter_that_is_read_once_a_second(report: Report) -> None:
    assert report.account is not None
    (gpu,) = report.account.gpus
    assert gpu.energy_difference == pytest.approx(0, abs=0.005)
    assert gpu.energy_counter_j == pytest.approx(29_800, abs=100)


def test_no_two_figures_disagree(report: Report) -> None:
    assert report.doubts == ()


def test_counter_that_was_read_once_a_second_may_be_refreshed_more_often(report: Report) -> None:
    """A call for it took 4.4 ms. It said that the sensor was refreshed once a second."""
    text = markdown(report_document(report))
    assert "energy at least 1.0 Hz" in text
    assert "at least 1.00 Hz" in text
    assert "power 10.0 Hz" in text
