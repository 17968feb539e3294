"""The errors of a comparison's totals."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gputel.analysis import compare
from gputel.analysis.documents.compare import comparison_document
from gputel.analysis.runs import RunData, read_run


@pytest.fixture
def stamped(tmp_path: Path) -> RunData:
    """200 steps of 1 s with whole-second stamps; the printed rates scatter by a hundredth."""
    lines = [
        f"2026-11-21 09:{step // 60:02d}:{step % 60:02d} step {step} | loss: 3.0 | dt: 1000.00ms | "
        f"tok/sec: {100_000 + 1000 * (step % 3 - 1)}"
        for step in range(200)
    ]
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    return read_run(path)


def test_time_has_the_error_of_two_cut_timestamps(stamped: RunData) -> None:
    row = compare.compare([stamped, stamped]).summary.row(0, named=True)
    assert row["time_error_s"] == pytest.approx(0.67, abs=0.01)


def test_printed_throughput_has_the_error_of_a_mean(stamped: RunData) -> None:
    comparison = compare.compare([stamped, stamped])
    assert comparison.summary["tok_per_sec_error"][0] == pytest.approx(1.64 * 816 / 200**0.5, rel=0.02)
    tables = comparison_document(comparison, drawn=False).sections[0].items
    cells = {row[0]: row[1] for table in tables for row in table.rows}  # type: ignore[union-attr]
    assert cells["tok/s"] == "99,990 ±90" or cells["tok/s"] == "100,000 ±90"


def test_throughput_that_is_not_printed_is_that_of_training_alone(tmp_path: Path) -> None:
    """A step of half a second, and evaluations of half a minute: a rate of the elapsed time would be half of it."""
    second, lines = 0.0, ["tokens per step: 1000"]
    for step in range(301):
        if step % 60 == 0 and step:
            second += 30
            lines.append(
                f"{datetime(2026, 11, 21, 9) + timedelta(seconds=second)} step {step} | val loss: 3.1"
            )
        second += 0.5
        lines.append(f"{datetime(2026, 11, 21, 9) + timedelta(seconds=second)} step {step} | loss: 3.0")
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    row = compare.compare([read_run(path)] * 2).summary.row(0, named=True)
    assert row["tok_per_sec"] == pytest.approx(2000, rel=0.01)
    assert abs(row["tok_per_sec"] - 2000) <= row["tok_per_sec_error"] + 1e-6


def test_figure_that_was_not_measured_has_no_error(stamped: RunData) -> None:
    row = compare.compare([stamped, stamped]).summary.row(0, named=True)
    assert (row["energy_error_j"], row["j_per_token_error"], row["mfu_error"]) == (None, None, None)
