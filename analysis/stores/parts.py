"""The words by which tools tell training from evaluation, in tags and as names of folders."""

from __future__ import annotations

TRAINING = frozenset({"train", "training"})
EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev"})
PARTS = TRAINING | EVALUATION


def is_part(name: str) -> bool:
    return name.lower() in PARTS
