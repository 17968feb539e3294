"""Runs of several sizes -> the scaling law of their losses, and the loss and cost of the next size.

A law of parameters N and tokens D needs sizes at several ratios of the two. At a single ratio they cannot be
separated, and the law is one of compute C. With too few sizes there is no law, and `why` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis import text
from gputel.analysis.columns import UNKNOWN_DIRECTION
from gputel.analysis.compare import power_law
from gputel.analysis.compare.curves import interpolated
from gputel.analysis.runs.facts import estimated_flops
from gputel.trainer.shape import Shape, shape_of

if TYPE_CHECKING:
    from gputel.analysis.columns import Direction
    from gputel.analysis.compare.axes import Prices
    from gputel.analysis.compare.curves import MetricCurve, RunPhase
    from gputel.analysis.compare.power_law import Interval, Law, Numbers

SIZES, RATIOS = 4, 3
SAME = 0.1  # relative; ratios of tokens to parameters that differ by less are the same
APART = 0.05  # decades by which tokens must vary independently of parameters
LAST = 0.01  # share of a run over which its final loss is averaged
MOST = 100
GRID = 400
FRONTIER = {"flops": pl.Float64, "value": pl.Float64, "run": pl.String}
BOTH, COMPUTE = ("parameters", "tokens"), ("flops",)
FIGURES = (
    "run",
    "depth",
    "parameters",
    "tokens",
    "flops",
    "time_s",
    "tok_per_sec",
    "mfu",
    "energy_j",
    "gpus",
)
POINTS = {name: pl.String if name == "run" else pl.Float64 for name in (*FIGURES, "loss", "frontier")} | {
    "frontier": pl.Boolean
}


@dataclass(frozen=True)
class Next:
    """The next size after the largest: its expected loss and cost, if it runs like the largest."""

    depth: int | None
    parameters: float
    tokens: float
    flops: float
    loss: Interval
    hours: float | None
    energy_j: float | None
    cost: float | None


@dataclass(frozen=True)
class Scaling:
    """The law, or why there is none. `points`: finished runs by parameters; `frontier`: best for their compute."""

    points: pl.DataFrame
    terms: tuple[str, ...]
    law: Law | None
    next: Next | None
    why: str | None  # why there is no law, or none of parameters and tokens
    unfinished: list[str]

    @property
    def formula(self) -> str:
        return "L = E + A/N^a + B/D^b" if self.terms == BOTH else "L = E + A/C^a"

    @property
    def constants(self) -> dict[str, Interval]:
        if self.law is None:
            return {}
        named = dict(zip(("A", "B"), self.law.factors)) | dict(zip(("a", "b"), self.law.exponents))  # noqa: B905
        return {"E": self.law.floor, **named}


def fit_scaling(
    lines: Sequence[MetricCurve], rows: pl.DataFrame, prices: Prices, better: Direction | None
) -> Scaling:
    """Fits the law; `rows` has a row per run (`summarize_runs`), `better` is the better direction of the metric."""
    ended = [curve for curve in lines if not _is_unfinished(curve.track)]
    unfinished = [curve.track.name for curve in lines if _is_unfinished(curve.track)]
    points = _points(ended, rows.filter(rows["run"].is_in([curve.track.name for curve in ended])), better)
    terms, why = _terms(points, unfinished)
    if better != "lower":
        wanted = "should rise" if better else f"may not be a loss: {UNKNOWN_DIRECTION}"
        terms, why = (), f"a scaling law needs a falling loss, and {lines[0].metric} {wanted}"
    if not terms:
        return Scaling(points, (), None, None, why, unfinished)
    law = power_law.fit(points.select(terms).to_numpy(), points["loss"].to_numpy())
    return Scaling(points, terms, law, _next(points, terms, law, ended, prices), why, unfinished)


def frontier(lines: Sequence[MetricCurve], window: float, better: Direction | None) -> pl.DataFrame:
    """Returns the best value at each compute over all runs with FLOPs, and its run.

    Empty if the better direction of the metric is unknown.
    """
    with_flops = [curve for curve in lines if better and "flops" in curve.track.costs]
    xs = [curve.x("flops") for curve in with_flops]
    spread = np.concatenate(xs) if xs else np.zeros(0)
    spread = spread[spread > 0]
    if not len(spread):
        return pl.DataFrame(schema=FRONTIER)
    compute = np.geomspace(spread.min(), spread.max(), GRID)
    values = np.array(
        [interpolated(x, curve.smoothed(window), compute) for x, curve in zip(xs, with_flops, strict=True)]
    )
    sign = 1 if better == "lower" else -1
    best = np.where(np.isnan(values), np.inf, sign * values).argmin(axis=0)
    columns = {
        "flops": compute,
        "value": values[best, np.arange(GRID)],
        "run": [with_flops[i].track.name for i in best],
    }
    return pl.DataFrame(columns, schema=FRONTIER).fill_nan(None).drop_nulls()


def final(curve: MetricCurve) -> tuple[float, float]:
    """Returns the mean loss of the last 1 % of a run (one record is noisy), and its mean completed steps."""
    steps = max(1, min(MOST, round(LAST * float(np.ptp(curve.step))))) if len(curve.step) else 1
    last = curve.step > curve.step[-1] - steps
    return float(curve.y[last].mean()), float(curve.done[last].mean())


def _is_unfinished(track: RunPhase) -> bool:
    """Returns whether a run is unfinished, by its printed total, else by its status."""
    log, rows = track.subject.log, track.rows
    total = rows["total_steps"].drop_nulls().last() if "total_steps" in rows.columns else None
    if total is None and len(log.places) == 1:
        total = log.config.get("total_steps")
    if total is None or not len(track.done):
        return log.status in ("failed", "interrupted", "running")
    return bool(track.done[-1] < float(total) * (1 - LAST))  # type: ignore[arg-type]


def _points(lines: Sequence[MetricCurve], summary: pl.DataFrame, better: Direction | None) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for curve, row in zip(lines, summary.select(FIGURES).iter_rows(named=True), strict=True):
        loss, done = final(curve)
        steps_done = np.array([done])
        for name in ("tokens", "flops"):
            row[name] = float(curve.track.at(name, steps_done)[0]) if name in curve.track.costs else None
        if row["parameters"] and row["tokens"]:
            row["flops"] = row["flops"] or estimated_flops(row["parameters"]) * row["tokens"]
            rows.append({**row, "loss": loss})
    frame = pl.DataFrame(rows, schema=POINTS).sort("parameters", "tokens")
    if better is None:
        return frame
    value = pl.col("loss") if better == "lower" else -pl.col("loss")
    best = value.cum_min().shift(1, fill_value=float("inf"))
    by_compute = frame.sort(pl.col("flops"), value).with_columns(frontier=value <= best)
    return by_compute.sort("parameters", "tokens")


def _terms(points: pl.DataFrame, unfinished: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """Returns the terms of the law, and why they are not parameters and tokens."""
    sizes = _distinct(points["parameters"].to_numpy())
    if sizes < SIZES:
        why = f"a law needs {SIZES} sizes with known parameters and tokens; there are {sizes}"
        excluded = (
            f"; not counted, as still running or cut off: {text.names(unfinished)}" if unfinished else ""
        )
        return (), why + excluded
    ratios = _distinct((points["tokens"] / points["parameters"]).to_numpy())
    if ratios < RATIOS:
        at = "one ratio" if ratios == 1 else f"only {ratios} ratios"
        return COMPUTE, f"with {at} of tokens to parameters the two cannot be separated: a law of compute"
    if points.height <= power_law.parameters(len(BOTH)):
        return (
            COMPUTE,
            f"{points.height} runs are too few for a law of parameters and tokens: a law of compute",
        )
    if _tied(points):
        return COMPUTE, "tokens follow from parameters, so the two cannot be separated: a law of compute"
    return BOTH, None


def _distinct(values: Numbers) -> int:
    """Counts distinct values; values within a tenth of each other are one."""
    logs = np.sort(np.log(values))
    return 0 if not len(logs) else 1 + int((np.diff(logs) > np.log1p(SAME)).sum())


def _tied(points: pl.DataFrame) -> bool:
    parameters, tokens = (np.log10(points[name].to_numpy()) for name in BOTH)
    along = np.polyfit(parameters, tokens, 1)
    return bool(np.std(tokens - np.polyval(along, parameters)) < APART)


def _next(
    points: pl.DataFrame, terms: Sequence[str], law: Law, lines: Sequence[MetricCurve], prices: Prices
) -> Next:
    largest = points.row(-1, named=True)
    depth, parameters, per_token = _one_size_on(points, lines)
    tokens = parameters * largest["tokens"] / largest["parameters"]
    flops = tokens * per_token
    asked = {"parameters": parameters, "tokens": tokens, "flops": flops}
    work = flops / largest["flops"]
    hours = None if largest["time_s"] is None else largest["time_s"] / 3600 * work
    joules = None if largest["energy_j"] is None else largest["energy_j"] * work
    rent = _product(prices.hour, hours, largest["gpus"])
    power = _product(prices.kwh, joules, 1 / text.JOULES_PER_KWH)
    wanted = [cost for price, cost in ((prices.hour, rent), (prices.kwh, power)) if price is not None]
    cost = sum(wanted) if wanted and None not in wanted else None  # type: ignore[arg-type]
    loss = law.predict(np.array([asked[name] for name in terms]))
    return Next(depth, parameters, tokens, flops, loss, hours, joules, cost)


def _one_size_on(points: pl.DataFrame, lines: Sequence[MetricCurve]) -> tuple[int | None, float, float]:
    """Returns depth, parameters and FLOPs per token of the next size: by shape, else by growth so far."""
    last = points.row(-1, named=True)
    before = points.filter(points["parameters"] * (1 + SAME) < last["parameters"]).row(-1, named=True)
    per_token = [row["flops"] / row["tokens"] for row in (before, last)]
    depth = None
    growth = last["parameters"] / before["parameters"]
    if None not in (before["depth"], last["depth"]) and last["depth"] > before["depth"]:
        depth = int(2 * last["depth"] - before["depth"])
        shape = _shape(depth, points, lines)
        if shape:
            return depth, float(shape.parameters), float(shape.flops_per_token)
        power = np.log(growth) / np.log(last["depth"] / before["depth"])
        growth = (depth / last["depth"]) ** power
    steeper = np.log(per_token[1] / per_token[0]) / np.log(last["parameters"] / before["parameters"])
    return depth, last["parameters"] * growth, per_token[1] * growth**steeper


def _shape(depth: int, points: pl.DataFrame, lines: Sequence[MetricCurve]) -> Shape | None:
    """Returns the next shape of the reference trainer, if every run matches one of its shapes."""
    facts = lines[0].track.subject.facts
    if facts.vocab is None or points["depth"].null_count():
        return None
    vocab = int(facts.vocab.value)
    first = points.row(0, named=True)
    small = shape_of(int(first["depth"]), vocab=vocab, seq=0)
    seq = (first["flops"] / first["tokens"] - small.flops_per_token) / (12 * small.depth * small.dim)
    for row in points.iter_rows(named=True):
        shape = shape_of(int(row["depth"]), vocab=vocab, seq=round(seq))
        off = abs(shape.flops_per_token / (row["flops"] / row["tokens"]) - 1)
        if shape.parameters != row["parameters"] or off > 1e-3:
            return None
    return shape_of(depth, vocab=vocab, seq=round(seq))


def _product(*values: float | None) -> float | None:
    factors = [value for value in values if value is not None]
    return float(np.prod(factors)) if len(factors) == len(values) else None
