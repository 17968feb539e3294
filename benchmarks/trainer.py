"""Tokens a second of the trainer on a CPU, beside a bare loop over the same model and batches; and what it learns.

Depth 4, dim 256, sequences of 256 bytes. Trainer and bare loop take turns, so that other load meets both alike;
rates are those of the median step, and the ratio of the fastest steps is what other load cannot touch.
`python benchmarks/trainer.py --help`
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch

SHAPE = ("--depth", "4", "--dim", "256", "--seq", "256", "--device-batch-size", "8")
TOKENS_PER_RANK = 8 * 256
QUIET = ("--eval-every", "0", "--save-every", "0", "--save-minutes", "0")
WARM_STEPS = 5
BIGRAM_NATS = 2.422


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--steps", type=int, default=25, help="of each round")
    words.add_argument(
        "--compiled", action="store_true", help="measure compiled ones too, which takes minutes"
    )
    words.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    words.add_argument("--learn-steps", type=int, default=0, help="train so many steps and report the loss")
    words.add_argument("--tensorboard", action="store_true", help="measure what --tensorboard costs")
    words.add_argument("--out", type=Path, help="write the results here as JSON")
    words.add_argument("--bare", choices=["eager", "compiled"], help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.bare:
        bare(given.steps, compiled=given.bare == "compiled")
        return
    rows = [
        compared(given, ranks, compiled)
        for ranks in given.ranks
        for compiled in [False, True][: 1 + given.compiled]
    ]
    results = {
        "date": str(date.today()),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__},
        "load_average_at_the_end": round(os.getloadavg()[0], 2),
        "tokens_per_second": rows,
    }
    if given.tensorboard:
        results["tensorboard"] = tensorboard(given)
    if given.learn_steps:
        results["learned"] = learned(given.learn_steps)
    text = json.dumps(results, indent=2)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


def compared(given: argparse.Namespace, ranks: int, compiled: bool) -> dict[str, object]:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(given.rounds):
        theirs += seconds_of(bare_command(given.steps, ranks, compiled))
        ours += trained(given.steps, ranks, *(["--compile"] if compiled else []))
    rates = [ranks * TOKENS_PER_RANK / statistics.median(seconds) for seconds in (ours, theirs)]
    return {
        "ranks": ranks,
        "compiled": compiled,
        "trainer": round(rates[0]),
        "bare_loop": round(rates[1]),
        "ratio": round(rates[0] / rates[1], 3),
        "ratio_of_the_fastest": round(min(theirs) / min(ours), 3),
        "steps": len(ours),
    }


def tensorboard(given: argparse.Namespace) -> dict[str, object]:
    """Steps alone: histograms and samples belong to evaluations."""
    without: list[float] = []
    with_it: list[float] = []
    for _ in range(given.rounds):
        without += trained(given.steps, 1)
        with_it += trained(given.steps, 1, "--tensorboard")
    medians = [statistics.median(seconds) for seconds in (without, with_it)]
    return {"step_ms_without": round(medians[0] * 1e3, 2), "step_ms_with": round(medians[1] * 1e3, 2)}


def learned(steps: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        options = ["--steps", str(steps), "--eval-every", str(steps), "--out", str(out)]
        subprocess.run(
            [*launcher(1), "gputel.trainer", *SHAPE, *options], check=True, stdout=subprocess.DEVNULL
        )
        ends = [row for row in metrics(out) if row["event"] == "eval_end"]
    loss = ends[-1]["val_loss"]
    return {
        "steps": steps,
        "val_loss": round(loss, 4),
        "bigram_entropy": BIGRAM_NATS,
        "below": loss < BIGRAM_NATS,
    }


def trained(steps: int, ranks: int, *options: str) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        more = ["--steps", str(steps + WARM_STEPS), *QUIET, "--out", str(out), *options]
        subprocess.run(
            [*launcher(ranks), "gputel.trainer", *SHAPE, *more], check=True, stdout=subprocess.DEVNULL
        )
        steps_told = [row for row in metrics(out) if row["event"] == "step"]
    return [row["dt_ms"] / 1e3 for row in steps_told[WARM_STEPS:]]


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def launcher(ranks: int) -> list[str]:
    many = ["torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", "-m"]
    return [sys.executable, "-m", *(many if ranks > 1 else [])]


def bare_command(steps: int, ranks: int, compiled: bool) -> list[str]:
    python = launcher(ranks)[:-1] if ranks > 1 else [sys.executable]
    kind = "compiled" if compiled else "eager"
    return [*python, __file__, "--bare", kind, "--steps", str(steps)]


def seconds_of(command: list[str]) -> list[float]:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(second) for second in json.loads(done.stdout.splitlines()[-1])]


def bare(steps: int, *, compiled: bool) -> None:
    """The shortest loop that trains the same model: random bytes, AdamW, clipping, DDP where there are ranks."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from gputel.trainer.model import Model
    from gputel.trainer.shape import shape_of

    model = Model(shape_of(4, dim=256, vocab=256, seq=256))
    model.initialise(0)
    if compiled:
        model.compile(dynamic=False)
    engine: torch.nn.Module = model
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        engine = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    batch = torch.randint(256, (8, 257))
    seconds = []
    for _ in range(steps + WARM_STEPS):
        began = time.perf_counter()
        loss = engine(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - began)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(seconds[WARM_STEPS:]), flush=True)
    os._exit(0)  # see leave() in trainer/distributed.py: gloo may hang when it is taken apart


if __name__ == "__main__":
    main()
