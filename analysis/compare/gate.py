"""A run and its baseline -> whether it is worse by more than noise: the verdicts of a CI job.

A pace (throughput, step time, MFU) is compared by its median after warm-up, a loss by its differences at equal
steps towards the end; both with a bootstrap over blocks of neighboring steps, as neighbors are alike. If the
interval includes the limit, the verdict is `unknown`.
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
from gputel.analysis.logs.attempts import retained
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log

Verdict: TypeAlias = Literal["passed", "failed", "unknown"]
Numbers: TypeAlias = npt.NDArray[np.float64]
Series: TypeAlias = tuple[npt.NDArray[np.int64], Numbers]  # steps, and the value at each

FEWEST = 20  # steps that a bootstrap of blocks needs
LAST_SHARE = 0.2  # share of the shared steps: losses are compared at the last ones
RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class GateResult:
    """The verdict on one limit; `change` is how much worse, relative to the baseline (negative: better)."""

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
    """Judges each limit, in the order given; the first `warmup` steps do not count.

    `lower` and `higher` name metrics by their better direction; raises GputelError if it is unknown for a metric.
    """
    asked = columns.directions(lower, higher)
    limits = [_Limit(name, limit, "regress", _sign(name, asked)) for name, limit in max_regress.items()]
    goals = [_Limit(name, limit, "target", _sign(name, asked)) for name, limit in targets.items()]
    both = [log] if baseline is None else [log, baseline]
    chosen = select.choose(both, phase)
    run, *against = [_within(each, phase_name) for each, phase_name in zip(both, chosen.names, strict=True)]
    checks = [_regress(limit, run, other, warmup) for other in against for limit in limits]
    return checks + [_target(goal, run) for goal in goals]


def exit_code(checks: Sequence[GateResult]) -> int:
    """Returns 4 if a limit was broken, 5 if none was but some cannot be judged, else 0."""
    verdicts = {check.verdict for check in checks}
    return 4 if "failed" in verdicts else 5 if "unknown" in verdicts else 0


def share(text: str) -> float:
    """Parses `3%` or `0.03`; raises GputelError otherwise."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    if not match:
        raise GputelError(text, "is not a percentage", "say 3% or 0.03", exit_code=2)
    return float(match[1]) / (100 if match[2] else 1)


@dataclass(frozen=True)
class _Run:
    steps: pl.DataFrame
    evals: pl.DataFrame

    def series(self, metric: str) -> Series | None:
        """Returns steps and finite values, from evaluations if no record has the metric."""
        if metric in self.steps.columns:
            values = self.steps.select("step", pl.col(metric).cast(pl.Float64).alias("value"))
        else:
            values = self.evals.filter(pl.col("name") == metric).select("step", "value")
        values = values.filter(pl.col("step").is_not_null() & pl.col("value").is_finite())
        values = values.unique("step", keep="last", maintain_order=True).sort("step")
        return (values["step"].to_numpy(), values["value"].to_numpy()) if values.height else None


def _sign(metric: str, asked: Mapping[str, columns.Direction]) -> int:
    """Returns 1 if more is worse, -1 if less is worse."""
    return 1 if columns.better_or_refuse(metric, asked) == "lower" else -1


def _within(log: Log, phase: str | None) -> _Run:
    in_phase = pl.col("phase") == phase
    return (
        _Run(retained(log.steps.filter(in_phase), log), retained(log.evals.filter(in_phase), log))
        if phase
        else _Run(log.steps.clear(), log.evals.clear())
    )


