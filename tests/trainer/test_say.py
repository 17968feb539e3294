"""Errors in one line, and which of them need a traceback."""

import errno
import os
import pickle
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from gputel.trainer.checkpoint import durable
from gputel.trainer.ranks import is_lost_connection, leave
from gputel.trainer.say import RankError, TrainerError, explains_itself, one_line

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "model.pt")


@pytest.mark.parametrize("values", [10, 100_000])
def test_full_disk_is_named_with_the_file(tmp_path: Path, values: int) -> None:
    file = tmp_path / "model_00000.pt"
    file.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"model_00000.pt") as fault, durable(file) as opened:
        torch.save({"weight": torch.zeros(values)}, opened)
    assert one_line(fault.value) == f"{file}: No space left on device (the disk is full)"


@pytest.mark.parametrize(
    ("fault", "line", "enough"),
    [
        (TrainerError("--seq", "is odd", "take 2"), "--seq: is odd; take 2", True),
        (FULL, "model.pt: No space left on device (the disk is full)", True),
        (OSError(errno.EIO, "Input/output error"), "Input/output error", False),
        (RuntimeError("shapes differ\nmore"), "RuntimeError: shapes differ", False),
        (RankError(1, "ValueError: bad"), "ValueError: bad", True),
        (
            torch.OutOfMemoryError("CUDA is full"),
            "out of memory: OutOfMemoryError: CUDA is full; take a smaller --device-batch-size, or --recompute",
            True,
        ),
    ],
)
def test_error_is_one_line_and_a_bug_needs_its_traceback(fault: Exception, line: str, enough: bool) -> None:
    assert (one_line(fault), explains_itself(fault)) == (line, enough)
    assert one_line(pickle.loads(pickle.dumps(fault))) == line


@pytest.mark.parametrize(
    ("fault", "lost"),
    [
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
        (
            RuntimeError("[/x/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"),
            True,
        ),
        (dist.DistBackendError("NCCL error"), True),
        (ConnectionResetError(), True),
    ],
)
def test_only_distributed_and_connection_errors_mean_that_another_rank_is_gone(
    fault: Exception, lost: bool
) -> None:
    assert is_lost_connection(fault) == lost


@pytest.mark.parametrize(("failed", "destroyed"), [(True, []), (False, ["group"])])
def test_process_group_is_destroyed_only_without_an_error(
    failed: bool, destroyed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With NCCL: after an error it would wait for ranks that are gone."""
    done: list[str] = []

    def ended(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_backend", lambda: "nccl")
    monkeypatch.setattr(dist, "destroy_process_group", lambda: done.append("group"))
    monkeypatch.setattr(os, "_exit", ended)
    with pytest.raises(SystemExit):
        leave(1, failed=failed)
    assert done == destroyed
