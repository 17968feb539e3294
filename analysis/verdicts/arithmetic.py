"""Whether the MFU that a run claims, or that its figures come to, is possible, shown factor by factor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.facts import FLOPS_PER_PARAMETER, estimated_flops
from gputel.analysis.verdicts.verdict import UNKNOWN, Case, Verdict

if TYPE_CHECKING:
    from gputel.analysis.facts import Facts

QUESTION = "mfu"


def of(case: Case) -> Verdict:
    facts = case.subject.facts
    printed, rate = _median(case, "mfu"), _median(case, "tok_per_sec") or _rate(case)
    reckoned, sums = _reckoned(facts, rate)
    known: dict[str, Any] = {"printed": printed, "reckoned": reckoned, "tok_per_sec": rate}
    evidence = ([f"the log prints {printed:.1f} % (median)"] if printed is not None else []) + sums
    highest = max((share for share in (printed, reckoned) if share is not None), default=None)
    if highest is None:
        lacking = [name for name, value in _factors(facts, rate).items() if value is None]
        return Verdict(QUESTION, UNKNOWN, (f"not known: {', '.join(lacking)}",), known)
    if highest > 100:
        evidence.append(
            "no GPU does more than its peak: a count of tokens, steps, parameters or GPUs is wrong"
        )
        return Verdict(QUESTION, f"impossible: {highest:,.0f} %", tuple(evidence), known)
    return Verdict(QUESTION, f"{reckoned if printed is None else printed:.3g} %", tuple(evidence), known)


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