@dataclass(frozen=True)
class _Limit:
    """A limit of a metric; `sign` is 1 if more is worse, -1 if less is worse."""

    metric: str
    limit: float
    kind: Literal["regress", "target"]
    sign: int

    def unknown(self, why: str, steps: int = 0) -> GateResult:
        return GateResult(self.metric, self.limit, self.kind, "unknown", why, steps=steps)

    def judged(
        self, value: float, base: float, change: float, spread: Numbers, steps: int, why: str
    ) -> GateResult:
        """Judges a change, relative to the baseline and positive if it is worse, by its resampled `spread`."""
        edges = np.quantile(spread, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        low, high = (float(edge) for edge in edges)
        verdict: Verdict = "failed" if low > self.limit else "passed" if high <= self.limit else "unknown"
        if verdict == "unknown":
            why += "; too noisy to decide"
        return GateResult(
            self.metric, self.limit, self.kind, verdict, why, value, base, change, low, high, steps
        )


def _regress(limit: _Limit, run: _Run, baseline: _Run, warmup: int) -> GateResult:
    ours, theirs = run.series(limit.metric), baseline.series(limit.metric)
    if ours is None or theirs is None:
        who = "the run has" if ours is None else "the baseline has"
        return limit.unknown(f"{who} no {limit.metric}")
    if limit.metric not in run.steps.columns:
        return _by_evaluation(limit, ours, theirs)
    if columns.is_pace(limit.metric):
        return _by_pace(limit, ours, theirs, warmup)
    return _by_step(limit, ours, theirs, warmup)


def _by_pace(limit: _Limit, ours: Series, theirs: Series, warmup: int) -> GateResult:
    warm = [values[steps >= steps[0] + warmup] for steps, values in (ours, theirs)]
    fewest = min(map(len, warm))
    if fewest < FEWEST:
        return limit.unknown(_too_few(fewest), fewest)
    value, base = (float(np.median(values)) for values in warm)
    ratios = _medians(warm[0], 1) / _medians(warm[1], 2)
    change, spread = limit.sign * (value / base - 1), limit.sign * (ratios - 1)
    return limit.judged(value, base, change, spread, fewest, "medians")


def _by_step(limit: _Limit, ours: Series, theirs: Series, warmup: int) -> GateResult:
    shared, at, there = np.intersect1d(ours[0], theirs[0], return_indices=True)
    last = max(FEWEST, round(len(shared) * LAST_SHARE))
    late = np.flatnonzero(shared >= shared[0] + warmup)[-last:] if len(shared) else shared
    if len(late) < FEWEST:
        return limit.unknown(_too_few(len(late), "shared "), len(late))
    mine, base = ours[1][at][late], theirs[1][there][late]
    mean, base_mean = float(mine.mean()), float(base.mean())
    differences = limit.sign * (mine - base) / abs(base_mean)
    means = _resampled(_blocks(differences).mean(axis=1), 1).mean(axis=1)
    why = f"means of steps {shared[late[0]]} to {shared[late[-1]]}"
    return limit.judged(mean, base_mean, float(differences.mean()), means, len(late), why)


def _by_evaluation(limit: _Limit, ours: Series, theirs: Series) -> GateResult:
    shared, at, there = np.intersect1d(ours[0], theirs[0], return_indices=True)
    if not len(shared):
        return limit.unknown("no step was evaluated in both runs")
    value, base = float(ours[1][at[-1]]), float(theirs[1][there[-1]])
    change = limit.sign * (value - base) / abs(base)
    why = f"single evaluation, at step {shared[-1]}"
    return limit.judged(value, base, change, np.array([change]), len(shared), why)


def _target(goal: _Limit, run: _Run) -> GateResult:
    series = run.series(goal.metric)
    if series is None:
        return goal.unknown(f"the run has no {goal.metric}")
    steps, values = series
    best = int(np.argmin(goal.sign * values))
    value = float(values[best])
    verdict: Verdict = "passed" if goal.sign * (value - goal.limit) <= 0 else "failed"
    why = f"best at step {steps[best]}"
    return GateResult(goal.metric, goal.limit, goal.kind, verdict, why, value, steps=len(values))


def _too_few(steps: int, kind: str = "") -> str:
    return f"only {steps} {kind}steps after warm-up; {FEWEST} are needed"


def _medians(values: Numbers, seed: int) -> Numbers:
    """Returns medians of resampled block medians: nearly those of the steps, and far cheaper."""
    medians: Numbers = np.median(_resampled(np.median(_blocks(values), axis=1), seed), axis=1)
    return medians


def _resampled(blocks: Numbers, seed: int) -> Numbers:
    """Draws blocks with replacement: one row per resample."""
    chosen = np.random.default_rng(seed).integers(len(blocks), size=(RESAMPLES, len(blocks)))
    drawn: Numbers = blocks[chosen]
    return drawn


def _blocks(values: Numbers) -> Numbers:
    """Cuts values into blocks of the cube root of their number; a remainder at the start is dropped."""
    length = round(len(values) ** (1 / 3))
    return values[len(values) % length :].reshape(-1, length)
