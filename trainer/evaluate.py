"""Validation on a fixed set of rows, and multiple choice by length-normalised likelihood: a model in, figures out.

Every rank makes equally many forward passes, also over rows that do not count, since a sharded model
gathers its weights in each of them. What they measure is summed by the caller, together with what went
wrong.
"""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gputel.trainer.data.shard import Shard
from gputel.trainer.data.tokenizer import Tokenizer
from gputel.trainer.distributed import World
from gputel.trainer.errors import TrainerError

Autocast = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Validation:
    """`bytes_of` gives each token's length in bytes; without it there are no bits per byte."""

    rows: Sequence[tuple[Shard, int]]
    seq: int
    batch: int
    bytes_of: Tensor | None

    @torch.no_grad()
    def sums(self, engine: nn.Module, where: World, autocast: Autocast) -> list[float]:
        """This rank's part: nats and tokens, nats and bytes of those tokens that stand for text."""
        sums = torch.zeros(4, dtype=torch.float64, device=where.device)
        for first in range(0, len(self.rows), self.batch * where.size):
            tokens, counts = self._batch(first + where.rank * self.batch)
            tokens, counts = tokens.to(where.device), counts.to(where.device)
            with autocast():
                losses = engine(tokens[:, :-1], tokens[:, 1:], per_token=True).double() * counts
            lengths = self._lengths(tokens[:, 1:]) * counts
            sums += torch.stack(
                [losses.sum(), counts.sum() * self.seq, losses[lengths > 0].sum(), lengths.sum()]
            )
        return [float(figure) for figure in sums.tolist()]

    def figures(self, sums: Sequence[float]) -> dict[str, float | None]:
        nats, count, nats_of_text, length = sums
        return {"val_loss": nats / count, "val_bpb": nats_of_text / length / math.log(2) if length else None}

    def _batch(self, first: int) -> tuple[Tensor, Tensor]:
        """Rows from `first` on, and a column of ones where they count; past the end the last row is repeated."""
        picked = [min(first + i, len(self.rows) - 1) for i in range(self.batch)]
        rows = [self.rows[i][0].tokens[self.rows[i][1] : self.rows[i][1] + self.seq + 1] for i in picked]
        counts = torch.tensor(
            [[float(first + i < len(self.rows))] for i in range(self.batch)], dtype=torch.float64
        )
        return torch.from_numpy(np.stack(rows).astype(np.int64)), counts

    def _lengths(self, targets: Tensor) -> Tensor:
        if self.bytes_of is None:
            return torch.zeros_like(targets, dtype=torch.float64)
        return self.bytes_of[targets].double()


@dataclass(frozen=True)
class Question:
    """Token ids of the context, and of every ending."""

    context: list[int]
    endings: list[list[int]]
    label: int


def questions(path: Path, tokenizer: Tokenizer | None) -> list[Question]:
    """HellaSwag's lines: `ctx`, `endings`, `label`. Read whole before step 0, so that nothing is missing later."""
    if tokenizer is None:
        raise TrainerError(f"--hellaswag {path}", "needs to know how text becomes tokens", "give --tokenizer")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise TrainerError(f"--hellaswag {path}", f"cannot be read ({fault})", "see --hellaswag") from fault
    found = [_question(f"{path}:{n}", line, tokenizer) for n, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise TrainerError(f"--hellaswag {path}", "is empty", "fetch it again")
    return found


def _question(place: str, line: str, tokenizer: Tokenizer) -> Question:
    try:
        row = json.loads(line)
        context, endings, label = row["ctx"], row["endings"], int(row["label"])
        endings[label]
        ids = tokenizer.encode([context, *(" " + ending for ending in endings)])
    except (ValueError, KeyError, IndexError, TypeError) as fault:
        raise TrainerError(
            place, "is no question of HellaSwag's form (ctx, endings, label)", "fetch it again"
        ) from fault
    return Question(ids[0].tolist(), [ending.tolist() for ending in ids[1:]], label)


@torch.no_grad()
def right(
    asked: Sequence[Question], seq: int, engine: nn.Module, where: World, autocast: Autocast
) -> list[float]:
    """How many questions of this rank have the right ending as the likeliest per token; they go round the ranks."""
    count = 0
    for first in range(0, len(asked), where.size):
        mine = first + where.rank
        question = asked[min(mine, len(asked) - 1)]
        means = [
            _mean_loss(engine, question.context, ending, seq, where, autocast) for ending in question.endings
        ]
        count += mine < len(asked) and means.index(min(means)) == question.label
    return [float(count)]


def _mean_loss(
    engine: nn.Module, context: list[int], ending: list[int], seq: int, where: World, autocast: Autocast
) -> float:
    """Nats per token of the ending; padded to `seq`, so that a compiled model sees one shape only."""
    ids = (context + ending)[-(seq + 1) :]
    counted = min(len(ending), len(ids) - 1)
    row = torch.zeros(1, seq + 1, dtype=torch.int64, device=where.device)
    row[0, : len(ids)] = torch.tensor(ids, device=where.device)
    with autocast():
        losses = engine(row[:, :-1], row[:, 1:], per_token=True)[0]
    return float(losses[len(ids) - 1 - counted : len(ids) - 1].mean().item())
