"""Verdicts on a run, each with its evidence: overfitting, the bottleneck, headroom, MFU, stragglers."""

from gputel.analysis.verdicts import arithmetic, bottleneck, headroom, overfitting, stragglers
from gputel.analysis.verdicts.verdict import UNKNOWN, Case, Verdict

__all__ = ["UNKNOWN", "Case", "Verdict", "of"]

JUDGES = (bottleneck.of, headroom.of, arithmetic.of, overfitting.of, stragglers.of)


def of(case: Case) -> list[Verdict]:
    return [judge(case) for judge in JUDGES]
