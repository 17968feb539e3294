"""The MFU of a run: as its log prints it, as its own figures come to, and why the two differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.doubts import Doubt
from gputel.analysis.runs.facts import FLOPS_PER_PARAMETER, Facts, estimated_flops
from gputel.analysis.runs.record_gaps import median_with_error, printed_median, rounding_error

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

OF_ONE_GPU = "the printed tok/s is that of one GPU"
AGREE = 1.15  # ratio of a computed to a printed MFU that agree
WITHOUT_ATTENTION = 0.6  # least such ratio if attention is not counted
NEAR = 0.15  # relative distance from a factor that explains a disagreement


@dataclass(frozen=True)
class MfuFigures:
    """MFU in %, and what it was computed from; None is unknown."""

    printed: float | None
    computed: float | None
    tok_per_sec: float | None
    formula: tuple[str, ...]
    lacking: tuple[str, ...]
    """Factors that are not known."""
    disagreement: str | None
    """The likeliest reason why the two differ; OF_ONE_GPU if they agree by it."""

    @property
    def highest(self) -> float | None:
        return max((share for share in (self.printed, self.computed) if share is not None), default=None)


def mfu_figures(subject: RunData, stamped_rate: float | None = None) -> MfuFigures:
    """`stamped_rate` is the throughput by timestamps, for a log that prints none."""
    facts, records = subject.facts, subject.log.records
    printed, rate = printed_median(records, "mfu"), printed_median(records, "tok_per_sec")
    rate = rate * subject.step_tokens.rate_scale if rate else stamped_rate
    computed, formula = _computed(facts, rate)
    lacking = [name for name, value in _factors(facts, rate).items() if value is None]
    return MfuFigures(
        printed,
        computed,
        rate,
        tuple(formula),
        tuple(lacking),
        _disagreement(printed, computed, facts),
    )


def mfu_doubt(figures: MfuFigures) -> Doubt | None:
    """Returns the doubt about an MFU that is impossible, or printed and computed differently."""
    facts = {"printed": figures.printed, "computed": figures.computed}
    if figures.highest is not None and figures.highest > 100:
        evidence = f"MFU would be {figures.highest:,.0f} %, and 100 % is the peak of the GPUs"
        return Doubt(
            "run", "mfu", evidence, "tokens, parameters, throughput or the number of GPUs are wrong", facts
        )
    if figures.disagreement in (None, OF_ONE_GPU):
        return None
    evidence = f"the log prints an MFU of {figures.printed:.3g} %, computed it is {figures.computed:.3g} %"
    return Doubt("run", "mfu", evidence, figures.disagreement, facts)


def mfu_error(records: pl.DataFrame, figures: MfuFigures) -> float | None:
    """Returns the error of the printed MFU, else of the computed one, which has that of the throughput."""
    name, share = (
        ("mfu", figures.printed) if figures.printed is not None else ("tok_per_sec", figures.computed)
    )
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


def _flops(value: float) -> str:
    return f"{value / 1e12:,.0f} TFLOP/s" if value >= 1e13 else f"{value / 1e12:.3g} TFLOP/s"
