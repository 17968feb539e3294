"""What the trainer's recipe learns from equally many tokens, beside nanochat's and nanoGPT's, on the CPU.

All contenders see the same batches of the standard library's bytes in the same order and are validated on the same
rows; a seed changes weights and order. Each run is appended to --save-as as it ends. `python benchmarks/recipe.py
--help`
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from plain.nanochat_recipe import NanochatGPT, NanochatTraining
from plain.nanogpt_recipe import NanoGPT, NanoGPTTraining
from torch import Tensor, nn

from gputel.trainer.data import Corpus, open_corpus
from gputel.trainer.model import Model
from gputel.trainer.optim import optimizer
from gputel.trainer.options import Options, TrainingPlan, settled
from gputel.trainer.ranks import World

HERE = World(0, 0, 1, torch.device("cpu"))
VALIDATION_ROWS, VALIDATED_AT_ONCE = 512, 32
Step = Callable[[int, int], None]


@dataclass(frozen=True)
class Setting:
    """The shape and length that all contenders share."""

    depth: int
    dim: int
    seq: int
    batch: int
    steps: int
    corpus: Corpus

    def plan(self, **options: Any) -> TrainingPlan:
        asked = Options(depth=self.depth, dim=self.dim, seq=self.seq, steps=self.steps, **options)
        return settled(replace(asked, device_batch_size=self.batch), HERE, self.corpus)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    words.add_argument("--only", nargs="*", choices=list(CONTENDERS), default=list(CONTENDERS))
    words.add_argument("--depth", type=int, default=2)
    words.add_argument("--dim", type=int, default=128)
    words.add_argument("--seq", type=int, default=128)
    words.add_argument("--batch", type=int, default=8, help="sequences a step")
    words.add_argument("--steps", type=int, default=280)
    words.add_argument("--save-as", type=Path, help="append each run here as a line of JSON")
    given = words.parse_args()
    torch.set_num_threads(1)
    shape = {name: getattr(given, name) for name in ("depth", "dim", "seq", "batch", "steps")}
    setting, results = Setting(**shape, corpus=open_corpus(None, "bytes")), dict[str, list[float]]()
    validation = validation_rows(setting)
    for seed in given.seeds:
        for name in given.only:
            loss = trained(setting, validation, *CONTENDERS[name](setting, seed), seed)
            results.setdefault(name, []).append(loss)
            row = {
                "date": str(date.today()),
                **shape,
                "seed": seed,
                "recipe": name,
                "val_loss": round(loss, 4),
            }
            print(json.dumps(row), flush=True)
            if given.save_as:
                with given.save_as.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    print("\n".join(table(results)))


def ours(setting: Setting, seed: int, **options: Any) -> tuple[nn.Module, Step]:
    """The trainer's own model, optimizer and schedule, with its defaults."""
    plan = setting.plan(seed=seed, **options)
    model = Model(plan.shape)
    model.initialize(seed)
    trains = optimizer(model, plan, 0)

    def step(number: int, _: int) -> None:
        norm = nn.utils.clip_grad_norm_(model.parameters(), plan.options.grad_clip)
        trains.step(number, plan.multiplier(number), ~torch.isfinite(norm))
        trains.zero_grad()

    return model, step


def nanochat(setting: Setting, seed: int) -> tuple[nn.Module, Step]:
    torch.manual_seed(seed)
    model = NanochatGPT(setting.depth, setting.dim, heads(setting), setting.corpus.vocab, setting.seq)
    return model, NanochatTraining(model).step


def nanogpt(setting: Setting, seed: int, rate: float) -> tuple[nn.Module, Step]:
    torch.manual_seed(seed)
    model = NanoGPT(setting.depth, setting.dim, heads(setting), setting.corpus.vocab, setting.seq)
    return model, NanoGPTTraining(model, rate).step


def heads(setting: Setting) -> int:
    return setting.plan().shape.heads


CONTENDERS: dict[str, Callable[[Setting, int], tuple[nn.Module, Step]]] = {
    "ours": ours,
    "ours, AdamW for matrices": lambda setting, seed: ours(setting, seed, optimizer="adamw"),
    "nanochat": nanochat,
    "nanoGPT, lr 1e-3": lambda setting, seed: nanogpt(setting, seed, 1e-3),
    "nanoGPT, lr 3e-3": lambda setting, seed: nanogpt(setting, seed, 3e-3),
}


def trained(setting: Setting, validation: Tensor, model: nn.Module, step: Step, seed: int) -> float:
    """The validation loss after all steps."""
    rows = setting.corpus.training(setting.seq, seed)
    for number in range(setting.steps):
        places = range(number * setting.batch, (number + 1) * setting.batch)
        batch = torch.from_numpy(np.stack([rows.row(place) for place in places]).astype(np.int64))
        loss: Tensor = model(batch[:, :-1], batch[:, 1:])
        torch.autograd.backward(loss)
        step(number, setting.steps)
    with torch.no_grad():
        parts = [
            model(part[:, :-1], part[:, 1:]).item() for part in torch.split(validation, VALIDATED_AT_ONCE)
        ]
    return statistics.fmean(parts)


def validation_rows(setting: Setting) -> Tensor:
    """Spread evenly over the validation files."""
    rows = setting.corpus.validation(setting.seq)
    picked = rows[:: max(1, len(rows) // VALIDATION_ROWS)][:VALIDATION_ROWS]
    tokens = [shard.tokens[at : at + setting.seq + 1] for shard, at in picked]
    return torch.from_numpy(np.stack(tokens).astype(np.int64))


def table(results: dict[str, list[float]]) -> Iterator[str]:
    """Mean, the 95 % band of the mean (two standard errors) and the extremes over seeds."""
    yield "| recipe | validation loss | band of the mean | lowest to highest | seeds |"
    yield "|---|---|---|---|---|"
    for name, losses in sorted(results.items(), key=lambda item: statistics.fmean(item[1])):
        band = 2 * statistics.stdev(losses) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan
        extremes = f"{min(losses):.3f} to {max(losses):.3f}"
        yield f"| {name} | {statistics.fmean(losses):.3f} | ± {band:.3f} | {extremes} | {len(losses)} |"


if __name__ == "__main__":
    main()
