"""A run and its measured steps -> verdicts with evidence; without evidence the answer is `unknown`.

MFU          the printed one, or computed factor by factor; over 100 % is impossible
headroom     whether a larger batch or model would fit, by the fullest GPU's memory
stragglers   a rank or node by its steps, a GPU by its clock or throttling
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.align import offsets
from gputel.analysis.runs.facts import FLOPS_PER_PARAMETER, estimated_flops
from gputel.analysis.runs.record_gaps import median_with_error, rounding_error
from gputel.trainer.gpus import find_gpu

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.facts import Facts

UNKNOWN = "unknown"

MFU_QUESTION = "mfu"
OF_ONE_GPU = "the printed tok/s is that of one GPU"
AGREE = 1.15  # ratio of a computed to a printed MFU that agree
WITHOUT_ATTENTION = 0.6  # least such ratio if attention is not counted
SHOWN = 0.05  # %: a smaller error is not shown
NEAR = 0.15  # relative distance from a factor that explains a disagreement

HEADROOM_QUESTION = "headroom"
RESERVE = 0.95  # of the memory; the rest is for fragmentation and other processes
WORTH = 1.1  # least factor that is worth trying

STRAGGLER_QUESTION = "stragglers"
SLOWER = 0.95  # of the median clock of the other GPUs
THROTTLED = 0.05  # share of the training
COMPARED = {"sm_mhz": "the clocks", "throttled_s": "the throttling"}


@dataclass(frozen=True)
class Verdict:
    """The answer to a question, with evidence as sentences; `facts` are its figures, for programs."""

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
    """The input of a verdict: a run, its measured steps, each GPU over the training, and the error of its clock."""

    subject: RunData
    steps: pl.DataFrame
    gpus: pl.DataFrame
    clock_error_s: float = 0.0

    def printed(self, name: str) -> float | None:
        """The median of a figure that the log prints."""
        records = self.subject.log.records
        if name not in records.columns:
            return None
        middle: Any = records.filter(pl.col(name).is_finite())[name].median()
        return None if middle is None else float(middle)


def mfu_verdict(case: Case) -> Verdict:
    """Returns the MFU as printed, else as computed; the two may differ."""
    facts = case.subject.facts
    printed, rate = case.printed("mfu"), _printed_rate(case) or _rate(case)
    computed, formula = _computed(facts, rate)
    error = _mfu_error(case, printed, computed)
    figures: dict[str, Any] = {
        "printed": printed,
        "computed": computed,
        "tok_per_sec": rate,
        "error": error,
    }
    evidence = ([f"the log prints {printed:.1f} % (median)"] if printed is not None else []) + formula
    highest = max((share for share in (printed, computed) if share is not None), default=None)
    if highest is None:
        lacking = [name for name, value in _factors(facts, rate).items() if value is None]
        evidence = [f"not known: {', '.join(lacking)}", *_no_peak(case)]
        return Verdict(MFU_QUESTION, UNKNOWN, tuple(evidence), figures)
    if highest > 100:
        evidence.append(
            "more than the peak is impossible: the number of tokens, steps, parameters or GPUs is wrong"
        )
        return Verdict(MFU_QUESTION, f"impossible: {highest:,.0f} %", tuple(evidence), figures)
    reason = _disagreement(printed, computed, facts)
    if reason == OF_ONE_GPU:
        evidence.append(f"they agree if {OF_ONE_GPU}")
    elif reason:
        figures["disagreement"] = reason
        answer = f"{printed:.3g} % printed, {computed:.3g} % computed"
        return Verdict(MFU_QUESTION, answer, (*evidence, f"they differ: {reason}"), figures)
    share = computed if printed is None else printed
    assert share is not None
    stated = f"{share:.3g}" if error is None or error < SHOWN else text.with_error(share, error, 1)
    return Verdict(MFU_QUESTION, f"{stated} %", tuple(evidence), figures)


def undoubted_mfu(case: Case) -> float | None:
    """Returns the printed MFU; None if the run's own figures contradict it."""
    verdict = mfu_verdict(case)
    contradicted = "disagreement" in verdict.facts or (verdict.facts["computed"] or 0) > 100
    return None if contradicted else case.printed("mfu")


