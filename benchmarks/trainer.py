"""Tokens a second of the trainer on a CPU, beside a bare loop over the same model and batches; and what it learns.

Depth 4, dim 256, sequences of 256 bytes. Trainer and bare loop take turns, so that other load meets both alike. The
figure to trust on a machine that does other things too is the ratio of CPU time per step; the ratio of the fastest
steps by the clock stands beside it. `python benchmarks/trainer.py --help`
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

TRAINER = (sys.executable, "-m", "gputel.trainer")
SHAPE = ("--depth", "4", "--dim", "256", "--seq", "256", "--device-batch-size", "8")
TOKENS_PER_RANK = 8 * 256
QUIET = ("--optimizer", "adamw", "--eval-every", "0", "--save-every", "0", "--save-minutes", "0")
WARM_STEPS = 5
BIGRAM_NATS = 2.422
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rounds", type=int, default=4)
    words.add_argument("--steps", type=int, default=25, help="of each round")
    words.add_argument("--threads", type=int, default=1, help="of each process")
    words.add_argument(
        "--compiled", action="store_true", help="measure compiled ones too, which takes minutes"
    )
    words.add_argument("--ranks", type=int, nargs="*", default=[1, 2])
    words.add_argument("--learn-steps", type=int, default=0, help="train so many steps and report the loss")
    words.add_argument("--beside-gpt", type=int, default=0, help="steps beside a plain GPT, in one process")
    words.add_argument("--rows", type=int, default=8, help="sequences of a step beside a plain GPT")
    words.add_argument("--out", help=argparse.SUPPRESS)
    words.add_argument("--save-as", type=Path, help="write the results here as JSON")
    words.add_argument("--bare", choices=["eager", "compiled"], help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.bare:
        bare(given.steps, compiled=given.bare == "compiled")
    os.environ["OMP_NUM_THREADS"] = str(given.threads)
    results: dict[str, Any] = {
        "date": str(date.today()),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__},
        "threads_of_a_process": given.threads,
        "trainer_beside_bare_loop": [
            {"ranks": ranks, "compiled": compiled, **beside_bare(given, ranks, compiled)}
            for compiled in [False, True][: 1 + given.compiled]
            for ranks in given.ranks
        ],
    }
    if given.beside_gpt:
        torch.set_num_threads(given.threads)
        results["beside_a_plain_gpt"] = [
            beside_gpt(4, 256, 256, given.rows, given.beside_gpt),
            beside_gpt(2, 128, 128, given.rows, given.beside_gpt),
        ]
    if given.learn_steps:
        results["learned"] = learned(given.learn_steps)
    results["load_average_at_the_end"] = round(os.getloadavg()[0], 2)
    text = json.dumps(results, indent=2)
    print(text)
    if given.save_as:
        given.save_as.write_text(text + "\n")


@dataclass
class Steps:
    """What the measured steps of all rounds took, by the clock and in CPU time over all threads and ranks; and what
    the trainer spent of them outside forward, backward, optimizer and waiting for data or other ranks."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    own_ms: list[float] = field(default_factory=list)


def beside_bare(given: argparse.Namespace, ranks: int, compiled: bool) -> dict[str, Any]:
    kind, flag = ("compiled", "--compile") if compiled else ("eager", "--no-compile")
    plain = [sys.executable, __file__, "--bare", kind, "--steps", str(given.steps)]
    return compared(given, trainer_command(given.steps, flag), plain, ranks)


def compared(
    given: argparse.Namespace, ours: Sequence[str], theirs: Sequence[str], ranks: int
) -> dict[str, Any]:
    """Rates in tokens a second; ratios above 1 where ours is the faster."""
    one, other = Steps(), Steps()
    for number in range(given.rounds):
        turns = [(ours, one), (theirs, other)]
        for command, steps in turns if number % 2 else reversed(turns):
            measure(command, ranks, steps)
    tokens = ranks * TOKENS_PER_RANK
    return {
        "tokens_per_second": [round(tokens / statistics.median(steps.wall_s)) for steps in (one, other)],
        "cpu_ms_of_a_step": [round(statistics.median(steps.cpu_s) * 1e3, 1) for steps in (one, other)],
        "ratio_of_cpu_time": round(statistics.median(other.cpu_s) / statistics.median(one.cpu_s), 3),
        "ratio_of_the_fastest_steps": round(fast(other.wall_s) / fast(one.wall_s), 3),
        "ms_of_a_step_that_are_the_trainers_own": [
            round(statistics.median(steps.own_ms), 2) for steps in (one, other) if steps.own_ms
        ],
        "steps": len(one.wall_s),
    }


def fast(seconds: list[float]) -> float:
    """The time that one step in ten stays below."""
    return statistics.quantiles(seconds, n=10)[0]


