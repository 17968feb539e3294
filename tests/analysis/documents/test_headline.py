"""The first lines of a report of a log without a recording; tests of recordings are those of the whole report."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.documents.headline import headline
from gputel.analysis.report.run_report import Report, make_report
from gputel.analysis.runs import read_run
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND
from tests.analysis.live.scenes import START

LINES = [
    "World size: 4",
    *(f"step {n:05d}/00100 (0.1%) | loss: {4 - n / 100:.4f} | lrm: 1.00 | dt: 900.00ms" for n in range(100)),
    "Step 00100 | Validation loss: 2.9876",
]


@pytest.fixture
def report(tmp_path: Path) -> Report:
    (tmp_path / "d4.log").write_text("\n".join(LINES) + "\n")
    return make_report(read_run(tmp_path / "d4.log"))


def test_headline_has_the_status_the_last_and_best_loss_and_the_speed(report: Report) -> None:
    lines = headline(report, None).known()
    assert lines["run"] == "d4: completed, 1 min 30 s"
    assert lines["loss"] == "3.0100 last; best validation 2.9876 loss"
    assert "900.0" in lines["speed"]
    assert set(lines) == {"run", "loss", "speed"}


def test_cost_is_time_on_every_gpu_at_the_price_of_one(report: Report) -> None:
    assert headline(report, 3.0).known()["cost"] == "$0.30: 0.1 GPU hours at $3.00"


def test_cost_of_a_log_that_names_no_gpu_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "d4.log").write_text("\n".join(LINES[1:]) + "\n")
    answer = headline(make_report(read_run(tmp_path / "d4.log")), 3.0)
    assert answer.known()["cost"] == "unknown: how many GPUs it used"


@pytest.mark.parametrize(
    ("last", "words"),
    [("KeyboardInterrupt", "(SIGINT, which Ctrl-C sends)"), ("received SIGTERM, shutting down", "SIGTERM")],
)
def test_ending_says_which_signal_it_was(tmp_path: Path, last: str, words: str) -> None:
    head = "Traceback (most recent call last):\n  File 'train.py', line 4\n" * (last == "KeyboardInterrupt")
    (tmp_path / "d4.log").write_text("\n".join(LINES[:30]) + f"\n{head}{last}\n")
    lines = headline(make_report(read_run(tmp_path / "d4.log")), None).known()
    assert lines["run"].startswith("d4: interrupted")
    assert words in lines["ended by"]


def test_log_that_is_cut_off_says_where_it_ends_and_not_that_this_ended_it(tmp_path: Path) -> None:
    steps = [f"step {step:05d}/00100 (1.00%) | loss: 3.0 | dt: 100.00ms" for step in range(30)]
    (tmp_path / "cut.log").write_text("\n".join(steps) + "\n")
    lines = headline(make_report(read_run(tmp_path / "cut.log")), None).known()
    assert lines["ended by"] == "unknown: log ends at step 29 of 100, in line 30"


def test_command_that_printed_nothing_has_the_status_that_its_recorder_saw(tmp_path: Path) -> None:
    """A report of a Ctrl-C before the first line names the status and no line of an empty log."""
    clock = {"started": {"wall_ns": START}, "ended": {"wall_ns": START + 5 * SECOND}}
    facts = {"run": "d4", "argv": ["python", "train.py"], **clock, "exit_code": 130}
    segment = run_folder.create(tmp_path / "d4", facts)
    segment.output.touch()
    segment.index.touch()
    lines = headline(make_report(read_run(tmp_path / "d4")), None).known()
    assert lines["run"].startswith("d4: interrupted")
    assert lines["ended by"] == "the command was ended by Ctrl-C"


def test_log_without_times_has_the_speed_that_it_printed(tmp_path: Path) -> None:
    """A tenth of a token a second keeps its digits, and no time is needed to repeat it."""
    path = tmp_path / "d4.log"
    path.write_text("".join(f"step {n} | loss 2.{n} | 0.19 tok/s\n" for n in range(9)))
    assert headline(make_report(read_run(path)), None).known()["speed"] == "0.19 tok/s as printed"


def trained(path: Path, *attempts: tuple[range, float]) -> str:
    """The line of the loss where each attempt is validated at each step, which its value falls by a hundredth."""
    path.write_text(
        "".join(
            f"step {n} | loss: 3.0000 | dt: 100.00ms\nStep {n} | Validation loss: {value - n / 100:.4f}\n"
            for steps, value in attempts
            for n in steps
        )
    )
    return headline(make_report(read_run(path)), None).known()["loss"]


def test_best_validation_of_a_resumed_run_may_be_of_the_attempt_that_it_resumed(tmp_path: Path) -> None:
    went_on = trained(tmp_path / "a.log", (range(0, 50, 10), 2.0), (range(35, 80, 10), 4.0))
    assert went_on == "3 last; best validation 1.7000 loss; attempt 1 had 1.6000 before steps began again"
    behind = trained(tmp_path / "b.log", (range(0, 50, 10), 2.0), (range(25, 60, 10), 3.0))
    assert behind == "3 last; best validation 1.8000 loss; attempt 1 had 1.6000 before steps began again"


def test_best_validation_of_several_trainings_says_which_and_names_a_better_one(tmp_path: Path) -> None:
    grid = (range(0, 50, 10), 2.0), (range(0, 50, 10), 1.0), (range(0, 30, 10), 3.0)
    best = "best validation 2.8000 loss of attempt 3; attempt 2 had 0.6000 before steps began again"
    assert trained(tmp_path / "a.log", *grid) == f"3 last; {best}"
    best_last = trained(tmp_path / "b.log", grid[2], grid[0], grid[1])
    assert best_last == "3 last; best validation 0.6000 loss"