def _mfu_error(case: Case, printed: float | None, computed: float | None) -> float | None:
    """Returns the error of the printed MFU, else of the computed one, which has that of the throughput."""
    name, share = ("mfu", printed) if printed is not None else ("tok_per_sec", computed)
    records = case.subject.log.records
    if name not in records.columns or share is None:
        return None
    values = records.filter(pl.col(name).is_finite())[name].cast(pl.Float64)
    if values.is_empty():
        return None
    middle, error = median_with_error(values.to_numpy())
    rounding = rounding_error(values) if values.n_unique() > 1 else 0.0
    return share * math.hypot(error, rounding) / middle if middle else None


def _disagreement(printed: float | None, computed: float | None, facts: Facts) -> str | None:
    """Returns the likeliest reason why two MFUs differ; None if they agree, or if one of them is not known.

    FLOPs estimated from parameters leave attention out, so the computed MFU may then be lower.
    """
    if not printed or not computed:
        return None
    ratio = computed / printed
    if (1 / AGREE if facts.flops_per_token else WITHOUT_ATTENTION) <= ratio <= AGREE:
        return None
    gpus = float(facts.gpus.value) if facts.gpus else 1.0
    for factor, words in (
        (1 / gpus, OF_ONE_GPU),
        (2.0, "the log divides by the peak with sparsity, or by twice the number of GPUs"),
        (0.5, "the log divides by half the peak, or by half the number of GPUs"),
        (gpus, "the log divides by the number of GPUs twice"),
    ):
        if factor != 1 and abs(ratio / factor - 1) < NEAR:
            return words
    return "they use another peak, number of GPUs, or count of FLOPs per token"


def headroom_verdict(case: Case) -> Verdict:
    """Returns how much larger a batch or model would fit."""
    peaks = case.gpus["mem_peak_mib"].drop_nulls() if "mem_peak_mib" in case.gpus.columns else pl.Series()
    total = _total_mib(case)
    if peaks.is_empty() or total is None:
        usage = (
            "memory use was not recorded" if peaks.is_empty() else "the size of the GPUs' memory is not known"
        )
        return Verdict(HEADROOM_QUESTION, UNKNOWN, (usage,))
    peak = float(peaks.max())  # type: ignore[arg-type]
    fits = RESERVE * total / peak if peak else None
    facts = {"mem_peak_mib": peak, "mem_total_mib": total, "fits": fits}
    usage = f"the fullest GPU used {text.mebibytes(peak)} of {text.mebibytes(total)} at its peak"
    if fits is None or fits < WORTH:
        return Verdict(HEADROOM_QUESTION, "no", (usage,), facts)
    caveat = "assumes memory scales with batch or model size; memory that PyTorch caches counts as used"
    return Verdict(
        HEADROOM_QUESTION, f"yes: a batch or model {fits:.1f} times as large", (usage, caveat), facts
    )


def straggler_verdict(case: Case) -> Verdict:
    """Names the ranks, nodes and GPUs that the others wait for."""
    sources = offsets.offsets(case.subject.log.records)
    one_clock = case.subject.recording is not None and "node" not in case.subject.log.records.columns
    evidence = [
        f"{straggler.source}: {straggler.evidence}"
        for straggler in offsets.stragglers(sources, one_clock=one_clock)
    ]
    evidence += _by_clock(case.gpus) + _by_throttling(case.gpus)
    if evidence:
        return Verdict(
            STRAGGLER_QUESTION, "yes", tuple(evidence), {"sources": len(sources), "gpus": len(case.gpus)}
        )
    seen = [f"the steps of {len(sources)} ranks or nodes"] if len(sources) > 1 else []
    compared = [
        words for name, words in COMPARED.items() if name in case.gpus.columns and case.gpus[name].count() > 1
    ]
    seen += [f"{' and '.join(compared)} of {len(case.gpus)} GPUs"] if compared else []
    if not seen:
        return Verdict(STRAGGLER_QUESTION, UNKNOWN, ("steps of two ranks or clocks of two GPUs are needed",))
    return Verdict(STRAGGLER_QUESTION, "none", (f"nothing stands out in {', and '.join(seen)}",))


def _printed_rate(case: Case) -> float | None:
    """Returns the median of the printed throughput, in the unit that fits tokens and step times."""
    rate = case.printed("tok_per_sec")
    return None if rate is None else rate * case.subject.step_tokens.rate_scale


