"""The training of a phase, and the errors of times, energies and rates."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis import runs
from gputel.analysis.report import run_report
from gputel.analysis.runs import read_run


def test_error_of_training_time_holds_how_much_steps_scatter(tmp_path: Path) -> None:
    """Timestamps of milliseconds tell where an evaluation ends only as well as the step after it is known."""
    now, lines = datetime(2026, 11, 21, 9), []
    for step in range(60):
        if step == 30:
            now += timedelta(seconds=12)
            lines.append((now, "validation loss: 3.0000"))
        took = 1.0 + 0.04 * (step % 3 - 1)
        now += timedelta(seconds=took)
        lines.append((now, f"step {step} | loss: 3.0 | dt: {1000 * took:.2f}ms | tok/sec: 1000"))
    path = tmp_path / "run.log"
    path.write_text("".join(f"{moment:%Y-%m-%d %H:%M:%S.%f} {line}\n" for moment, line in lines))
    answer = run_report.answer(run_report.make_report(read_run(path)))
    (train,) = (row for row in answer["time"] if row["kind"] == "train")
    assert abs(train["duration_s"] - 60.0) <= train["duration_error_s"]
    assert 0.02 < train["duration_error_s"] < 0.5


@pytest.fixture
def measured(tmp_path: Path) -> dict[str, Any]:
    """A log with whole-second stamps beside power of ten seconds' steps at 500 W and an evaluation at 300 W."""
    start = datetime(2026, 11, 21, 9)
    lines = [(start, "loading"), (start, "desired batch size (number of tokens): 1000")]
    rows, second = ["timestamp, index, power.draw [W]"], 0.4
    for step in range(40):
        if step == 20:
            second += 30.0
            lines.append((start + timedelta(seconds=second), "validation loss: 3.0000"))
        second += 2.5
        lines.append((start + timedelta(seconds=second), f"step {step} | loss: 3.0"))
    for tenth in range(int(10 * second)):
        moment = start + timedelta(seconds=tenth / 10)
        watts = 300 if 50.4 <= tenth / 10 < 80.4 else 500
        rows.append(f"{moment:%Y/%m/%d %H:%M:%S}.{tenth % 10}00, 0, {watts + tenth % 2}.00 W")
    log, table = tmp_path / "run.log", tmp_path / "run.csv"
    log.write_text("".join(f"{moment:%Y-%m-%d %H:%M:%S} {line}\n" for moment, line in lines))
    table.write_text("\n".join(rows) + "\n")
    return run_report.answer(run_report.make_report(runs.from_table_and_log(table, log)))


def test_rate_has_the_relative_error_of_the_training_time(measured: dict[str, Any]) -> None:
    (phase,) = measured["phases"]
    (train,) = (row for row in measured["time"] if row["kind"] == "train")
    assert phase["tok_per_sec"] == pytest.approx(400, abs=phase["tok_per_sec_error"])
    share = train["duration_error_s"] / train["duration_s"]
    assert phase["tok_per_sec_error"] / phase["tok_per_sec"] == pytest.approx(share)


def test_energy_and_all_that_is_made_of_it_have_an_error(measured: dict[str, Any]) -> None:
    (phase,) = measured["phases"]
    (train,) = (row for row in measured["time"] if row["kind"] == "train")
    assert train["energy_j"] == pytest.approx(50_000, abs=train["energy_error_j"])
    assert 100 < train["energy_error_j"] < 2000
    assert train["power_mean_w"] == pytest.approx(500, abs=train["power_error_w"])
    share = train["energy_error_j"] / train["energy_j"]
    assert phase["j_per_token_error"] / phase["j_per_token"] == pytest.approx(share, rel=0.1)
    assert phase["j_per_step_error"] / phase["j_per_step"] == pytest.approx(share, rel=0.1)


