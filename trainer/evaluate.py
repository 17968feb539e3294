"""Evaluates a model: validation loss, bits per byte, multiple choice, and text written from a prompt.

Every rank makes equally many forward passes, also over rows that do not count, since a sharded model gathers its
weights in each of them. What they measure is read from the device once, at the end.
"""

import json
import math
import pickle
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gputel.trainer.checkpoint import manifest, saved_tensors
from gputel.trainer.data import Corpus, Shard
from gputel.trainer.model import Model
from gputel.trainer.options import TrainingPlan
from gputel.trainer.ranks import World, placed
from gputel.trainer.say import TrainerError
from gputel.trainer.shape import Shape
from gputel.trainer.tokenizer import Tokenizer, remade

Losses = Callable[[Tensor], Tensor]  # rows of seq + 1 tokens -> nats of each of their targets
TOP_K = 50


@dataclass(frozen=True)
class Validation:
    """`bytes_of` gives each token's length in bytes, 0 for those that stand for no text."""

    rows: Sequence[tuple[Shard, int]]
    seq: int
    batch: int
    bytes_of: Tensor

    def sums(self, losses: Losses, where: World) -> Tensor:
        """This rank's part: nats and tokens, nats and bytes of those tokens that stand for text."""
        sums = torch.zeros(4, dtype=torch.float64, device=where.device)
        for first in range(0, len(self.rows), self.batch * where.size):
            tokens, counts = (part.to(where.device) for part in self._batch(first + where.rank * self.batch))
            nats = losses(tokens).double() * counts
            lengths = self.bytes_of[tokens[:, 1:]] * counts
            text = (nats * (lengths > 0)).sum()
            sums += torch.stack([nats.sum(), counts.sum() * self.seq, text, lengths.sum()])
        return sums

    def figures(self, sums: Tensor) -> dict[str, float | None]:
        nats, count, nats_of_text, length = sums.tolist()
        return {"val_loss": nats / count, "val_bpb": nats_of_text / length / math.log(2) if length else None}

    def _batch(self, first: int) -> tuple[Tensor, Tensor]:
        """Rows from `first` on, and a column of ones where they count; past the end the last row is repeated."""
        numbers = range(first, first + self.batch)
        picked = [self.rows[min(number, len(self.rows) - 1)] for number in numbers]
        tokens = np.stack([shard.tokens[at : at + self.seq + 1] for shard, at in picked]).astype(np.int64)
        counts = [[float(number < len(self.rows))] for number in numbers]
        return torch.from_numpy(tokens), torch.tensor(counts, dtype=torch.float64)


def validation_for(plan: TrainingPlan, corpus: Corpus, device: torch.device) -> Validation:
    seq, tokenizer = plan.shape.seq, corpus.tokenizer
    rows = corpus.validation(seq)[: max(1, plan.eval_tokens // seq)]
    lengths = torch.zeros(plan.shape.vocab, dtype=torch.int64)
    if tokenizer:
        lengths[: tokenizer.vocab] = torch.from_numpy(tokenizer.byte_lengths)
    return Validation(rows, seq, plan.device_batch, lengths.to(device))


@dataclass(frozen=True)
class MultipleChoice:
    """In HellaSwag's form: token ids of the context, and of every ending; the right one should be the likeliest per
    token."""

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
    losses: Losses,
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


def _right(batch: list[MultipleChoice], seq: int, losses: Losses, device: torch.device) -> Tensor:
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


def text_from(place: Path, prompt: str, *, tokens: int, temperature: float, seed: int) -> str:
    """With a checkpoint folder or the exported weights file."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if place.is_dir():
        content = {**manifest(place), "weights": dict(saved_tensors(place, "model"))}
    else:
        content = weights_file(place)
    if content["tokenizer"] is None:
        fault = "was trained on tokens of an unknown tokenizer"
        raise TrainerError(str(place), fault, "train with --tokenizer")
    with torch.device("meta"):
        model = Model(Shape(**content["shape"]))
    model.on(device).eval()
    weights = content["weights"].items()
    model.load_state_dict({name: placed(weight, model.get_parameter(name)) for name, weight in weights})
    tokenizer = remade(content["tokenizer"])
    return sampled(model, tokenizer, prompt, tokens, temperature=temperature, seed=seed)


def weights_file(path: Path) -> dict[str, Any]:
    error = TrainerError(str(path), "is no weights file of this trainer", "give weights.pt or a checkpoint")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as fault:
        raise error from fault
    if not isinstance(content, dict) or {"shape", "tokenizer", "weights"} - set(content):
        raise error
    return content


def eager() -> AbstractContextManager[Any]:
    """Without the compiler, which would make the model anew for every length; importing it takes a second, and is
    left out where nothing was compiled."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


@torch.no_grad()
def sampled(
    model: Model, tokenizer: Tokenizer, prompt: str, tokens: int, *, temperature: float = 0.8, seed: int = 0
) -> str:
    """The same seed writes the same text. Run by all ranks alike where the model is sharded."""
    dice, device = torch.Generator().manual_seed(seed), model.head.weight.device
    ids = [int(i) for i in tokenizer.encode([prompt])[0]] or list(tokenizer.separator) or [0]
    with eager():
        for _ in range(tokens):
            latest = torch.tensor([ids[-model.shape.seq :]], device=device)
            logits = model(latest)[0, : tokenizer.vocab].float().cpu()
            best = torch.topk(logits, min(TOP_K if temperature else 1, len(logits)))
            chances = torch.softmax(best.values / (temperature or 1.0), -1)
            ids.append(int(best.indices[torch.multinomial(chances, 1, generator=dice)]))
    return tokenizer.decode(ids)