def measure(command: Sequence[str], ranks: int, into: Steps) -> None:
    """Run it on so many ranks. Rank 0 prints a line a step, the trainer one late and so the last two at once: the
    last is left out. CPU time is that of all ranks."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [*command, "--out", f"{folder}/run"],
                env={**os.environ, **place(rank, ranks, store.port)},
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                text=True,
            )
            for rank in range(ranks)
        ]
        stamps = [
            (time.perf_counter(), sum(cpu_seconds(process.pid) for process in processes))
            for line in processes[0].stdout or ()
            if line.startswith("step ")
        ][WARM_STEPS - 1 : -1]
        if sum(process.wait() for process in processes):
            raise SystemExit(f"failed: {' '.join(command)}")
        into.own_ms += own_ms(Path(folder, "run", "metrics.jsonl"))
    into.wall_s += [after - before for (before, _), (after, _) in itertools.pairwise(stamps)]
    into.cpu_s.append((stamps[-1][1] - stamps[0][1]) / (len(stamps) - 1))


def own_ms(metrics: Path) -> list[float]:
    rows = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    steps = [row for row in rows if row["event"] == "step"][WARM_STEPS:]
    parts = ("forward_ms", "backward_ms", "agreement_ms", "optimizer_ms", "data_ms")
    return [row["dt_ms"] - sum(row[part] for part in parts) for row in steps]


def place(rank: int, ranks: int, port: int) -> dict[str, str]:
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_PORT": port}
    words = {name: str(number) for name, number in numbers.items()}
    return {**words, "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": "True"}


def cpu_seconds(pid: int) -> float:
    """In user and system mode, of all threads."""
    try:
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:  # a rank that has ended already
        return 0.0
    return (int(numbers[11]) + int(numbers[12])) / TICKS_PER_S


def trainer_command(steps: int, *options: str) -> list[str]:
    return [*TRAINER, *SHAPE, *QUIET, "--steps", str(steps + WARM_STEPS), *options]


def beside_gpt(depth: int, dim: int, seq: int, rows: int, steps: int) -> dict[str, Any]:
    """Whole steps of ours and of a plain GPT of its shape (learned positions, GELU, no QK norm) by turns in one
    process, in its CPU time: the median of the ratios of neighbors, above 1 where ours is the faster."""
    from plain.nanogpt_recipe import NanoGPT, NanoGPTTraining

    from gputel.trainer.data import open_corpus
    from gputel.trainer.model import Model
    from gputel.trainer.optim import optimizer
    from gputel.trainer.options import Options, settled
    from gputel.trainer.ranks import World

    here, corpus = World(0, 0, 1, torch.device("cpu")), open_corpus(None, "bytes")
    batch = torch.randint(256, (rows, seq + 1))
    turns: dict[str, Callable[[int], None]] = {}
    for kind in ("muon", "adamw"):
        asked = Options(depth=depth, dim=dim, seq=seq, steps=steps, optimizer=kind)
        plan = settled(asked, here, corpus)
        ours = Model(plan.shape)
        ours.initialize(0)
        turns[kind] = trainer_step(ours, optimizer(ours, plan, 0), batch)
    gpt = NanoGPT(depth, dim, plan.shape.heads, 256, seq)
    turns["gpt"] = gpt_step(gpt, NanoGPTTraining(gpt, 1e-3), steps, batch)
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for step in range(steps):
        for name in sorted(turns, reverse=step % 2 == 1):
            began = time.process_time()
            turns[name](step)
            seconds[name].append(time.process_time() - began)
    ratios = {
        name: statistics.median(g / s for g, s in zip(seconds["gpt"][2:], spent[2:], strict=True))
        for name, spent in seconds.items()
    }
    return {
        "depth": depth,
        "dim": dim,
        "seq": seq,
        "tokens": rows * seq,
        **{name: round(ratio, 3) for name, ratio in ratios.items()},
    }


def trainer_step(model: torch.nn.Module, trains: Any, batch: torch.Tensor) -> Callable[[int], None]:
    def step(number: int) -> None:
        model(batch[:, :-1], batch[:, 1:]).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        trains.step(number, 1.0, ~torch.isfinite(norm))
        trains.zero_grad()

    return step


def gpt_step(model: torch.nn.Module, trains: Any, steps: int, batch: torch.Tensor) -> Callable[[int], None]:
    def step(number: int) -> None:
        model(batch[:, :-1], batch[:, 1:]).backward()
        trains.step(number, steps)

    return step


def learned(steps: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        ends = ["--steps", str(steps), "--eval-every", str(steps), "--out", f"{folder}/run"]
        began = time.perf_counter()
        subprocess.run([*TRAINER, *SHAPE, *ends], check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in Path(folder, "run", "metrics.jsonl").read_text().splitlines()]
    loss = [row["val_loss"] for row in rows if row["event"] == "eval_end"][-1]
    minutes = round((time.perf_counter() - began) / 60, 1)
    return {"steps": steps, "minutes": minutes, "val_loss": round(loss, 4), "bigram_entropy": BIGRAM_NATS}


def bare(steps: int, *, compiled: bool) -> None:
    """The shortest loop that trains the same model: random bytes, AdamW, clipping, DDP where there are ranks."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from gputel.trainer.model import Model
    from gputel.trainer.shape import shape_of

    model = Model(shape_of(4, dim=256, vocab=256, seq=256))
    model.initialize(0)
    if compiled:
        model.compile(dynamic=False)
    engine: torch.nn.Module = model
    if os.environ["WORLD_SIZE"] != "1":
        dist.init_process_group("gloo")
        engine = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    batch = torch.randint(256, (8, 257))
    for step in range(steps + WARM_STEPS):
        loss = engine(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} | loss: {loss.item():.6f}", flush=True)
    os._exit(0)  # see leave() in trainer/ranks.py: gloo may hang when it is taken apart


if __name__ == "__main__":
    main()
