"""HellaSwag's questions from a local jsonl: a file in, token ids of contexts and endings out."""

import json
from dataclasses import dataclass
from pathlib import Path

from gputel.trainer.data.tokenizer import Tokenizer
from gputel.trainer.errors import TrainerError


@dataclass(frozen=True)
class MultipleChoice:
    """Token ids of the context, and of every ending."""

    context: list[int]
    endings: list[list[int]]
    label: int


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
