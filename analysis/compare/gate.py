"""Is a run worse than its baseline, by more than its noise? The verdicts that a CI job ends on.

A pace (throughput, time of a step, MFU) is judged by its median once the run is warm, a loss by its differences at
equal steps towards the end; both by a bootstrap over blocks of neighbouring steps, since neighbours are alike. An
interval that holds the limit says nothing yet, and that is a verdict of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis import columns
from gputel.analysis.compare import select
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log

Verdict: TypeAlias = Literal["passed", "failed", "unknown"]
Numbers: TypeAlias = npt.NDArray[np.float64]
Series: TypeAlias = tuple[npt.NDArray[np.int64], Numbers]  # steps, and the value at each

FEWEST = 20  # steps, under which a bootstrap of blocks says nothing
LAST_SHARE = 0.2  # of the shared steps, over which losses are compared
RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class GateResult:
    """`change` is how much worse, as a share of the baseline (better is negative), with its interval."""

    metric: str
    limit: float
    kind: Literal["regress", "target"]
    verdict: Verdict
    why: str
    value: float | None = None
    baseline: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    steps: int = 0


def judge(
    log: Log,
    baseline: Log | None,
    max_regress: Mapping[str, float],
    targets: Mapping[str, float],
    *,
    warmup: int = 10,
    phase: str | None = None,
    lower: Collection[str] = (),
    higher: Collection[str] = (),
) -> list[GateResult]:
    """A check for each limit, in the order given; `warmup` is how many steps at the start do not count.

    `lower` and `higher` name metrics and which way of them is better; a metric whose name does not say it and that
    is in neither is a GputelError.
    """
    asked = columns.directions(lower, higher)
    signs = {name: _sign(name, asked) for name in (*max_regress, *targets)}
    both = [log] if baseline is None else [log, baseline]
    chosen = select.choose(both, phase)
    run, *against = [_within(each, own) for each, own in zip(both, chosen.own, strict=True)]
    checks = [
        _regress(name, limit, signs[name], run, other, warmup)
        for other in against
        for name, limit in max_regress.items()
    ]
    return checks + [_target(name, limit, signs[name], run) for name, limit in targets.items()]


def exit_code(checks: Sequence[GateResult]) -> int:
    """4: a limit was broken; 5: none was, but not all can be judged."""
    verdicts = {check.verdict for check in checks}
    return 4 if "failed" in verdicts else 5 if "unknown" in verdicts else 0


def share(text: str) -> float:
    """`3%` or `0.03` as a share; a GputelError of anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    if not found:
        raise GputelError(text, "is not a share", "say 3% or 0.03", exit_code=2)
    return float(found[1]) / (100 if found[2] else 1)


@dataclass(frozen=True)
class _Run:
    steps: pl.DataFrame
    evals: pl.DataFrame

    def series(self, metric: str) -> Series | None:
        """Steps and finite values; of an evaluation where no record has the metric."""
        if metric in self.steps.columns:
            found = self.steps.select("step", pl.col(metric).cast(pl.Float64).alias("value"))
        else:
            found = self.evals.filter(pl.col("name") == metric).select("step", "value")
        found = found.filter(pl.col("step").is_not_null() & pl.col("value").is_finite())
        found = found.unique("step", keep="last", maintain_order=True).sort("step")
        return (found["step"].to_numpy(), found["value"].to_numpy()) if found.height else None


def _sign(metric: str, asked: Mapping[str, columns.Direction]) -> int:
    """1 where more is worse, -1 where less is."""
    return 1 if columns.better_or_refuse(metric, asked) == "lower" else -1


def _within(log: Log, phase: str | None) -> _Run:
    of = pl.col("phase") == phase
    return (
        _Run(log.steps.filter(of), log.evals.filter(of))
        if phase
        else _Run(log.steps.clear(), log.evals.clear())
    )


def _regress(metric: str, limit: float, sign: int, run: _Run, baseline: _Run, warmup: int) -> GateResult:
    ours, theirs = run.series(metric), baseline.series(metric)
    if ours is None or theirs is None:
        who = "the run has" if ours is None else "the baseline has"
        return GateResult(metric, limit, "regress", "unknown", f"{who} no {metric}")
    if metric not in run.steps.columns:
        return _by_evaluation(metric, limit, sign, ours, theirs)
    if columns.is_pace(metric):
        return _by_pace(metric, limit, sign, ours, theirs, warmup)
    return _by_step(metric, limit, sign, ours, theirs, warmup)


