"""Timestamps that contradict each other are doubtful; time that is merely uneven is not."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gputel.analysis.report import run_report
from gputel.analysis.runs import of_log, read_run
from gputel.analysis.runs.log_doubts import log_doubts


def doubts_of(folder: Path, shift_s: Callable[[int], float]) -> list[str]:
    begin = datetime(2026, 3, 29, 1, 50)
    lines = [
        f"{begin + timedelta(seconds=2 * step + shift_s(step))} step {step} | loss: 2.{step} | lr 1e-4\n"
        for step in range(60)
    ]
    path = folder / "run.log"
    path.write_text("".join(lines))
    return [doubt.evidence for doubt in log_doubts(read_run(path))]


@pytest.mark.parametrize(
    ("hours", "words"),
    [(-1, "fall by 1 h 00 min"), (1, "go on by 1 h 00 min"), (-12, "fall by 12 h 00 min")],
)
def test_clock_that_was_set_by_hours_is_doubtful(tmp_path: Path, hours: int, words: str) -> None:
    found = doubts_of(tmp_path, lambda step: 3600 * hours * (step >= 30))
    assert found == [f"timestamps {words} at step 30, and are usually 2.0 s apart"]


@pytest.mark.parametrize("pause_s", [600, 4000, -1])
def test_pause_that_is_no_whole_hour_and_lines_in_wrong_order_are_not(tmp_path: Path, pause_s: float) -> None:
    assert doubts_of(tmp_path, lambda step: pause_s * (step >= 30)) == []


@pytest.mark.parametrize(("steps", "kept"), [(20_000, 0.5), (30, 0.9)])
def test_compressed_log_that_is_cut_is_the_first_doubt_of_a_report(
    tmp_path: Path, steps: int, kept: float
) -> None:
    whole = gzip.compress("".join(f"step {step} | loss: 2.{step}\n" for step in range(steps)).encode())
    path = tmp_path / "run.log.gz"
    path.write_bytes(whole[: int(len(whole) * kept)])
    doubt = run_report.make_report(read_run(path)).doubts[0]
    assert doubt.what == "cut"
    assert doubt.text.startswith("could be read only in part: Compressed file ended")
    path.write_bytes(whole)
    assert [doubt.what for doubt in run_report.make_report(read_run(path)).doubts] == []


@pytest.mark.parametrize("shift_s", [-3600, -25, 3600, 7 * 3600])
def test_log_whose_clock_was_set_takes_the_time_of_its_steps(tmp_path: Path, shift_s: float) -> None:
    """There is an evaluation between the two timestamps, which takes as long as others do."""
    now, lines = datetime(2026, 10, 25, 1, 50), []
    for step in range(120):
        now += timedelta(seconds=2.0 + 9 * (step % 20 == 0) + shift_s * (step == 60))
        if step % 20 == 0:
            lines.append(f"{now - timedelta(seconds=2):%Y-%m-%d %H:%M:%S} validation loss: 2.5")
        lines.append(
            f"{now:%Y-%m-%d %H:%M:%S} step {step}/120 | loss: 2.{step} | dt: {2000 + step % 3:.2f}ms"
        )
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    subject = read_run(path)
    assert [doubt.what for doubt in log_doubts(subject)] == ["clock"]
    assert log_doubts(of_log(subject.log.with_results())) == log_doubts(subject)
    answer = run_report.answer(run_report.make_report(subject))
    assert sum(row["duration_s"] for row in answer["time"]) == pytest.approx(240, abs=1)
    assert answer["phases"][0]["step_s"] == pytest.approx(2.001, abs=0.001)


@pytest.mark.parametrize(("last", "doubts"), [(40, 0), (60, 1)])
def test_total_is_that_of_the_attempt_that_announces_it(tmp_path: Path, last: int, doubts: int) -> None:
    first = [f'{{"step": {i}, "loss": {9 / i}}}\n' for i in range(1, 201)]
    again = [f'{{"step": {i}, "total_steps": 40, "loss": {9 / i}}}\n' for i in range(1, last + 1)]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(first + again))
    found = log_doubts(read_run(path))
    assert sum("announces" in doubt.evidence for doubt in found) == doubts


def test_step_time_of_the_first_record_alone_is_not_that_of_all_steps(tmp_path: Path) -> None:
    """Every other record holds an evaluation, and the first one may have been compiled."""
    begin, lines = datetime(2026, 3, 29, 1, 50), list[str]()
    for step in range(0, 200, 10):
        at = begin + timedelta(seconds=17 * step / 10)
        if step:
            lines.append(f"{at} step {step}: train loss {4 - step / 99:.4f}, val loss {5 - step / 99:.4f}")
        dt_ms = 11_000 if step else 47_728.19
        lines.append(f"{at} iter {step}: loss {4 - step / 99:.4f}, time {dt_ms:.2f}ms, mfu 41.00%")
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    assert log_doubts(read_run(path)) == ()


def test_token_count_that_falls_without_steps_is_a_doubt(tmp_path: Path) -> None:
    """Steps by tokens would need to know which records were done once more."""
    counts = [*range(1, 9), *range(5, 12)]
    lines = [f"tokens: {65_536 * n:,} | loss: {3 - n / 20:.4f} | tok/s: 50,412\n" for n in counts]
    (tmp_path / "run.log").write_text("batch size in tokens: 65,536\n" + "".join(lines))
    (doubt,) = log_doubts(read_run(tmp_path / "run.log"))
    assert doubt.text == (
        "tokens fall from 524,288 to 327,680 at line 10, and no step is printed: "
        "the run began again there, and its attempts are not told apart"
    )
