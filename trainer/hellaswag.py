"""Multiple choice in HellaSwag's form: the right ending should be the likeliest per token.

Every rank makes equally many forward passes, also over batches that do not count, since a sharded model gathers its
weights in each of them.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gputel.trainer.evaluate import eager
from gputel.trainer.ranks import World
from gputel.trainer.say import TrainerError
from gputel.trainer.tokenizer import Tokenizer


@dataclass(frozen=True)
class MultipleChoice:
    """Token ids of the context, and of every ending."""

    context: list[int]
    endings: list[list[int]]
    label: int

    def rows(self, seq: int) -> list[tuple[list[int], int]]:
        """Context and ending as one row, of what is too long the end; and how many of its targets are the
        ending's."""
        rows = [((self.context + ending)[-(seq + 1) :], len(ending)) for ending in self.endings]
        return [(row, min(length, len(row) - 1)) for row, length in rows]


def questions(path: Path, tokenizer: Tokenizer | None) -> list[MultipleChoice]:
    """HellaSwag's lines: `ctx`, `endings`, `label`. Read whole before step 0, so that nothing is missing later."""
    place = f"--hellaswag {path}"
    if tokenizer is None:
        raise TrainerError(place, "needs to know how text becomes tokens", "give --tokenizer")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise TrainerError(place, f"cannot be read ({fault})", "see --hellaswag") from fault
    questions = [_question(f"{path}:{n}", line, tokenizer) for n, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise TrainerError(place, "is empty", "fetch it again")
    return questions


def _question(place: str, line: str, tokenizer: Tokenizer) -> MultipleChoice:
    try:
        row = json.loads(line)
        label = range(len(row["endings"]))[int(row["label"])]
        context, *endings = tokenizer.encode([row["ctx"], *(" " + ending for ending in row["endings"])])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        fault = "is no question of HellaSwag's form (ctx, endings, label)"
        raise TrainerError(place, fault, "fetch it again") from error
    return MultipleChoice(context.tolist(), [ending.tolist() for ending in endings], label)


def right(
    asked: Sequence[MultipleChoice],
    seq: int,
    at_once: int,
    losses: Callable[[Tensor], Tensor],
    where: World,
) -> Tensor:
    """How many of this rank's questions the model answers right. Batches of `at_once` tokens go round the ranks."""
    batches, count = _batches(asked, seq, at_once), torch.zeros((), device=where.device)
    with eager():
        for first in range(0, len(batches), where.size):
            mine = first + where.rank
            batch = batches[min(mine, len(batches) - 1)]
            count += _right(batch, seq, losses, where.device) * (mine < len(batches))
    return count


def _batches(asked: Sequence[MultipleChoice], seq: int, at_once: int) -> list[list[MultipleChoice]]:
    """Questions of like length together, since all rows of a batch are padded to its longest."""
    batches: list[list[MultipleChoice]] = []
    rows_left = 0
    for question in sorted(asked, key=lambda q: -max(len(row) for row, _ in q.rows(seq))):
        if rows_left < len(question.endings):
            batches.append([])
            rows_left = at_once // max(len(row) for row, _ in question.rows(seq))
        batches[-1].append(question)
        rows_left -= len(question.endings)
    return batches


def _right(
    batch: list[MultipleChoice], seq: int, losses: Callable[[Tensor], Tensor], device: torch.device
) -> Tensor:
    """Counted on the device, without waiting for it."""
    rows = [row for question in batch for row in question.rows(seq)]
    width = max(len(row) for row, _ in rows)
    tokens = torch.tensor([row + [0] * (width - len(row)) for row, _ in rows], device=device)
    ends = torch.tensor([[len(row) - 1] for row, _ in rows], device=device)
    lengths = torch.tensor([[length] for _, length in rows], device=device)
    places = torch.arange(width - 1, device=device)
    of_the_ending = (places >= ends - lengths) & (places < ends)
    means = (losses(tokens) * of_the_ending).sum(1) / lengths[:, 0]
    likeliest = [part.argmin() for part in torch.split(means, [len(q.endings) for q in batch])]
    labels = torch.tensor([question.label for question in batch], device=device)
    return (torch.stack(likeliest) == labels).sum()
