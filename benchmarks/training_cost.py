"""What does recording cost the training: step times of one real training with the recorder running and stopped.

A small transformer is trained by PyTorch under `gputel record`, block by block. In each pair of blocks the recorder
runs in one, and in the other all its processes are stopped by SIGSTOP, in random order: the same training, with the
same memory and on the same machine a second later. A second pairing, `--pairing processes`, starts a new training
for each block, with and without `gputel record` in front: nothing of the recorder is there in the latter, but two
processes differ by more than a recorder does.

Elapsed times differ by more than a recorder costs where other programs run. So two figures stand beside them that
together are its cost: the time for which the training waited, preempted, while the recorder had its core, from
every context switch of the machine (as root), which other programs do not disturb; and the processor time of a
step, which they disturb little and which shows what caches and shared units cost. What the recorder takes at most
is its own processor time.

Without a GPU the recorder samples the fake driver of the tests, whose calls take 3 µs each.
`python benchmarks/training_cost.py --help`
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from context_switches import Tracer, taken_ns  # noqa: E402

from tests.fake_nvml import H100, FakeNvml, build  # noqa: E402
from tests.recordings import Recorder  # noqa: E402

CALL_NS = 3000
WARM_UP, UNTIMED = 30, 3
SETTLE_S = 0.1
RESAMPLES = 4000
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
Block = list[tuple[float, float]]
"""Elapsed and processor time of each step, in milliseconds."""
Pair = tuple[Block, Block]
"""Without and with the recorder."""
Taken = tuple[int, int]
"""How long a block with the recorder took, and for how much of it the recorder had the training's core, in ns."""


