"""The trainer as its users start it, small enough for a test; and what a run leaves, as numbers to compare."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gputel.trainer.checkpoint import pieces

TINY = (
    "--depth",
    "2",
    "--dim",
    "32",
    "--heads",
    "2",
    "--seq",
    "32",
    "--eval-tokens",
    "256",
    "--eval-every",
    "0",
)
LIMIT_S = 110


@dataclass(frozen=True)
class Left:
    """A run folder, read."""

    out: Path

    def metrics(self, event: str) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]
        return [row for row in rows if row["event"] == event]

    def losses(self) -> dict[int, float]:
        """By step; a later attempt supersedes."""
        return {row["step"]: row["loss"] for row in self.metrics("step")}

    def tensors(self, name: str = "latest") -> dict[str, Tensor]:
        """Weights and optimizer of a checkpoint, whole, however many ranks wrote it."""
        folder = self.out / "checkpoints" / name
        held = [pieces(folder.resolve(), kind) for kind in ("model", "optimizer")]
        return {f"{i}:{name}": p.whole(name) for i, p in enumerate(held) for name in p.found}

    def checkpoints(self) -> list[str]:
        return sorted(p.name for p in (self.out / "checkpoints").iterdir() if not p.is_symlink())


def command(out: Path, *options: str, ranks: int = 1, launcher: Sequence[str] = ()) -> list[str]:
    python = [sys.executable, "-m"]
    many = ["torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", *launcher, "-m"]
    return [
        *python,
        *(many if ranks > 1 or launcher else []),
        "gputel.trainer",
        *TINY,
        "--out",
        str(out),
        *options,
    ]


def surroundings(home: Path) -> dict[str, str]:
    """One thread, and caches of the test's own."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "XDG_CACHE_HOME": str(home / "cache"),
        "CUDA_VISIBLE_DEVICES": "",
    }


Start = Callable[..., "subprocess.Popen[str]"]
Train = Callable[..., Left]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def start(cache: Path) -> Iterator[Start]:
    """Start a training, to be watched or disturbed; whatever still runs at the end of the test is ended."""
    started: list[subprocess.Popen[str]] = []

    def begin(out: Path, *options: str, ranks: int = 1, launcher: Sequence[str] = (), **more: Any) -> Any:
        process = subprocess.Popen(
            command(out, *options, ranks=ranks, launcher=launcher),
            env=surroundings(cache),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            **more,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.terminate()  # torchrun ends its workers, which are no children of ours
        try:
            process.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()


@pytest.fixture
def train(start: Start) -> Train:
    """Train to the end; fails with the output where the training did."""

    def run(out: Path, *options: str, ranks: int = 1, code: int = 0, launcher: Sequence[str] = ()) -> Left:
        process = start(out, *options, ranks=ranks, launcher=launcher)
        output, _ = process.communicate(timeout=LIMIT_S)
        assert process.returncode == code, output
        return Left(out)

    return run


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    """Names of tensors that are not the same to the last bit."""
    assert set(one) == set(other)
    return [name for name in one if not torch.equal(one[name], other[name])]


@pytest.fixture
def same() -> Callable[[Left, Left], None]:
    def check(one: Left, other: Left) -> None:
        assert differing(one.tensors(), other.tensors()) == []

    return check