def _by_pace(metric: str, limit: float, sign: int, ours: Series, theirs: Series, warmup: int) -> GateResult:
    warm = [values[steps >= steps[0] + warmup] for steps, values in (ours, theirs)]
    fewest = min(map(len, warm))
    if fewest < FEWEST:
        return GateResult(metric, limit, "regress", "unknown", _too_few(fewest), steps=fewest)
    value, base = (float(np.median(values)) for values in warm)
    ratios = _medians(warm[0], 1) / _medians(warm[1], 2)
    return _verdict(
        metric, limit, value, base, sign * (value / base - 1), sign * (ratios - 1), fewest, "medians"
    )


def _by_step(metric: str, limit: float, sign: int, ours: Series, theirs: Series, warmup: int) -> GateResult:
    shared, at, there = np.intersect1d(ours[0], theirs[0], return_indices=True)
    last = max(FEWEST, round(len(shared) * LAST_SHARE))
    kept = np.flatnonzero(shared >= shared[0] + warmup)[-last:] if len(shared) else shared
    if len(kept) < FEWEST:
        return GateResult(
            metric, limit, "regress", "unknown", _too_few(len(kept), "shared "), steps=len(kept)
        )
    mine, base = ours[1][at][kept], theirs[1][there][kept]
    mean, base_mean = float(mine.mean()), float(base.mean())
    differences = sign * (mine - base) / abs(base_mean)
    means = _resampled(_blocks(differences).mean(axis=1), 1).mean(axis=1)
    why = f"means of steps {shared[kept[0]]} to {shared[kept[-1]]}"
    return _verdict(metric, limit, mean, base_mean, float(differences.mean()), means, len(kept), why)


def _by_evaluation(metric: str, limit: float, sign: int, ours: Series, theirs: Series) -> GateResult:
    shared, at, there = np.intersect1d(ours[0], theirs[0], return_indices=True)
    if not len(shared):
        return GateResult(metric, limit, "regress", "unknown", "no step was evaluated in both runs")
    value, base = float(ours[1][at[-1]]), float(theirs[1][there[-1]])
    change = sign * (value - base) / abs(base)
    why = f"evaluation of step {shared[-1]}, taken as it is"
    return _verdict(metric, limit, value, base, change, np.array([change]), len(shared), why)


def _verdict(
    metric: str, limit: float, value: float, base: float, change: float, spread: Numbers, steps: int, why: str
) -> GateResult:
    low, high = (float(edge) for edge in np.quantile(spread, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    verdict: Verdict = "failed" if low > limit else "passed" if high <= limit else "unknown"
    if verdict == "unknown":
        why += "; too noisy to say on which side of the limit it lies"
    return GateResult(metric, limit, "regress", verdict, why, value, base, change, low, high, steps)


def _target(metric: str, limit: float, sign: int, run: _Run) -> GateResult:
    found = run.series(metric)
    if found is None:
        return GateResult(metric, limit, "target", "unknown", f"the run has no {metric}")
    steps, values = found
    best = int(np.argmin(sign * values))
    value = float(values[best])
    verdict: Verdict = "passed" if sign * (value - limit) <= 0 else "failed"
    return GateResult(
        metric, limit, "target", verdict, f"best at step {steps[best]}", value, steps=len(values)
    )


def _too_few(steps: int, kind: str = "") -> str:
    return f"{steps} {kind}steps after the warm-up, and it takes {FEWEST}"


def _medians(values: Numbers, seed: int) -> Numbers:
    """Of resampled blocks' medians: over thousands of steps as good as the steps' own, and far cheaper."""
    medians: Numbers = np.median(_resampled(np.median(_blocks(values), axis=1), seed), axis=1)
    return medians


def _resampled(blocks: Numbers, seed: int) -> Numbers:
    """As many again, drawn with replacement: a row a resample."""
    chosen = np.random.default_rng(seed).integers(len(blocks), size=(RESAMPLES, len(blocks)))
    drawn: Numbers = blocks[chosen]
    return drawn


def _blocks(values: Numbers) -> Numbers:
    """Neighbours together, the cube root of their number long; what is over at the start is left out."""
    length = round(len(values) ** (1 / 3))
    return values[len(values) % length :].reshape(-1, length)