@dataclass(frozen=True)
class Measured:
    """One configuration, pair by pair."""

    pairs: list[Pair]
    taken: list[Taken]
    """Empty without the right to see context switches."""
    share_of_a_core: float | None
    """The recorder's, where it is known."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000, help="Timed steps of each kind.")
    parser.add_argument("--block", type=int, default=25, help="Steps per block.")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8], help="GPUs of the fake driver.")
    parser.add_argument("--hz", type=float, default=100.0)
    parser.add_argument("--pairing", choices=("switched", "processes"), default="switched")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", nargs=2, metavar=("ORDERS", "ANSWERS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(*options.train)
        return
    print(head(options))
    with tempfile.TemporaryDirectory() as folder:
        for gpus in options.gpus if not has_gpu() else [0]:
            for busy in (False, True):
                place = Path(folder) / f"{gpus}-{busy}"
                place.mkdir()
                with busy_core(busy):
                    measured = measure(place, gpus, options)
                print(row(gpus, busy, measured, options.seed), flush=True)


def measure(place: Path, gpus: int, options: argparse.Namespace) -> Measured:
    """The blocks of one configuration."""
    environment = driver(place, gpus)
    chance = random.Random(options.seed)
    record = ("--hz", f"{options.hz:g}")
    pairs = range(-(-options.steps // options.block))
    if options.pairing == "switched":
        training = RecordedTraining(place, record, environment)
        with training.going_on():
            blocks = [in_random_order(chance, partial(training.block, options.block)) for _ in pairs]
            return Measured(blocks, training.taken, training.share_of_a_core(options.steps))
    work = partial(whole_process, place, record, environment, options.block)
    return Measured([in_random_order(chance, work) for _ in pairs], [], None)


def in_random_order(chance: random.Random, block: Callable[[bool], Block]) -> Pair:
    first = chance.random() < 0.5
    blocks = {on: block(on) for on in (first, not first)}
    return blocks[False], blocks[True]


def recording_processes(recorder: Recorder) -> Sequence[int]:
    return (recorder.viewer, recorder.keeper(), recorder.sampler())


class RecordedTraining:
    """A training under `gputel record` that reads from a named pipe how many steps to do next.

    Blocks differ in whether the processes that `ours` finds run or are stopped.
    """

    def __init__(
        self,
        place: Path,
        record: Sequence[str],
        environment: Mapping[str, str],
        ours: Callable[[Recorder], Sequence[int]] = recording_processes,
    ) -> None:
        self._find_ours = ours
        self._orders, self._answers = place / "orders", place / "answers"
        for path in (self._orders, self._answers):
            os.mkfifo(path)
        command = (sys.executable, __file__, "--train", str(self._orders), str(self._answers))
        self._recorder = Recorder(place / "run", *command, options=tuple(record), env=environment)
        self._tracer: Tracer | None = None
        self.taken: list[Taken] = []

    @contextmanager
    def going_on(self) -> Iterator[None]:
        try:
            with self._orders.open("w") as self._tell, self._answers.open() as self._hear:
                self._steps(WARM_UP)
                self._ours = self._find_ours(self._recorder)
                with contextlib.suppress(OSError):
                    self._tracer = Tracer()
                yield
        finally:
            self._recorder.stop()
            if self._tracer is not None:
                self._tracer.close()

    def block(self, steps: int, recorded: bool) -> Block:
        for pid in self._ours:
            os.kill(pid, signal.SIGCONT if recorded else signal.SIGSTOP)
        time.sleep(SETTLE_S)
        if self._tracer is not None:
            self._tracer.switches()  # those before
        began = time.monotonic_ns()
        times = self._steps(UNTIMED + steps)
        if self._tracer is not None and recorded and steps:
            took, switches = time.monotonic_ns() - began, self._tracer.switches()
            self.taken.append((took, taken_ns(switches, self._recorder.command(), self._ours)))
        return times[UNTIMED:]

    def share_of_a_core(self, steps: int) -> float:
        """What these processes spend in as many steps without a stop.

        In the blocks they would seem to take more: what they do once a second falls into the half in which they
        run.
        """
        self.block(0, recorded=True)
        began, before = time.monotonic(), self._spent_s()
        self._steps(steps)
        return (self._spent_s() - before) / (time.monotonic() - began)

    def _spent_s(self) -> float:
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._ours]
        return sum(int(ticks) for words in fields for ticks in words[11:13]) / TICKS_A_SECOND

    def _steps(self, count: int) -> Block:
        print(count, file=self._tell, flush=True)
        times: Block = json.loads(self._hear.readline())
        return times


def whole_process(
    place: Path, record: Sequence[str], environment: Mapping[str, str], steps: int, recorded: bool
) -> Block:
    """The step times of a training of its own, with or without `gputel record` in front."""
    place = Path(tempfile.mkdtemp(dir=place))
    orders, answers = place / "orders", place / "answers"
    for path in (orders, answers):
        os.mkfifo(path)
    command = (sys.executable, __file__, "--train", str(orders), str(answers))
    recorder = Recorder(place / "run", *command, options=tuple(record), env=environment) if recorded else None
    process = recorder.process if recorder else plain(command, environment)
    try:
        with orders.open("w") as tell, answers.open() as hear:
            print(WARM_UP + steps, file=tell, flush=True)
            times: Block = json.loads(hear.readline())
        process.wait()
    finally:
        if recorder:
            recorder.stop()
        process.kill()
    return times[WARM_UP:]


def plain(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(environment))


def train(orders: str, answers: str) -> None:
    """Train as many steps as each order says; answer with their times."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    width, batch, tokens = (1024, 16, 512) if device == "cuda" else (64, 4, 32)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
    body = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    embedding, unembedding = torch.nn.Embedding(256, width).to(device), torch.nn.Linear(width, 256).to(device)
    parameters = [*body.parameters(), *embedding.parameters(), *unembedding.parameters()]
    optimizer = torch.optim.AdamW(parameters, 1e-3)
    text = torch.randint(256, (batch, tokens + 1), device=device)
    step = 0
    with open(orders) as hear, open(answers, "w") as tell:  # noqa: PTH123
        for order in hear:
            times = []
            for _ in range(int(order)):
                began, spent = time.perf_counter_ns(), time.process_time_ns()
                logits = unembedding(body(embedding(text[:, :-1])))
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad()
                value = float(loss.detach())  # waits for the GPU
                elapsed, spent = time.perf_counter_ns() - began, time.process_time_ns() - spent
                times.append((elapsed / 1e6, spent / 1e6))
                step += 1
                print(f"step {step} loss {value:.4f} dt {elapsed / 1e6:.2f}ms", flush=True)
            print(json.dumps(times), file=tell, flush=True)


