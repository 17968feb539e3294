"""The error of the borders between training and anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.plan.timing import training_time
from gputel.analysis.report.run_report import answer, make_report
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


def test_evaluations_within_every_second_step_time_are_no_scatter_of_steps(tmp_path: Path) -> None:
    at, lines = 0.0, []
    for number in range(0, 400, 10):
        waited = 16.0 * (number % 20 == 0 and number > 0)
        dt = 0.64 + number % 70 / 10_000
        at += 9 * dt + waited
        lines += [f"{_stamp(at)} validation loss: 3.0"] if waited else []
        at += dt
        lines.append(f"{_stamp(at)} step {number:5d} | loss: 3.100000 | dt: {1000 * (dt + waited):.2f}ms")
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    subject = read_run(path)
    (row,) = (row for row in answer(make_report(subject))["time"] if row["kind"] == "train")
    assert row["duration_error_s"] < 0.02 * row["duration_s"]
    step = training_time(subject).step
    assert step is not None
    assert step.seconds == pytest.approx(0.643, abs=step.error_s)
    assert 0.0005 < step.error_s < 0.005


FILES = [(2.0, "Saved model file to: out/model_000200.pt"), (3.5, "Saved optimizer file to: out/optim_000200.pt"),
         (5.0, "Saved metadata file to: out/meta_000200.json")]  # fmt: skip
ANNOUNCED = (0.0, "Saving model checkpoint to out/checkpoint-200")


@pytest.mark.parametrize(
    ("behind", "least_error_s"),
    [
        ([*FILES, (90.0, "Peak memory usage: 41213.55MiB")], 0.0),
        (FILES, 0.0),
        ([ANNOUNCED, (7.0, "Peak memory usage: 41213.55MiB")], 3.4),
        ([ANNOUNCED], 5.0),
    ],
    ids=["files", "files at the end", "announced", "announced at the end"],
)
def test_save_behind_all_steps_ends_with_its_last_line_or_before_the_line_behind(
    behind: list[tuple[float, str]], least_error_s: float, tmp_path: Path
) -> None:
    """A save takes 5 s; one stands within the steps, the other behind them."""
    at, lines = 0.0, []
    for number in range(201):
        if number == 100:
            lines.append(f"{_stamp(at + 5)} Saved model file to: out/model_000100.pt")
            at += 5
        at += 1.0
        lines.append(f"{_stamp(at)} step {number:05d}/00200 | loss: 3.100000 | dt: 1000.00ms")
    lines += [f"{_stamp(at + later)} {text}" for later, text in behind]
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    (row,) = (row for row in answer(make_report(read_run(path)))["time"] if row["kind"] == "checkpoint")
    assert abs(row["duration_s"] - 10.0) <= row["duration_error_s"] + 0.001
    assert least_error_s <= row["duration_error_s"] < least_error_s + 1.0


def _stamp(at: float) -> str:
    return f"2026-03-01 10:{int(at) // 60:02d}:{at % 60:06.3f}"
