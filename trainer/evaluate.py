"""Validation on a fixed set of rows, and multiple choice by length-normalized likelihood: losses in, figures out.

Every rank makes equally many forward passes, also over rows that do not count, since a sharded model gathers its
weights in each of them. What they measure is summed by the caller.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gputel.trainer.data.questions import MultipleChoice
from gputel.trainer.data.shard import Shard
from gputel.trainer.distributed import World

Losses = Callable[[Tensor], Tensor]  # rows of seq + 1 tokens -> nats of each of their targets


@dataclass(frozen=True)
class Validation:
    """`bytes_of` gives each token's length in bytes, 0 for those that stand for no text."""

    rows: Sequence[tuple[Shard, int]]
    seq: int
    batch: int
    bytes_of: Tensor

    def sums(self, losses: Losses, where: World) -> list[float]:
        """This rank's part: nats and tokens, nats and bytes of those tokens that stand for text."""
        sums = torch.zeros(4, dtype=torch.float64, device=where.device)
        for first in range(0, len(self.rows), self.batch * where.size):
            tokens, counts = (part.to(where.device) for part in self._batch(first + where.rank * self.batch))
            nats = losses(tokens).double() * counts
            lengths = self.bytes_of[tokens[:, 1:]] * counts
            text = (nats * (lengths > 0)).sum()
            sums += torch.stack([nats.sum(), counts.sum() * self.seq, text, lengths.sum()])
        return [float(figure) for figure in sums.tolist()]

    def figures(self, sums: Sequence[float]) -> dict[str, float | None]:
        nats, count, nats_of_text, length = sums
        return {"val_loss": nats / count, "val_bpb": nats_of_text / length / math.log(2) if length else None}

    def _batch(self, first: int) -> tuple[Tensor, Tensor]:
        """Rows from `first` on, and a column of ones where they count; past the end the last row is repeated."""
        numbers = range(first, first + self.batch)
        picked = [self.rows[min(number, len(self.rows) - 1)] for number in numbers]
        tokens = np.stack([shard.tokens[at : at + self.seq + 1] for shard, at in picked]).astype(np.int64)
        counts = [[float(number < len(self.rows))] for number in numbers]
        return torch.from_numpy(tokens), torch.tensor(counts, dtype=torch.float64)


def right(asked: Sequence[MultipleChoice], seq: int, losses: Losses, where: World) -> list[float]:
    """How many questions of this rank have the right ending as the likeliest per token; they go round the ranks.
    Eager: a compiled model would be made anew for every width."""
    count = 0
    with torch.compiler.set_stance("force_eager"):
        for first in range(0, len(asked), where.size):
            mine = first + where.rank
            question = asked[min(mine, len(asked) - 1)]
            count += _likeliest(question, seq, losses, where) == question.label and mine < len(asked)
    return [float(count)]


def _likeliest(question: MultipleChoice, seq: int, losses: Losses, where: World) -> int:
    """The ending with the fewest nats per token; all are one batch, padded to the longest."""
    rows = [(question.context + ending)[-(seq + 1) :] for ending in question.endings]
    width = max(map(len, rows))
    nats = losses(torch.tensor([row + [0] * (width - len(row)) for row in rows], device=where.device))
    ends = [len(row) - 1 for row in rows]
    counted = [min(len(ending), end) for ending, end in zip(question.endings, ends, strict=True)]
    means = [line[end - n : end].mean() for line, end, n in zip(nats, ends, counted, strict=True)]
    return int(torch.stack(means).argmin())