def _rate(case: Case) -> float | None:
    """Returns tokens per second by timestamps, for logs without a printed throughput."""
    tokens = case.subject.facts.tokens_per_step
    seconds: Any = case.steps["duration_s"].median() if len(case.steps) else None
    return float(tokens.value) / seconds if tokens and seconds else None


def _factors(facts: Facts, rate: float | None) -> dict[str, float | None]:
    peak = facts.peak_flops
    each = facts.flops_per_token or facts.parameters
    return {
        "FLOPs per token": float(each.value) if each else None,
        "tokens per second": rate,
        "the GPUs' peak": float(peak.value) if peak else None,
    }


def _computed(facts: Facts, rate: float | None) -> tuple[float | None, list[str]]:
    """Computes MFU in %, with the formula as evidence; FLOPs per token may be estimated from parameters."""
    if None in _factors(facts, rate).values() or rate is None or facts.peak_flops is None:
        return None, []
    if "MFU" in facts.peak_flops.origin:
        return None, [f"it implies a peak of {_flops(facts.peak_flops.value)}, {facts.peak_flops.origin}"]
    if facts.flops_per_token:
        each, work = float(facts.flops_per_token.value), f"{facts.flops_per_token.value:.4g} FLOPs per token"
    else:
        assert facts.parameters
        each = estimated_flops(float(facts.parameters.value))
        work = f"{FLOPS_PER_PARAMETER} x {facts.parameters.value:,.0f} parameters per token"
    share = 100 * each * rate / float(facts.peak_flops.value)
    return share, [
        f"{work} x {rate:,.0f} tok/s (median) = {_flops(each * rate)}, "
        f"of {_flops(facts.peak_flops.value)} ({facts.peak_flops.origin}): {share:.3g} %"
    ]


def _no_peak(case: Case) -> list[str]:
    """Says why a run on simulated GPUs has no MFU."""
    recording = case.subject.recording
    machine = recording.simulated if recording else None
    return [f"the GPUs are simulated ({machine}): the training did not run on them"] if machine else []


def _flops(value: float) -> str:
    return f"{value / 1e12:,.0f} TFLOP/s" if value >= 1e13 else f"{value / 1e12:.3g} TFLOP/s"


def _total_mib(case: Case) -> float | None:
    """Returns the memory of the smallest GPU: recorded, else from the table of GPU models."""
    recording = case.subject.recording
    described = (
        [gpu for facts in recording.descriptions for gpu in facts.get("gpus") or []] if recording else []
    )
    sizes = [float(gpu["memory_total_mib"]) for gpu in described if gpu.get("memory_total_mib")]
    if sizes:
        return min(sizes)
    readings = case.subject.readings
    if readings is not None and "mem_total_mib" in readings.columns:
        lowest = readings["mem_total_mib"].min()
        if lowest is not None:
            return float(lowest)  # type: ignore[arg-type]
    name = case.subject.facts.gpu
    gpu = find_gpu(str(name.value)) if name else None
    return gpu.memory_gib * text.MIB_PER_GIB if gpu else None


def _name(row: dict[str, object]) -> str:
    return f"GPU {row['gpu']}" if row.get("node") is None else f"node {row['node']} GPU {row['gpu']}"


def _by_clock(gpus: pl.DataFrame) -> list[str]:
    clocked = gpus.filter(pl.col("sm_mhz").is_not_null()) if "sm_mhz" in gpus.columns else gpus.clear()
    slow = []
    for place, row in enumerate(clocked.iter_rows(named=True)):
        others = [mhz for other, mhz in enumerate(clocked["sm_mhz"]) if other != place]
        usual: Any = pl.Series(others, dtype=pl.Float64).median()
        if usual and row["sm_mhz"] < SLOWER * usual:
            slow.append(f"{_name(row)}: its clock was {row['sm_mhz']:,.0f} MHz, the others' {usual:,.0f} MHz")
    return slow


def _by_throttling(gpus: pl.DataFrame) -> list[str]:
    """Names GPUs that were throttled while another was not."""
    if "throttled_s" not in gpus.columns or gpus["throttled_s"].null_count() == len(gpus) or len(gpus) < 2:
        return []
    shares = gpus.with_columns(share=pl.col("throttled_s") / pl.col("duration_s")).filter(
        pl.col("share") > THROTTLED
    )
    if len(shares) == len(gpus):
        return []
    return [
        f"{_name(row)}: throttled for {100 * row['share']:.0f} % of the time"
        for row in shares.iter_rows(named=True)
    ]
