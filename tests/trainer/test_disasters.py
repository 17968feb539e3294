"""What a week-long run meets: killed while saving, a full disk, a rank that dies, a rank that hangs."""

import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from gputel.trainer.checkpoint import newest_first, verify

from .conftest import Left, Start, Train

Same = Callable[[Left, Left], None]
pytestmark = pytest.mark.long


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until(fact: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.timeout(900)
def test_killed_twenty_times_while_saving_the_checkpoint_before_is_good_and_the_run_goes_on(
    tmp_path: Path, train: Train, start: Start, same: Same
) -> None:
    options = (
        "--steps",
        "60",
        "--device-batch-size",
        "2",
        "--dim",
        "128",
        "--save-every",
        "2",
        "--keep",
        "2",
    )
    whole = train(tmp_path / "whole", *options)
    broken, dice = tmp_path / "broken", random.Random(5)
    for _ in range(20):
        process = start(broken, *options, "--resume", "auto")
        until(partial(saving_or_done, process, broken, time.time_ns()))
        if process.poll() is not None:
            break
        time.sleep(dice.uniform(0, 0.05))
        process.kill()
        process.wait()
        for checkpoint in newest_first(broken / "checkpoints"):
            verify(checkpoint)
    left = train(broken, *options, "--resume", "auto")
    same(whole, left)
    assert not [name for name in left.checkpoints() if "." in name]


def saving_or_done(process: "subprocess.Popen[str]", out: Path, since_ns: int) -> bool:
    parts = (out / "checkpoints").glob("step_*.part")
    with suppress(FileNotFoundError):  # it may be complete by the time we look
        return process.poll() is not None or any(p.stat().st_mtime_ns > since_ns for p in parts)
    return True


def test_a_full_disk_costs_a_checkpoint_and_not_the_run(tmp_path: Path, start: Start) -> None:
    """Files may grow to 60 kB, which the log does not reach and the optimizer's state does."""

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    options = ("--steps", "6", "--device-batch-size", "2", "--save-every", "3")
    process = start(tmp_path / "run", *options, preexec_fn=small_files)
    output = process.communicate(timeout=100)[0]
    left = Left(tmp_path / "run")
    assert process.returncode == 1, output
    assert "checkpoint at step 3 failed" in output
    assert "Traceback" not in output
    assert sorted(left.losses()) == list(range(6))
    assert left.checkpoints() == []


def test_a_disk_that_fills_up_leaves_the_checkpoint_before_good(
    tmp_path: Path, train: Train, start: Start
) -> None:
    options = ("--steps", "6", "--device-batch-size", "2", "--save-every", "3")
    run = train(tmp_path / "run", *options, "--stop-at", "3")
    process = start(
        run.out,
        *options,
        "--resume",
        "latest",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)),
    )
    process.communicate(timeout=100)
    assert process.returncode == 1
    assert run.checkpoints() == ["step_000003"]
    verify(run.out / "checkpoints" / "latest")


def test_torchrun_starts_again_after_a_rank_was_killed_and_goes_on_from_the_last_checkpoint(
    tmp_path: Path, train: Train, start: Start, same: Same
) -> None:
    options = ("--steps", "40", "--device-batch-size", "4", "--save-every", "5", "--resume", "auto")
    whole = train(tmp_path / "whole", *options, ranks=2)
    process = start(tmp_path / "run", *options, ranks=2, launcher=("--max-restarts=2",))
    assert process.stdout
    for line in process.stdout:
        if line.startswith("step 00012/"):
            os.kill(children(process.pid)[-1], signal.SIGKILL)
            break
    output = process.communicate(timeout=100)[0]
    assert process.returncode == 0, output
    assert "Resuming from step_000010" in output
    same(whole, Left(tmp_path / "run"))


def test_a_rank_that_hangs_is_noticed_and_told(tmp_path: Path, start: Start) -> None:
    options = ("--steps", "4000", "--device-batch-size", "4", "--rank-timeout", "8")
    process = start(tmp_path / "run", *options, ranks=2)
    assert process.stdout
    for line in process.stdout:
        if line.startswith("step 00005/"):
            stopped = children(process.pid)[-1]
            os.kill(stopped, signal.SIGSTOP)
            break
    told = [line for line in process.stdout if line.startswith("rank ")]
    assert process.wait(timeout=60) == 1
    assert told
    assert "go on with --resume auto" in told[0]
