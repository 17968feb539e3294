"""What a week-long run meets: killed while saving, a full disk, a rank that dies, a rank that hangs."""

import errno
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from torch import Tensor

from gputel.trainer.checkpoint import newest_first, verify
from gputel.trainer.data import Feed
from gputel.trainer.model import Block
from gputel.trainer.ranks import first_failure, grace_s
from gputel.trainer.say import RankError, TrainerError

from .conftest import LIMIT_S, Left, Start, Torchrun, Train, same, same_tensors

pytestmark = pytest.mark.long
TINY_DEPTH = 2
SMALL_FILES = 60_000  # bytes: the log stays below that, the weights do not


def test_killed_twenty_times_while_saving_the_checkpoint_before_is_good_and_the_run_goes_on(
    tmp_path: Path, train: Train, start: Start
) -> None:
    """A save follows every odd step and takes some twenty milliseconds; it replaces what the last kill left."""
    options = "--steps 80 --device-batch-size 2 --dim 128 --save-every 2 --keep 2".split()
    whole = train(tmp_path / "whole", *options)
    begun = train(tmp_path / "begun", *options, "--stop-at", "2")
    broken, dice = tmp_path / "broken", random.Random(5)
    for _ in range(20):
        run = start(broken, *options, "--resume", str(begun.out / "checkpoints" / "latest"))
        run.at("step 00003/")
        time.sleep(dice.uniform(0, 0.03))
        run.send(signal.SIGKILL)
        run.end()
        for checkpoint in newest_first(broken / "checkpoints"):
            verify(checkpoint)
    left = train(broken, *options, "--resume", "auto")
    same_tensors(whole, left)
    assert not [name for name in left.checkpoints() if "." in name]


def test_full_disk_costs_a_checkpoint_and_not_the_run(tmp_path: Path, start: Start) -> None:
    options = ("--steps", "6", "--device-batch-size", "2", "--save-every", "3")
    codes, output = start(tmp_path / "run", *options, largest_file=SMALL_FILES).end()
    left = Left(tmp_path / "run")
    assert codes == [1]
    part = tmp_path / "run" / "checkpoints" / "step_000003.part" / "model_00000.pt"
    assert f"checkpoint at step 3 failed: {part}: File too large; the one before it is untouched" in output
    assert "Traceback" not in output
    assert sorted(left.losses()) == list(range(6))
    assert left.checkpoints() == []


def test_disk_that_fills_up_leaves_the_checkpoint_before_good(
    tmp_path: Path, train: Train, start: Start
) -> None:
    options = ("--steps", "6", "--device-batch-size", "2", "--save-every", "3")
    run = train(tmp_path / "run", *options, "--stop-at", "3")
    codes, _ = start(run.out, *options, "--resume", "latest", largest_file=SMALL_FILES).end()
    assert codes == [1]
    assert run.checkpoints() == ["step_000003"]
    verify(run.out / "checkpoints" / "latest")


def test_torchrun_starts_again_after_a_rank_was_killed_and_goes_on_from_the_last_checkpoint(
    tmp_path: Path, train: Train, torchrun: Torchrun
) -> None:
    options = ("--steps", "80", "--device-batch-size", "4", "--save-every", "5", "--resume", "auto")
    whole = train(tmp_path / "whole", *options, ranks=2)
    process = torchrun(tmp_path / "run", *options, launcher=("--nproc_per_node=2", "--max-restarts=2"))
    assert process.stdout
    for line in process.stdout:
        if line.startswith("step 00012/"):
            os.kill(children(process.pid)[-1], signal.SIGKILL)
            break
    output = process.communicate(timeout=LIMIT_S)[0]
    assert process.returncode == 0, output
    assert "Resuming from step_0000" in output
    same(whole, Left(tmp_path / "run"))


def test_log_says_how_long_torchrun_waits_after_a_signal(tmp_path: Path, torchrun: Torchrun) -> None:
    options, launcher = ("--steps", "2", "--device-batch-size", "2"), ("--nproc_per_node=1",)
    process = torchrun(tmp_path / "run", *options, launcher=(*launcher, "--shutdown-timeout=120"))
    output = process.communicate(timeout=LIMIT_S)[0]
    assert process.returncode == 0, output
    assert "Grace: torchrun waits 120 s after a signal, a save takes " in output


