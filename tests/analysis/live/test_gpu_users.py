"""The users of GPUs in the last ticks of a process table."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from gputel.analysis.live.gpu_users import LiveGpuUsers
from gputel.telemetry.host.process_names import NAMES

Use = tuple[int, int, int, float | None, float | None]


def ticks(*uses: Use) -> pl.DataFrame:
    """A row of each is pid, start, bits of GPUs, MiB and percent."""
    return pl.DataFrame(uses, schema=["pid", "start", "gpu", "gpu_mem_mib", "gpu_sm"], orient="row")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [
        {"gpu": 0, "name": "0"},
        {"gpu": 1, "name": "3"},
        {"process": "10.5", "name": "python", "rank": 1},
        {"process": "99.5", "name": "other", "role": "other"},
    ]
    (tmp_path / NAMES).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tmp_path


def test_user_with_the_most_memory_comes_first(folder: Path) -> None:
    users = LiveGpuUsers(folder)
    users.take(ticks((99, 5, 1, None, 4.0), (10, 5, 3, 2048.0, 80.0)))
    rank, other = users.read()
    assert (rank.name, rank.rank, rank.role, rank.gpus) == ("python", 1, "rank", "0,3")
    assert (rank.memory_mib, rank.share) == (2048.0, 80.0)
    assert (other.name, other.role, other.gpus, other.memory_mib) == ("other", "other", "0", None)


def test_process_that_left_its_gpu_is_no_user(folder: Path) -> None:
    users = LiveGpuUsers(folder)
    users.take(ticks((10, 5, 1, 2048.0, 80.0)))
    users.take(ticks((10, 5, 0, None, None)))
    assert users.read() == ()


def test_process_without_a_name_yet_has_its_number(folder: Path) -> None:
    users = LiveGpuUsers(folder)
    users.take(ticks((7, 1, 4, 1.0, None)))
    assert [(user.name, user.gpus) for user in users.read()] == [("7", "?")]
    with (folder / NAMES).open("a") as names:
        names.write('{"gpu": 2, "name": "5"}\n{"process": "7.1", "name": "train"}\n')
    assert [(user.name, user.gpus) for user in users.read()] == [("train", "5")]
