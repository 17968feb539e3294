"""What the hooks of `--inside steps` cost a training: CPU of one process, with and without them in turns.

    python benchmarks/inside_steps.py [--seconds N] [--step-ms 20 3]

Writes benchmarks/results/inside_steps.md. torch's names are put back and forth in one process, so that the blocks
of a pair differ in nothing else; of a block the median step counts, in CPU time of the whole process. Blocks
that are the same are paired, too, which shows what the method cannot tell apart.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from gputel.telemetry.inside.environment import HOOK
from gputel.telemetry.inside.step_records import SIZE

RESULT = Path(__file__).resolve().parent / "results" / "inside_steps.md"
BLOCK = 10  # steps


@dataclass
class Switch:
    """torch with the hooks in place, or as it was."""

    plain: dict[str, Any]
    hooked: dict[str, Any]

    def turn(self, *, on: bool) -> None:
        put(self.hooked if on else self.plain)


def taken() -> dict[str, Any]:
    """What the hooks change in torch."""
    import gc

    optimizer, loading = (
        sys.modules[name] for name in ("torch.optim.optimizer", "torch.utils.data.dataloader")
    )
    return {
        "before": dict(optimizer._global_optimizer_pre_hooks),
        "after": dict(optimizer._global_optimizer_post_hooks),
        "fetch": loading._BaseDataLoaderIter.__next__,
        "backward": torch.autograd._engine_run_backward,  # type: ignore[attr-defined]
        "gc": list(gc.callbacks),
    }


def put(state: dict[str, Any]) -> None:
    import gc

    optimizer, loading = (
        sys.modules[name] for name in ("torch.optim.optimizer", "torch.utils.data.dataloader")
    )
    for held, name in (
        (optimizer._global_optimizer_pre_hooks, "before"),
        (optimizer._global_optimizer_post_hooks, "after"),
    ):
        held.clear()
        held.update(state[name])
    loading._BaseDataLoaderIter.__next__ = state["fetch"]
    torch.autograd._engine_run_backward = state["backward"]  # type: ignore[attr-defined]
    gc.callbacks[:] = state["gc"]


def hook(folder: Path, adding_up: list[int]) -> Switch:
    """Brings the hooks in; the list gets the CPU time of each adding up, which the median step does not have."""
    plain = taken()
    module = load("_gputel_steps")
    add_up = module.StepRecorder._add_up

    def timed(recorder: Any, moment: int) -> None:
        began = time.thread_time_ns()
        add_up(recorder, moment)
        adding_up.append(time.thread_time_ns() - began)

    module.StepRecorder._add_up = timed
    module.start(str(folder), load("_gputel_inside").place)
    return Switch(plain, taken())


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HOOK / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Training:
    """A small model, whose step ends when it has lasted as long as asked: the rest it sleeps, as beside a GPU."""

    def __init__(self, step_ms: float) -> None:
        torch.set_num_threads(1)
        self.model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.batches: Iterator[Any] = iter(())
        self.step_s = step_ms / 1000

    def step(self) -> None:
        began = time.perf_counter()
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(DataLoader(TensorDataset(torch.ones(8 * 1000, 64)), batch_size=8))
            batch = next(self.batches)
        self.model(batch[0]).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        time.sleep(max(0.0, began + self.step_s - time.perf_counter()))

    def cpu_us(self) -> float:
        """Of the median step of a block."""
        moments = [time.process_time_ns()]
        for _ in range(BLOCK):
            self.step()
            moments.append(time.process_time_ns())
        return statistics.median(later - earlier for earlier, later in pairwise(moments)) / 1000


def differences(
    training: Training, turn: Callable[[bool], None], rounds: int, chance: random.Random
) -> list[float]:
    """CPU microseconds a step that the second kind of block took more than the first, pair by pair."""
    found = []
    for _ in range(rounds):
        order, cpu_us = [False, True], {}
        chance.shuffle(order)
        for on in order:
            turn(on)
            training.step()
            cpu_us[on] = training.cpu_us()
        found.append(cpu_us[True] - cpu_us[False])
    turn(False)
    return found


def with_range(values: list[float], chance: random.Random) -> tuple[float, float, float]:
    """The median, and the 90 % range of it by drawing again."""
    drawn = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(1000))
    return statistics.median(values), drawn[50], drawn[950]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="for each row")
    parser.add_argument("--step-ms", type=float, nargs="+", default=[20.0, 3.0])
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    lines = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        trainings = {step_ms: Training(step_ms) for step_ms in asked.step_ms}
        adding_up: list[int] = []
        switch = hook(Path(folder), adding_up)
        for step_ms, training in trainings.items():
            for words, turn in (
                ("hooks", lambda on: switch.turn(on=on)),
                ("nothing", lambda _on: switch.turn(on=False)),
            ):
                rounds = round(asked.seconds * 1000 / (2 * BLOCK * step_ms))
                median, low, high = with_range(differences(training, turn, rounds, chance), chance)
                share = " | ".join(f"{each / step_ms / 10:+.2f} %" for each in (median, low, high))
                figures = f"{rounds} | {median:+.1f} µs | {low:+.1f} to {high:+.1f}"
                lines.append(f"| {step_ms:g} ms | {words} | {figures} | {share} |")
                print(lines[-1], flush=True)
        written = sum(path.stat().st_size for path in Path(folder).glob("*.steps")) // SIZE
    RESULT.write_text(text(lines, written, sum(adding_up) / 1000 / max(1, written)))


def text(lines: list[str], written: int, adding_up_us: float) -> str:
    software = f"PyTorch {torch.__version__}, Python {platform.python_version()}"
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}, no GPU"
    return f"""# What the hooks of steps cost

`python benchmarks/inside_steps.py`, {date.today().isoformat()}: {software}, {machine}.
CPU of the median of {BLOCK} steps, with and without the hooks in turns; the median difference of all pairs, and its
90 % range by drawing again. "Nothing" pairs blocks that are the same, and shows what the method cannot tell apart.
{written:,} records were written, once a second: that took {adding_up_us:.1f} µs of CPU a step more, which is not
in the median step.

| a step | between the blocks | pairs | more CPU a step | 90 % range | share of the step | from | to |
|---|---|---|---|---|---|---|---|
{chr(10).join(lines)}
"""


if __name__ == "__main__":
    main()