def test_power_until_a_gpu_was_lost_has_the_error_of_that_time(tmp_path: Path) -> None:
    """Two GPUs draw 500 W each, shown as the mean of the last second; one answers for eight seconds of training."""
    start = datetime(2026, 5, 4, 10)
    lines = ["10:00:00.000 tokens per step: 1000"]
    lines += [f"10:00:{10.5 + step / 2:06.3f} step {step} | loss: 3.0 | dt: 500.00ms" for step in range(80)]
    rows = ["timestamp, index, power.draw [W]"]
    for tenth in range(500):
        moment, watts = start + timedelta(seconds=tenth / 10), 100 + 400 * min(max(tenth / 10 - 10, 0), 1)
        stamp = f"{moment:%Y/%m/%d %H:%M:%S}.{tenth % 10}00"
        rows += [f"{stamp}, {gpu}, {watts + tenth % 2:.2f} W" for gpu in (0, 1) if gpu == 0 or tenth < 180]
    log, table = tmp_path / "run.log", tmp_path / "run.csv"
    log.write_text("".join(f"2026-05-04 {line}\n" for line in lines))
    table.write_text("\n".join(rows) + "\n")
    result = run_report.answer(run_report.make_report(runs.from_table_and_log(table, log)))
    (phase,) = result["phases"]
    (train,) = (row for row in result["time"] if row["kind"] == "train")
    assert train["power_mean_w"] == pytest.approx(1000, abs=train["power_error_w"])
    assert phase["j_per_token"] == pytest.approx(0.5, abs=phase["j_per_token_error"])


@pytest.mark.parametrize("stamped", [False, True])
def test_steps_that_nothing_separates_from_their_evaluations_have_no_rate(
    tmp_path: Path, stamped: bool
) -> None:
    """Each printed time holds the evaluation before it: 12 s of 13.2, and a save of 2 s before every tenth."""
    now, lines = datetime(2026, 11, 21, 9), ["desired batch size (number of tokens): 524288"]
    for step in range(40):
        held = 12.0 * bool(step) + 2.0 * (step % 10 == 9)
        now += timedelta(seconds=held)
        stamp = f"{now:%Y-%m-%d %H:%M:%S} " if stamped else ""
        lines += [f"{stamp}validation loss: 3.{step:03d}"] * bool(step)
        lines += [f"{stamp}saved checkpoint to out/step_{step}.pt"] * (step % 10 == 9)
        now += timedelta(seconds=1.2)
        stamp = f"{now:%Y-%m-%d %H:%M:%S} " if stamped else ""
        lines.append(f"{stamp}step {step} | loss: 3.0 | dt: {1000 * (1.2 + held) + step % 3:.2f}ms")
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    answer = run_report.answer(run_report.make_report(read_run(path)))
    (phase,), rows = answer["phases"], {row["kind"]: row for row in answer["time"]}
    assert (phase["step_s"], phase["tok_per_sec"], phase["j_per_token"]) == (None, None, None)
    assert rows["train"]["contains"] == "eval, checkpoint"
    assert rows["train"]["duration_s"] == pytest.approx(40 * 1.2 + 39 * 12 + 4 * 2, rel=0.01)


@pytest.mark.parametrize("printed", ["", " | dt: 60000.00ms"], ids=["nothing", "step times"])
def test_records_without_a_step_are_no_steps(tmp_path: Path, printed: str) -> None:
    """A line a minute may stand for 500 steps; only a printed step time says that it is one."""
    start = datetime(2026, 11, 21, 9)
    lines = (
        f"{start + timedelta(minutes=n)} loss: {3 - n / 20:.4f} | lr: 1e-4{printed}\n" for n in range(20)
    )
    path = tmp_path / "run.log"
    path.write_text("Total batch size 524,288\n" + "".join(lines))
    (phase,) = run_report.answer(run_report.make_report(read_run(path)))["phases"]
    known = {name for name in ("steps", "step_s", "tok_per_sec", "j_per_step") if phase[name] is not None}
    assert known == ({"steps", "step_s", "tok_per_sec"} if printed else set())
