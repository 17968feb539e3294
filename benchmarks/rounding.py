"""How far the losses of one training part when its sums are only taken in another order.

The hidden units of every MLP are permuted: the same function, the same update, other orders of summation. What then
differs is rounding, which training amplifies; it is the least that two kernels may differ by. In fp32 and bf16, for
several seeds and permutations, and with attention by another kernel. `python benchmarks/rounding.py --help`
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gputel.trainer.data import open_corpus
from gputel.trainer.model import Model
from gputel.trainer.optim import optimizer
from gputel.trainer.options import Options, settled
from gputel.trainer.ranks import World

HERE = World(0, 0, 1, torch.device("cpu"))
AVERAGED = 10


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--depth", type=int, default=2)
    words.add_argument("--dim", type=int, default=128)
    words.add_argument("--seq", type=int, default=128)
    words.add_argument("--batch", type=int, default=8, help="sequences a step")
    words.add_argument("--steps", type=int, default=200)
    words.add_argument("--seeds", type=int, default=3)
    words.add_argument("--orders", type=int, default=4, help="permutations for each seed")
    given = words.parse_args()
    torch.set_num_threads(1)
    size = {name: getattr(given, name) for name in ("depth", "dim", "seq", "steps")}
    print("| numbers | seed | what differs | largest difference by step 50, 100, all, % |\n|---|---|---|---|")
    for dtype in ("bf16", "fp32"):
        for seed in range(given.seeds):
            asked = Options(**size, device_batch_size=given.batch, seed=seed, dtype=dtype)
            plain = losses(asked, None, SDPBackend.FLASH_ATTENTION)
            for order in range(given.orders):
                permuted = losses(asked, order, SDPBackend.FLASH_ATTENTION)
                print(row(dtype, seed, f"order {order}", permuted, plain), flush=True)
            other = losses(asked, None, SDPBackend.MATH)
            print(row(dtype, seed, "attention by math", other, plain), flush=True)


def losses(asked: Options, order: int | None, kernel: SDPBackend) -> list[float]:
    """Of every step."""
    corpus = open_corpus(None, None, "bytes")
    plan = settled(asked, HERE, corpus)
    rows = corpus.training(plan.shape.seq, asked.seed)
    model = Model(plan.shape, dtype=torch.bfloat16 if plan.bf16 else torch.float32)
    model.initialize(asked.seed)
    if order is not None:
        permute(model, order)
    trains = optimizer(model, plan, 0)
    found = []
    for step in range(plan.steps):
        places = range(step * plan.device_batch, (step + 1) * plan.device_batch)
        batch = torch.from_numpy(np.stack([rows.row(place) for place in places]).astype(np.int64))
        with sdpa_kernel(kernel):
            loss = model(batch[:, :-1], batch[:, 1:])
            loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), asked.grad_clip)
        trains.step(step, plan.multiplier(step), ~torch.isfinite(norm))
        trains.zero_grad()
        found.append(loss.item())
    return found


@torch.no_grad()
def permute(model: Model, order: int) -> None:
    dice = torch.Generator().manual_seed(order)
    for block in model.blocks:
        units = torch.randperm(block.up.weight.shape[0], generator=dice)
        block.up.weight.copy_(block.up.weight[units])
        block.down.weight.copy_(block.down.weight[:, units])


def differences(one: list[float], other: list[float]) -> Iterator[float]:
    """Of the means of ten steps each, in percent."""
    for first in range(0, len(one), AVERAGED):
        a, b = (statistics.fmean(losses[first : first + AVERAGED]) for losses in (one, other))
        yield 100 * abs(a - b) / b


def row(dtype: str, seed: int, what: str, one: list[float], other: list[float]) -> str:
    parts = list(differences(one, other))
    ends = (50 // AVERAGED, 100 // AVERAGED, len(parts))
    return f"| {dtype} | {seed} | {what} | " + ", ".join(f"{max(parts[:end]):.3g}" for end in ends) + " |"


if __name__ == "__main__":
    main()
