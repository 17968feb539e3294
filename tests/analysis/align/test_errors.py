"""The error of the borders between training and anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.report import answer, make_report
from gputel.analysis.runs import read_run


def test_report_of_steps_that_begin_again_with_each_epoch_has_real_errors(tmp_path: Path) -> None:
    """Records stand for fewer than no steps where a counter within epochs falls."""
    lines = [
        f"(epoch: {epoch}, iters: {iters}, time: 0.274, data: 0.001) D_A: 0.2{iters % 7} G_A: 0.31 loss: 1.{iters}"
        for epoch in range(1, 60)
        for iters in (900, 100)
    ]
    path = tmp_path / "loss_log.txt"
    path.write_text("\n".join(lines) + "\n")
    assert answer(make_report(read_run(path)))["schema"] == 1


@pytest.mark.parametrize(("printed", "least_s"), [(("0.31", "0.30"), 0.002), (("0.3083", "0.3081"), 0.0)])
def test_rounded_step_times_leave_an_error_at_every_border(
    printed: tuple[str, str], least_s: float, tmp_path: Path
) -> None:
    """Steps of 0.3083 s are printed with two digits, or four; evaluations stand between them."""
    at, lines = 0.0, []
    for number in range(200):
        if number and number % 20 == 0:
            at += 12.0
            lines.append(f"{_stamp(at)} Step {number:05d} | Validation bpb: 1.1")
        at += 0.3083
        lines.append(f"{_stamp(at)} step {number:05d} | loss: 3.1 | dt: {printed[number % 9 == 0]}s")
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    (row,) = (row for row in answer(make_report(read_run(path)))["time"] if row["kind"] == "eval")
    assert abs(row["duration_s"] - 9 * 12.0) <= row["duration_error_s"]
    assert row["duration_error_s"] > 9**0.5 * least_s


def _stamp(at: float) -> str:
    return f"2026-03-01 10:{int(at) // 60:02d}:{at % 60:06.3f}"
