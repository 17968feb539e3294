"""Verdicts on a run, each with its evidence: overfitting, the bottleneck, headroom, MFU, stragglers."""

from gputel.analysis.verdicts import arithmetic, bottleneck, headroom, overfitting, stragglers
from gputel.analysis.verdicts.verdict import UNKNOWN, Case, Verdict

__all__ = ["UNKNOWN", "Case", "Verdict", "of"]

OF_GPUS = (headroom.of, stragglers.of)
OF_TRAINING = (bottleneck.of, headroom.of, arithmetic.of, overfitting.of, stragglers.of)


def of(case: Case, *, trained: bool = True) -> list[Verdict]:
    """Of readings alone, what they can tell."""
    return [judge(case) for judge in (OF_TRAINING if trained else OF_GPUS)]