@pytest.mark.parametrize(
    ("variables", "grace"),
    [
        ({}, None),
        ({"TORCHELASTIC_RUN_ID": "none"}, 30),
        ({"TORCHELASTIC_RUN_ID": "none", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "45"}, 45),
    ],
    ids=["no torchrun", "default", "variable"],
)
def test_torchrun_waits_thirty_seconds_unless_a_variable_says_otherwise(
    variables: dict[str, str], grace: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TORCHELASTIC_RUN_ID", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert grace_s() == grace


def test_rank_that_died_is_named_by_the_others(tmp_path: Path, start: Start) -> None:
    run = start(tmp_path / "run", "--steps", "4000", ranks=2)
    run.at("step 00005/")
    run.send(signal.SIGKILL, rank=1)
    codes, output = run.end()
    assert codes == [1, -signal.SIGKILL]
    assert "rank 0: another rank is gone (" in output
    assert "; go on with --resume auto" in output
    assert "Traceback" not in output


def multiply_wrong_shapes() -> None:
    """In the third forward pass of this rank."""
    whole, passes = Block.forward, itertools.count()

    def broken(block: Block, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return x @ x[:, 1:] if next(passes) == 2 * TINY_DEPTH else whole(block, x, cos, sin)

    patch.object(Block, "forward", broken).start()


def multiply_wrong_shapes_on_rank_1() -> None:
    if os.environ["RANK"] == "1":
        multiply_wrong_shapes()


def fill_the_disk_on_rank_1() -> None:
    def full(_: Feed) -> tuple[Tensor, Tensor]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "tokens.bin")

    if os.environ["RANK"] == "1":
        patch.object(Feed, "next", full).start()


SHAPES = "RuntimeError: Expected size for first two dimensions of batch2 tensor"


def test_bug_on_one_rank_has_its_traceback_and_the_other_rank_names_it(tmp_path: Path, start: Start) -> None:
    run = start(tmp_path / "run", "--steps", "9", ranks=2, sabotage=multiply_wrong_shapes_on_rank_1)
    codes, output = run.end()
    assert codes == [1, 1]
    assert output.count("Traceback (most recent call last)") == 1
    assert "in broken\n" in output
    assert f"rank 0: rank 1 failed first ({SHAPES}" in output
    assert "is gone" not in output


def lose_the_data() -> None:
    missing = TrainerError("data", "does not exist", "see --data")
    patch("gputel.trainer.train.open_corpus", side_effect=missing).start()


def lose_the_data_on_rank_1() -> None:
    if os.environ["RANK"] == "1":
        lose_the_data()


@pytest.mark.parametrize(("sabotage", "rank"), [(lose_the_data, 0), (lose_the_data_on_rank_1, 1)])
def test_mistake_is_one_line_of_a_rank_that_met_it(
    tmp_path: Path, start: Start, sabotage: Callable[[], None], rank: int
) -> None:
    """On several machines it may be missing on one of them."""
    codes, output = start(tmp_path / "run", "--steps", "9", ranks=2, sabotage=sabotage).end()
    assert codes == [1, 1]
    assert [line for line in output.splitlines() if line.startswith("rank ")] == [
        f"rank {rank}: data: does not exist; see --data"
    ]


def be_ended_before_the_reason_is_known() -> None:
    """As torchrun ends rank 0 when rank 1 has failed."""

    def late(*where_and_fault: Any) -> RankError | None:
        os.kill(os.getpid(), signal.SIGTERM)
        return first_failure(*where_and_fault)

    multiply_wrong_shapes_on_rank_1()
    if os.environ["RANK"] == "0":
        patch("gputel.trainer.ranks.first_failure", late).start()


def test_rank_that_torchrun_ends_meanwhile_still_names_the_one_that_failed(
    tmp_path: Path, start: Start
) -> None:
    run = start(tmp_path / "run", "--steps", "9", ranks=2, sabotage=be_ended_before_the_reason_is_known)
    codes, output = run.end()
    assert codes == [1, 1]
    assert f"rank 0: rank 1 failed first ({SHAPES}" in output


def test_bug_on_all_ranks_has_one_traceback(tmp_path: Path, start: Start) -> None:
    run = start(tmp_path / "run", "--steps", "9", ranks=3, sabotage=multiply_wrong_shapes)
    codes, output = run.end()
    assert codes == [1, 1, 1]
    assert output.count("Traceback (most recent call last)") == 1
    assert output.count(f" failed first ({SHAPES}") == 2
    assert "is gone" not in output


def test_full_disk_on_one_rank_is_one_line_with_the_file(tmp_path: Path, start: Start) -> None:
    run = start(tmp_path / "run", "--steps", "9", ranks=2, sabotage=fill_the_disk_on_rank_1)
    codes, output = run.end()
    assert codes == [1, 1]
    assert "rank 1: tokens.bin: No space left on device (the disk is full)\n" in output
    assert "rank 0: rank 1 failed first (tokens.bin: No space left on device (the disk is full))\n" in output
    assert "Traceback" not in output


def test_rank_that_hangs_is_noticed_and_named(tmp_path: Path, start: Start) -> None:
    run = start(tmp_path / "run", "--steps", "4000", "--rank-timeout", "20", ranks=2)
    run.at("step 00005/")
    run.send(signal.SIGSTOP, rank=1)
    assert "go on with --resume auto" in run.at("rank 0: ")[-1]
    run.processes[0].join(LIMIT_S)
    assert run.processes[0].exitcode == 1


def test_rank_in_which_nothing_happens_ends_with_a_line_that_says_what_it_was_doing() -> None:
    """Whatever it waits for: a collective that does not give up by itself, a disk that is gone."""
    script = """
import time, torch
from gputel.trainer.ranks import RankWatchdog, World
RankWatchdog(World(1, 1, 2, torch.device("cpu")), 0.5).alive("saving at step 7")
time.sleep(600)
"""
    done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    fault = "nothing happened for 0.5 s while saving at step 7; another rank hangs or is gone"
    assert (done.returncode, done.stderr) == (1, f"rank 1: {fault}; go on with --resume auto\n")


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
