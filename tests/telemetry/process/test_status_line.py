"""The status line says what was measured, and fits the terminal."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from gputel.telemetry import events
from gputel.telemetry.clock import SystemClock
from gputel.telemetry.process.status_line import STATUS_EVERY, StatusReporter, last_loss, status_line
from gputel.telemetry.process.terminal import QUIET, Screen
from gputel.telemetry.sampling.status import Board

if TYPE_CHECKING:
    from gputel.telemetry.process.children import Supervisor

NEWS: dict[str, object] = {
    "simulated": "2xH100",
    "hz": 99.96,
    "bytes": 1_500_000,
    "gpus": [
        {
            "gpu": "0",
            "power_w": 412.3,
            "temp_c": 61,
            "util": 98,
            "mem_used_mib": 41_984,
            "mem_total_mib": 81_920,
        },
        {
            "gpu": "1",
            "power_w": None,
            "temp_c": 60,
            "util": None,
            "mem_used_mib": None,
            "mem_total_mib": None,
        },
    ],
}


def test_status_line_says_what_was_measured_and_nothing_else() -> None:
    line = status_line(NEWS, 3725, 500_000, width=200, color=False)
    assert line == (
        "SIMULATED 01:02:05 | GPU 0 412 W 61 °C 98 % 41.0/80 GiB | GPU 1 60 °C | 100.0 Hz | 2.0 MB"
    )
    assert status_line(None, 1, 0, width=80, color=True) == "00:00:01 | 0.0 MB"


def test_loss_stands_before_the_rate_and_is_left_out_after_it() -> None:
    lines = [
        status_line(eight(), 0, 0, width=width, color=False, loss="2.31").rpartition("GiB")[2]
        for width in (120, 97, 88)
    ]
    assert lines == [" | loss 2.31 | 100.0 Hz | 1.5 MB", " | loss 2.31 | 100.0 Hz", " | loss 2.31"]


def eight() -> dict[str, object]:
    gpus = [
        {
            "gpu": str(n),
            "power_w": 600.0 + n,
            "temp_c": 60 + n,
            "util": 99 - n,
            "mem_used_mib": 1024 * (70 + n),
            "mem_total_mib": 81_920,
        }
        for n in range(8)
    ]
    return {"hz": 99.96, "bytes": 1_500_000, "gpus": gpus}


def test_more_than_two_gpus_are_shown_together() -> None:
    assert status_line(eight(), 3725, 500_000, width=120, color=False) == (
        "01:02:05 | 8 GPUs 4,828 W max 67 °C min util 92 % max 77.0/80 GiB | 100.0 Hz | 2.0 MB"
    )


def test_gpus_that_do_not_answer_are_counted_and_not_summed() -> None:
    news = eight()
    gpus = news["gpus"]
    assert isinstance(gpus, list)
    gpus[3] = {"gpu": "3", "power_w": None, "temp_c": None, "util": None, "mem_used_mib": None}
    line = status_line(news, 0, 0, width=120, color=False)
    assert line.startswith("00:00:00 | 7 of 8 GPUs 4,225 W max 67 °C ")


@pytest.mark.parametrize("news", [NEWS, eight(), None], ids=["two", "eight", "no news"])
def test_status_line_fits_any_width_and_never_cuts_a_word(news: dict[str, object] | None) -> None:
    words = set(status_line(news, 3725, 0, width=500, color=False).split())
    words |= {"2", "GPUs", "412", "W", "max", "61", "°C", "min", "util", "98", "%", "1,013"}
    longest = 0
    for width in range(1, 130):
        line = status_line(news, 3725, 0, width=width, color=False)
        assert len(line) < width
        assert len(line) >= longest
        assert set(line.split()) <= words
        longest = len(line) if width < 40 else 0
    assert status_line(NEWS, 0, 0, width=40, color=True).startswith("\x1b[33mSIMULATED \x1b[0m")


def test_status_line_that_output_removed_comes_back_before_its_second_is_over(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A command that prints a line a second would hide it nearly all of the time."""
    screen = Screen(None)
    sampling = cast("Supervisor", SimpleNamespace(board=Board()))
    began = SystemClock().stamp()
    reporter = StatusReporter(screen, sampling, began, tmp_path, status=True)
    drawn_at = time.monotonic_ns() + STATUS_EVERY
    reporter.report(drawn_at)
    assert "MB" in capfd.readouterr().err
    screen.note("a line")
    removed_at = time.monotonic_ns()
    reporter.report(removed_at)
    assert "MB" not in capfd.readouterr().err
    reporter.report(removed_at + QUIET)
    assert "MB" in capfd.readouterr().err
    reporter.report(removed_at + 2 * QUIET)
    assert capfd.readouterr().err == ""


def test_fault_of_sending_is_one_line_however_often_it_comes_back(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sampling = cast("Supervisor", SimpleNamespace(board=Board()))
    reporter = StatusReporter(Screen(None), sampling, SystemClock().stamp(), tmp_path, status=False)
    fault = "sending is held up: s3://bucket/d16: the key is not accepted; is it right?"
    for kind, said in (
        ("mark", "lower lr"),
        (events.SYNC, fault),
        (events.SYNC, fault),
        (events.PUSH, "pushing is held up"),  # the guard prints these
    ):
        events.append(tmp_path, 0, kind, said)
        reporter.report(0)
    assert capfd.readouterr().err == f"gputel: {fault}\n"


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        ("step 00100/09999 (1.00%) | loss: 3.123456 | lrm: 1.00 | dt: 210.0ms", "3.123456"),
        ("{'loss': 2.34, 'grad_norm': 1.2, 'epoch': 0.1}", "2.34"),
        ('{"step": 3, "train_loss": 1.5e-3}', "1.5e-3"),
        ("iter 10: loss 2.3456, time 12.3ms", "2.3456"),
        ("INFO loss=4", "4"),
        ("Train Loss: 0.5 Val Loss: 0.7", "0.5"),
        ("training loss 2.5", "2.5"),
        ("loss: nan", "nan"),
        ("Epoch: [1][10/100] Loss 0.5 (0.6)", "0.5"),
        ("50%|#####     | 5/10 [00:01<00:01, loss=2.31]\r 60%|######    | 6/10", "2.31"),
        ("step 1 loss 2.0\nstep 2 val loss 1.0", "2.0"),
        ("Validation loss: 3.2", None),
        ("val_loss: 3.2", None),
        ("eval/loss: 3.2", None),
        ("aux loss 0.01", None),
        ("packet loss: 3", None),
        ("0 received, loss: 50%, time 3ms", None),
        ("loss.py:30: warning", None),
        ("loss 12abc", None),
        ("no figures", None),
    ],
)
def test_loss_is_the_trainings_or_none(line: str, loss: str | None) -> None:
    assert last_loss(line.encode() + b"\n") == loss


def test_line_that_is_not_yet_whole_is_not_read() -> None:
    """Its last digits may still be missing."""
    assert last_loss(b"loss: 3.25\nloss: 3.1") == "3.25"
