"""How far the losses of one training part when its sums are only taken in another order.

The hidden units of every MLP are permuted, or a batch is taken in two halves: the same function, the same update,
other orders of summation. What then differs is rounding, which training amplifies; no check of two kernels may ask
for less. Beside it attention by another kernel. `python benchmarks/rounding.py --help`
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gputel.trainer.data import open_corpus
from gputel.trainer.model import Block, Model
from gputel.trainer.optim import optimizer
from gputel.trainer.options import Options, settled
from gputel.trainer.ranks import World

HERE = World(0, 0, 1, torch.device("cpu"))
AVERAGED = 10


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--depth", type=int, default=2)
    words.add_argument("--dim", type=int, default=64)
    words.add_argument("--seq", type=int, default=64)
    words.add_argument("--batch", type=int, default=8, help="sequences a step")
    words.add_argument("--steps", type=int, default=200)
    words.add_argument("--dtypes", nargs="*", choices=["bf16", "fp32"], default=["bf16", "fp32"])
    words.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    words.add_argument("--orders", type=int, default=3, help="permutations for each seed")
    given = words.parse_args()
    torch.set_num_threads(1)
    size = {name: getattr(given, name) for name in ("depth", "dim", "seq", "steps")}
    print("| numbers | seed | what differs | largest difference by step 50, 100, all, % |\n|---|---|---|---|")
    for dtype, seed in itertools.product(given.dtypes, given.seeds):
        asked = Options(**size, device_batch_size=given.batch, seed=seed, dtype=dtype)
        plain = losses(asked)
        kinds: dict[str, dict[str, Any]] = {f"order {n}": {"order": n} for n in range(given.orders)}
        kinds |= {"two halves": {"parts": 2}, "attention by math": {"kernel": SDPBackend.MATH}}
        for kind, how in kinds.items():
            print(row(dtype, seed, kind, losses(asked, **how), plain), flush=True)


def losses(
    asked: Options,
    *,
    order: int | None = None,
    parts: int = 1,
    kernel: SDPBackend = SDPBackend.FLASH_ATTENTION,
) -> list[float]:
    """Of every step."""
    corpus = open_corpus(None, "bytes")
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
        loss = 0.0
        for part in batch.chunk(parts):
            with sdpa_kernel(kernel):
                nats = model(part[:, :-1], part[:, 1:]) / parts
                nats.backward()
            loss += nats.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), asked.grad_clip)
        trains.step(step, plan.multiplier(step), ~torch.isfinite(norm))
        trains.zero_grad()
        found.append(loss)
    return found


@torch.no_grad()
def permute(model: Model, order: int) -> None:
    dice = torch.Generator().manual_seed(order)
    for block in model.blocks:
        assert isinstance(block, Block)
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
