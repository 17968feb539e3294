"""A verdict on a run, and what it is drawn from. Without evidence the answer is `unknown`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.subjects import Subject

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Verdict:
    """`facts` are the figures that the evidence names, for programs."""

    question: str
    answer: str
    evidence: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "answer": self.answer,
            "evidence": list(self.evidence),
            "facts": self.facts,
        }


@dataclass(frozen=True)
class Case:
    """What verdicts look at: the run, its steps with what they cost, and each GPU over the training."""

    subject: Subject
    steps: pl.DataFrame
    gpus: pl.DataFrame
