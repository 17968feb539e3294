"""Verdicts on a run, each with its evidence: overfitting, the bottleneck, headroom, MFU, stragglers."""

from collections.abc import Callable, Mapping

from gputel.analysis.verdicts import arithmetic, bottleneck, headroom, overfitting, stragglers
from gputel.analysis.verdicts.verdict import UNKNOWN, Case, Verdict

__all__ = ["UNKNOWN", "Case", "Verdict", "of"]

JUDGES: Mapping[str, Callable[[Case], Verdict]] = {
    bottleneck.QUESTION: bottleneck.of,
    headroom.QUESTION: headroom.of,
    arithmetic.QUESTION: arithmetic.of,
    overfitting.QUESTION: overfitting.of,
    stragglers.QUESTION: stragglers.of,
}
BY_GPU_READINGS = (bottleneck.QUESTION, headroom.QUESTION, stragglers.QUESTION)
WITHOUT_TRAINING = (headroom.QUESTION, stragglers.QUESTION)


def of(case: Case, *, trained: bool = True) -> list[Verdict]:
    """Of readings alone, what they can tell; of simulated readings, nothing that rests on them."""
    recording = case.subject.recording
    simulated = recording.simulated if recording else None
    return [
        _unknown(question, simulated) if simulated and question in BY_GPU_READINGS else judge(case)
        for question, judge in JUDGES.items()
        if trained or question in WITHOUT_TRAINING
    ]


def _unknown(question: str, simulated: str) -> Verdict:
    """A simulation does not know what is trained beside it, and a replay shows another recording's GPUs."""
    said = f"the GPU readings are simulated ({simulated}): no verdict"
    return Verdict(question, UNKNOWN, (said,), {"simulated": simulated})