def driver(place: Path, gpus: int) -> dict[str, str]:
    """The environment in which the recorder finds a driver: the real one, or a fake."""
    if not gpus:
        return dict(os.environ)
    fake = FakeNvml(place / "driver", build(place / "build"), [H100] * gpus)
    fake.state.latency_ns = CALL_NS
    return fake.environment


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@contextmanager
def busy_core(wanted: bool) -> Iterator[None]:
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if wanted else None
    try:
        yield
    finally:
        if loop:
            loop.kill()
            loop.wait()


@dataclass(frozen=True)
class Ratio:
    """Recorded over not recorded, less 1, in percent, with its 95 % interval over pairs of blocks."""

    percent: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.percent:+.2f} % ({self.low:+.2f} to {self.high:+.2f})"


def ratio(pairs: Sequence[tuple[list[float], ...]], of: Callable[[Any], Any] | None, seed: int) -> Ratio:
    """Bootstrap over pairs of blocks: steps of one block are not independent of each other.

    Without `of` it is the median over pairs of the ratio of their medians, which other programs disturb least.
    """
    without, recorded = (np.array([pair[n] for pair in pairs]) for n in (0, 1))
    chance = np.random.default_rng(seed)

    by_pair = np.median(recorded, axis=1) / np.median(without, axis=1)

    def percent(picked: Any) -> float:
        if of is None:
            return 100 * (float(np.median(by_pair[picked])) - 1)
        return 100 * (float(of(recorded[picked].ravel()) / of(without[picked].ravel())) - 1)

    count = len(pairs)
    drawn = [percent(chance.integers(0, count, count)) for _ in range(RESAMPLES)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Ratio(percent(np.arange(count)), float(low), float(high))


def taken_share(blocks: Sequence[Taken], seed: int) -> str:
    """The share of the training's time that the recorder took from it, with its 95 % interval over blocks."""
    if not blocks:
        return ""
    took, taken = np.array(blocks, np.float64).T
    chance = np.random.default_rng(seed)
    picked = chance.integers(0, len(blocks), (RESAMPLES, len(blocks)))
    low, high = np.percentile(100 * taken[picked].sum(axis=1) / took[picked].sum(axis=1), [2.5, 97.5])
    return f"{100 * taken.sum() / took.sum():.3f} % ({low:.3f} to {high:.3f})"


def head(options: argparse.Namespace) -> str:
    model = next(
        (line.split(":", 1)[1].strip() for line in cpuinfo() if line.startswith("model name")), "unknown"
    )
    load = os.getloadavg()[0]
    return (
        f"{date.today()}, {os.cpu_count()} cores ({model}), Linux {platform.release()}, Python "
        f"{platform.python_version()}, load {load:.1f} at the start; pairing: {options.pairing}, "
        f"{options.steps} steps of each kind, blocks of {options.block}, {options.hz:g} Hz\n\n"
        "| GPUs | beside | p50 ms without | p99 ms without | p50 | p99 | p50 by pairs | p50 of processor time | "
        "taken by the recorder | recorder, of a core | load |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|"
    )


def cpuinfo() -> list[str]:
    with contextlib.suppress(OSError):
        return Path("/proc/cpuinfo").read_text().splitlines()
    return []


def row(gpus: int, busy: bool, measured: Measured, seed: int) -> str:
    elapsed, processor = (
        [tuple([step[part] for step in block] for block in pair) for pair in measured.pairs]
        for part in (0, 1)
    )
    share = measured.share_of_a_core
    without = [step for pair in elapsed for step in pair[0]]
    ratios = [
        ratio(elapsed, lambda steps: np.percentile(steps, 50), seed),
        ratio(elapsed, lambda steps: np.percentile(steps, 99), seed),
        ratio(elapsed, None, seed),
        ratio(processor, lambda steps: np.percentile(steps, 50), seed),
    ]
    p50, p99 = np.percentile(without, [50, 99])
    beside = "a busy core" if busy else "nothing of ours"
    cells = [str(gpus or "real"), beside, f"{p50:.2f}", f"{p99:.2f}", *map(str, ratios)]
    cells += [taken_share(measured.taken, seed)]
    cells += ["" if share is None else f"{100 * share:.2f} %", f"{os.getloadavg()[0]:.1f}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
