"""A verdict on a run, and what it is drawn from. Without evidence the answer is `unknown`.

Whether the MFU that a run claims, or that its figures come to, is possible, shown factor by factor.

Whether a larger batch or model would fit: the fullest GPU's memory against what it has.

Who keeps the others waiting: a rank or node by its steps, a GPU by its clock or by throttling.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.align import offsets
from gputel.analysis.runs.facts import FLOPS_PER_PARAMETER, estimated_flops
from gputel.trainer.gpus import find_gpu

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.facts import Facts

UNKNOWN = "unknown"

MFU_QUESTION = "mfu"

HEADROOM_QUESTION = "headroom"
RESERVE = 0.95  # of the memory: the rest goes to fragments and to other processes
WORTH = 1.1  # times as large, from which on it is worth trying
MIB = 2**20
MIB_PER_GIB = 1024

STRAGGLER_QUESTION = "stragglers"
SLOWER = 0.95  # of the median clock of the other GPUs
THROTTLED = 0.05  # of the training
TOLD = {"sm_mhz": "the clocks", "throttled_s": "the throttling"}


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

    subject: RunData
    steps: pl.DataFrame
    gpus: pl.DataFrame


def mfu_verdict(case: Case) -> Verdict:
    facts = case.subject.facts
    printed, rate = _median(case, "mfu"), _median(case, "tok_per_sec") or _rate(case)
    reckoned, sums = _reckoned(facts, rate)
    known: dict[str, Any] = {"printed": printed, "reckoned": reckoned, "tok_per_sec": rate}
    evidence = ([f"the log prints {printed:.1f} % (median)"] if printed is not None else []) + sums
    highest = max((share for share in (printed, reckoned) if share is not None), default=None)
    if highest is None:
        lacking = [name for name, value in _factors(facts, rate).items() if value is None]
        return Verdict(MFU_QUESTION, UNKNOWN, (f"not known: {', '.join(lacking)}",), known)
    if highest > 100:
        evidence.append(
            "no GPU does more than its peak: a count of tokens, steps, parameters or GPUs is wrong"
        )
        return Verdict(MFU_QUESTION, f"impossible: {highest:,.0f} %", tuple(evidence), known)
    return Verdict(MFU_QUESTION, f"{reckoned if printed is None else printed:.3g} %", tuple(evidence), known)


def headroom_verdict(case: Case) -> Verdict:
    peaks = case.gpus["mem_peak_mib"].drop_nulls() if "mem_peak_mib" in case.gpus.columns else pl.Series()
    total = _total_mib(case)
    if peaks.is_empty() or total is None:
        said = "memory in use was not recorded" if peaks.is_empty() else "the GPUs' memory is not known"
        return Verdict(HEADROOM_QUESTION, UNKNOWN, (said,))
    peak = float(peaks.max())  # type: ignore[arg-type]
    fits = RESERVE * total / peak if peak else None
    facts = {"mem_peak_mib": peak, "mem_total_mib": total, "fits": fits}
    said = f"the fullest GPU held {text.size(peak * MIB)} of {text.size(total * MIB)} at its peak"
    if fits is None or fits < WORTH:
        return Verdict(HEADROOM_QUESTION, "no", (said,), facts)
    more = "as if all of it grew with the batch or model; memory that PyTorch keeps for reuse counts as held"
    return Verdict(HEADROOM_QUESTION, f"yes: a batch or model {fits:.1f} times as large", (said, more), facts)


def straggler_verdict(case: Case) -> Verdict:
    found = offsets.offsets(case.subject.log.records)
    one_clock = case.subject.recording is not None and "node" not in case.subject.log.records.columns
    said = [f"{one.source}: {one.evidence}" for one in offsets.stragglers(found, one_clock=one_clock)]
    said += _by_clock(case.gpus) + _by_throttling(case.gpus)
    if said:
        return Verdict(
            STRAGGLER_QUESTION, "yes", tuple(said), {"sources": len(found), "gpus": len(case.gpus)}
        )
    seen = [f"the steps of {len(found)} ranks or nodes"] if len(found) > 1 else []
    told = [said for name, said in TOLD.items() if name in case.gpus.columns and case.gpus[name].count() > 1]
    seen += [f"{' and '.join(told)} of {len(case.gpus)} GPUs"] if told else []
    if not seen:
        return Verdict(
            STRAGGLER_QUESTION, UNKNOWN, ("neither two ranks' steps nor two GPUs' clocks are known",)
        )
    return Verdict(STRAGGLER_QUESTION, "none", (f"nothing stands out in {', and '.join(seen)}",))


def _median(case: Case, name: str) -> float | None:
    records = case.subject.log.records
    if name not in records.columns:
        return None
    found: Any = records.filter(pl.col(name).is_finite())[name].median()
    return None if found is None else float(found)


def _rate(case: Case) -> float | None:
    """Tokens a second by the stamps, where no throughput was printed."""
    tokens = case.subject.facts.tokens_per_step
    seconds: Any = case.steps["duration_s"].median() if len(case.steps) else None
    return float(tokens.value) / seconds if tokens and seconds else None


def _factors(facts: Facts, rate: float | None) -> dict[str, float | None]:
    peak = facts.peak_flops
    each = facts.flops_per_token or facts.parameters
    return {
        "FLOPs a token": float(each.value) if each else None,
        "tokens a second": rate,
        "the GPUs' peak": float(peak.value) if peak else None,
    }


def _reckoned(facts: Facts, rate: float | None) -> tuple[float | None, list[str]]:
    """In %; without FLOPs a token, they are estimated from the parameters."""
    if None in _factors(facts, rate).values() or rate is None or facts.peak_flops is None:
        return None, []
    if "MFU" in facts.peak_flops.origin:
        return None, [f"the peak behind it is {_flops(facts.peak_flops.value)}, {facts.peak_flops.origin}"]
    if facts.flops_per_token:
        each, said = float(facts.flops_per_token.value), f"{facts.flops_per_token.value:.4g} FLOPs a token"
    else:
        assert facts.parameters
        each = estimated_flops(float(facts.parameters.value))
        said = f"{FLOPS_PER_PARAMETER} x {facts.parameters.value:,.0f} parameters a token"
    share = 100 * each * rate / float(facts.peak_flops.value)
    return share, [
        f"{said} x {rate:,.0f} tok/s (median) = {_flops(each * rate)}, "
        f"of {_flops(facts.peak_flops.value)} ({facts.peak_flops.origin}): {share:.3g} %"
    ]


def _flops(value: float) -> str:
    return f"{value / 1e12:,.0f} TFLOP/s" if value >= 1e13 else f"{value / 1e12:.3g} TFLOP/s"


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


def _name(row: dict[str, object]) -> str:
    return f"GPU {row['gpu']}" if row.get("node") is None else f"node {row['node']} GPU {row['gpu']}"


def _by_clock(gpus: pl.DataFrame) -> list[str]:
    known = gpus.filter(pl.col("sm_mhz").is_not_null()) if "sm_mhz" in gpus.columns else gpus.clear()
    said = []
    for place, row in enumerate(known.iter_rows(named=True)):
        others = [mhz for other, mhz in enumerate(known["sm_mhz"]) if other != place]
        usual: Any = pl.Series(others, dtype=pl.Float64).median()
        if usual and row["sm_mhz"] < SLOWER * usual:
            said.append(
                f"{_name(row)}: its clock was {row['sm_mhz']:,.0f} MHz, that of the others {usual:,.0f} MHz"
            )
    return said


def _by_throttling(gpus: pl.DataFrame) -> list[str]:
    """Those that were slowed down while another was not."""
    if "throttled_s" not in gpus.columns or gpus["throttled_s"].null_count() == len(gpus) or len(gpus) < 2:
        return []
    shares = gpus.with_columns(share=pl.col("throttled_s") / pl.col("duration_s")).filter(
        pl.col("share") > THROTTLED
    )
    if len(shares) == len(gpus):
        return []
    return [
        f"{_name(row)}: slowed down in {100 * row['share']:.0f} % of the time"
        for row in shares.iter_rows(named=True)
    ]
