"""The trainer as its users start it, small enough for a test; and what a run leaves, as numbers to compare."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest
import torch
from click.testing import CliRunner, Result
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from gputel.trainer.__main__ import main
from gputel.trainer.checkpoint import saved_tensors
from gputel.trainer.model import Model

from .ranks import PAGE_BYTES, begin
from .small_model import small_model

TINY = "--depth 2 --dim 32 --heads 2 --seq 32 --eval-tokens 256 --eval-every 0".split()
LIMIT_S = 300


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
        folder = (self.out / "checkpoints" / name).resolve()
        kinds = ("model", "optimizer")
        return {f"{kind}:{name}": t for kind in kinds for name, t in saved_tensors(folder, kind)}

    def checkpoints(self) -> list[str]:
        return sorted(p.name for p in (self.out / "checkpoints").iterdir() if not p.is_symlink())


class Ranks:
    """The processes of one training, and what they print."""

    def __init__(
        self,
        home: Path,
        arguments: Sequence[str],
        ranks: int,
        cache: Path,
        largest_file: int | None,
        sabotage: Callable[[], None] | None,
    ) -> None:
        home.mkdir()
        os.mkfifo(home / "output")
        self.meeting = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.processes = [
            begin(arguments, self._place(rank, ranks, cache), str(home / "output"), largest_file, sabotage)
            for rank in range(ranks)
        ]
        self.lines: IO[str] = (home / "output").open()

    def _place(self, rank: int, ranks: int, cache: Path) -> dict[str, str]:
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_PORT": self.meeting.port}
        return {
            **{name: str(value) for name, value in place.items()},
            "MASTER_ADDR": "127.0.0.1",
            "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is ours, as it is torchrun's
            "XDG_CACHE_HOME": str(cache),
            "CUDA_VISIBLE_DEVICES": "",
        }

    def at(self, pattern: str) -> list[str]:
        """Read until a line begins so."""
        lines: list[str] = []
        for line in self.lines:
            lines.append(line)
            if re.match(pattern, line):
                return lines
        pytest.fail(f"no line begins with {pattern!r}:\n{''.join(lines)}")

    def send(self, number: int, rank: int = 0) -> None:
        pid = self.processes[rank].pid
        assert pid
        os.kill(pid, number)

    def end(self) -> tuple[list[int | None], str]:
        """Read to the end: exit codes and the rest of the output."""
        output = self.lines.read()
        for process in self.processes:
            process.join(LIMIT_S)
        return [process.exitcode for process in self.processes], output

    def kill(self) -> None:
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()
        self.lines.close()


Start = Callable[..., Ranks]
Train = Callable[..., Left]
Run = Callable[..., Result]
Torchrun = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The standard library is tokenized once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def text(cache: Path) -> str:
    """A corpus of one small file: the standard library's thousand would be most of the time of a short run."""
    (cache / "text.txt").write_text("".join(f"line {i} is {i * 7919 % 1000}\n" for i in range(5000)))
    return str(cache / "text.txt")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path, text: str) -> Run:
    """Train in this process, on a small text unless `data` says otherwise; `out` is the test's folder `run`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)

    def train(*options: str, code: int = 0, out: str | None = "run", data: str | None = text) -> Result:
        where = [*(("--out", out) if out else ()), *(("--data", data) if data else ())]
        result = CliRunner().invoke(main, [*TINY, "--device-batch-size", "2", *where, *options])
        unexpected = result.exception and not isinstance(result.exception, SystemExit)
        assert not unexpected, result.output
        assert result.exit_code == code, result.output
        return result

    return train


def steps_of(result: Result) -> list[str]:
    return [line for line in result.stdout.splitlines() if line.startswith("step ")]


@pytest.fixture
def start(cache: Path, tmp_path: Path) -> Iterator[Start]:
    """Start a training, to be watched or disturbed; whatever still runs at the end of the test is ended."""
    started: list[Ranks] = []

    def begun(
        out: Path,
        *options: str,
        ranks: int = 1,
        largest_file: int | None = None,
        sabotage: Callable[[], None] | None = None,
    ) -> Ranks:
        home, arguments = tmp_path / f"ranks-{len(started)}", [*TINY, "--out", str(out), *options]
        started.append(Ranks(home, arguments, ranks, cache, largest_file, sabotage))
        return started[-1]

    yield begun
    for ranks in started:
        ranks.kill()


@pytest.fixture
def train(start: Start) -> Train:
    """Train to the end; fails with the output where the training did."""

    def run(out: Path, *options: str, ranks: int = 1) -> Left:
        codes, output = start(out, *options, ranks=ranks).end()
        assert codes == [0] * ranks, output
        return Left(out)

    return run


@pytest.fixture
def torchrun(cache: Path) -> Iterator[Torchrun]:
    started: list[subprocess.Popen[str]] = []

    def begun(out: Path, *options: str, launcher: Sequence[str]) -> "subprocess.Popen[str]":
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone", *launcher]
        process = subprocess.Popen(
            [*run, "-m", "gputel.trainer", *TINY, "--out", str(out), *options],
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "XDG_CACHE_HOME": str(cache),
                "CUDA_VISIBLE_DEVICES": "",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pipesize=PAGE_BYTES,
        )
        started.append(process)
        return process

    yield begun
    for process in started:
        if process.poll() is None:
            process.terminate()  # it ends its workers, which are no children of ours
        process.communicate(timeout=LIMIT_S)


def same_tensors(one: Left, other: Left) -> None:
    """Weights and optimizer, to the last bit."""
    tensors, others = one.tensors(), other.tensors()
    assert set(tensors) == set(others)
    assert [name for name in tensors if not torch.equal(tensors[name], others[name])] == []


def same(one: Left, other: Left) -> None:
    """And the loss of every step."""
    same_tensors(one, other)
    assert one.losses() == other.losses()


@pytest.fixture
def model() -> Model:
    return small_model()
