"""What a shape is beside that of the records: an evaluation, a part, another record, or nothing of the training."""

from __future__ import annotations

import re

from gputel.analysis.parse.infer.candidates import Candidate
from gputel.analysis.parse.infer.dialects import MEASURE
from gputel.analysis.parse.infer.shapes import Shape

SUMMARY = re.compile(
    rb"(?i)\b(?:best|minimum|maximum|finished|summary|total training|training took|early stop|train_runtime)"
    rb"|^\W*wandb:"
)

_BEST = re.compile(
    rb"(?i)\bnew best|best so far|\bis the best|\bimproved\b|\bsaving\b"
)  # says again what was said


def role_beside(one: Candidate, main: Candidate, header: Candidate | None) -> str | None:
    """What a shape is beside the main one, or None where it is nothing of the training."""
    rare = one.shape.count <= max(2, main.shape.count // 50)
    if (rare and _sums_up(one) and not _sums_up(main)) or is_torn(one.shape, main.shape):
        return None
    if one.role == "epoch":
        stated = main.place is not None and main.place.column in ("step", "epoch")
        return None if stated and not main.restarts else "epoch"
    if one.role == "eval":
        again = one.place is None and _BEST.search(one.shape.example)
        return "eval" if one.is_measured and not again else None
    if _follows(one, main):
        return "part"
    if _is_of_epoch(one, main):
        return "eval" if one.role == "mixed" and one.is_measured else None
    if one.place is None:
        return "part" if _belongs(one, main, header) else None
    if not one.evidence or not one.speaks or one.is_quoted > main.is_quoted or _is_average(one, main):
        return None
    rarer = one.role == "mixed" != main.role and one.shape.count <= main.shape.count / 2
    if rarer and "lr" not in one.columns:
        return "eval"
    shared = [n for n in one.metrics if n.column in {m.column for m in main.metrics}]
    fraction = any(b"." in value or b"n" in value for n in shared for value in one.shape.column(n.at))
    known = fraction and (any(n.column == "loss" for n in shared) or 2 * len(shared) >= len(one.metrics))
    return "train" if known or (one.shape.count > 2 and one.changing) else None


def _sums_up(one: Candidate) -> bool:
    """What is the best so far may stand behind what was measured now."""
    measured = [n.at for n in one.metrics if MEASURE.search(n.column or "")]
    said = one.shape.words[: measured[0] + 1] if one.role == "eval" and measured else [one.shape.example]
    return SUMMARY.search(b" ".join(said)) is not None


def _belongs(one: Candidate, main: Candidate, header: Candidate | None) -> bool:
    """Whether a line without a step is part of the record above it."""
    share = one.shape.count / main.shape.count
    if header:
        return share >= 0.2
    boxed = one.shape.words[0].lstrip()[:1] == b"|"
    spoken = {"loss", "lr", "grad_norm", "tok_per_sec"} & set(one.columns)
    return 0.5 <= share <= 2 and (boxed or bool(spoken))


def _follows(one: Candidate, main: Candidate) -> bool:
    """Whether it stands right below records, prints their loss once more, and does not know their step."""
    if main.place is None or one.place is None or one.place_rank <= main.place_rank or not one.loses:
        return False
    above = set(main.shape.lines)
    return "loss" in main.columns and all(number - 1 in above for number in one.shape.lines)


def _is_of_epoch(one: Candidate, main: Candidate) -> bool:
    """What is said of a whole epoch, where the records are finer than that."""
    return main.is_fine and not one.is_fine and one.place is not None and one.shape.count <= main.shape.count


def _is_average(one: Candidate, main: Candidate) -> bool:
    """The means of an epoch, which say `train_` where the records do not."""

    def trained(candidate: Candidate) -> float:
        return sum(n.source.lower().startswith("train") for n in candidate.metrics) / len(candidate.metrics)

    return one.shape.count < main.shape.count and trained(one) > 0.5 > trained(main)


def is_torn(shape: Shape, whole: Shape) -> bool:
    """A record that breaks off, or has a `?` where a number belongs, is to be a reject and no shape of its own."""
    if shape.count > 2 or whole.count < 50 * shape.count or shape.first < whole.first:
        return False
    questioned = tuple(literal.replace(b"?", b"") for literal in shape.literals) == whole.literals
    return questioned or shape.literals[:-1] == whole.literals[: shape.slots]
