"""Whether a larger batch or model would fit: the fullest GPU's memory against what it has."""

from __future__ import annotations

import polars as pl

from gputel.analysis import text
from gputel.analysis.verdicts.verdict import UNKNOWN, Case, Verdict
from gputel.trainer.gpus import find_gpu

QUESTION = "headroom"
RESERVE = 0.95  # of the memory: the rest goes to fragments and to other processes
WORTH = 1.1  # times as large, from which on it is worth trying
MIB = 2**20
MIB_PER_GIB = 1024


def of(case: Case) -> Verdict:
    peaks = case.gpus["mem_peak_mib"].drop_nulls() if "mem_peak_mib" in case.gpus.columns else pl.Series()
    total = _total_mib(case)
    if peaks.is_empty() or total is None:
        said = "memory in use was not recorded" if peaks.is_empty() else "the GPUs' memory is not known"
        return Verdict(QUESTION, UNKNOWN, (said,))
    peak = float(peaks.max())  # type: ignore[arg-type]
    fits = RESERVE * total / peak if peak else None
    facts = {"mem_peak_mib": peak, "mem_total_mib": total, "fits": fits}
    said = f"the fullest GPU held {text.size(peak * MIB)} of {text.size(total * MIB)} at its peak"
    if fits is None or fits < WORTH:
        return Verdict(QUESTION, "no", (said,), facts)
    more = "as if all of it grew with the batch or model; memory that PyTorch keeps for reuse counts as held"
    return Verdict(QUESTION, f"yes: a batch or model {fits:.1f} times as large", (said, more), facts)


def _total_mib(case: Case) -> float | None:
    """Of the smallest GPU, as recorded, else by the table of GPUs."""
    recording = case.subject.recording
    described = (
        [gpu for facts in recording.descriptions for gpu in facts.get("gpus") or []] if recording else []
    )
    told = [float(gpu["memory_total_mib"]) for gpu in described if gpu.get("memory_total_mib")]
    if told:
        return min(told)
    readings = case.subject.readings
    if readings is not None and "mem_total_mib" in readings.columns:
        lowest = readings["mem_total_mib"].min()
        if lowest is not None:
            return float(lowest)  # type: ignore[arg-type]
    name = case.subject.facts.gpu
    gpu = find_gpu(str(name.value)) if name else None
    return gpu.memory_gib * MIB_PER_GIB if gpu else None
