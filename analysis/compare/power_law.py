"""Fits y = E + A / u^a + B / v^b ...: a floor and a falling power of each column of x, with 95 % intervals.

Variable projection: for given exponents, the floor and the factors are a linear problem, so only exponents are
searched, with a shrinking grid. None may be negative. Huber weights limit the influence of an outlier. Intervals
come from a parametric bootstrap: the law is fitted again to data drawn from it. With few points the noise itself is
uncertain, so the intervals widen.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.float64]

EXPONENTS = (0.01, 2.5)
HUBER = 1.345  # 95 % efficient without outliers
DRAWS = 200
LEVEL = (2.5, 97.5)
ROUNDS = 60
CLOSE = 1e-7
TINY = 1e-12


class Interval(NamedTuple):
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Law:
    """A fitted law. `draws`: floor, factors and exponents, one row per bootstrap; the first row is the fit."""

    draws: Numbers
    deviation: float
    freedom: int

    @property
    def powers(self) -> int:
        return int(self.draws.shape[1] - 1) // 2

    @property
    def floor(self) -> Interval:
        return _interval(self.draws[:, 0])

    @property
    def factors(self) -> list[Interval]:
        return [_interval(self.draws[:, 1 + k]) for k in range(self.powers)]

    @property
    def exponents(self) -> list[Interval]:
        return [_interval(self.draws[:, 1 + self.powers + k]) for k in range(self.powers)]

    def predict(self, x: Numbers, seed: int = 0) -> Interval:
        """Predicts one more run: the uncertainty of the law plus the noise of a run."""
        factors, exponents = np.split(self.draws[:, 1:], 2, axis=1)
        values = self.draws[:, 0] + (factors * np.asarray(x, float) ** -exponents).sum(axis=1)
        noise = np.random.default_rng(seed).standard_t(self.freedom, len(values)) * self.deviation
        noise[0] = 0.0
        return _interval(values + noise)


def parameters(powers: int) -> int:
    return 1 + 2 * powers


def fit(x: Numbers, y: Numbers, seed: int = 0) -> Law:
    """`x` has a column a power; at least one more row than the law has parameters."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    freedom = len(y) - parameters(x.shape[1])
    if freedom < 1:
        raise ValueError(f"{len(y)} points cannot tell a law of {parameters(x.shape[1])} parameters")
    middle, scale = np.exp(np.log(x).mean(axis=0)), float(np.mean(y))
    logs, scaled = np.log(x / middle), y / scale
    best, weights = _robust(logs, scaled, freedom)
    residuals = scaled - _values(logs, best)[0]
    deviation = float(np.sqrt((weights * residuals**2).sum() / freedom))
    draws = best
    if deviation > TINY:
        random = np.random.default_rng(seed)
        noise = deviation * np.sqrt(freedom / random.chisquare(freedom, (DRAWS, 1)))
        drawn = (scaled - residuals) + noise * random.standard_normal((DRAWS, len(y)))
        powers = x.shape[1]
        start = np.repeat(best[:, 1 + powers :], DRAWS, axis=0)
        draws = np.concatenate([best, _search(logs, drawn, np.ones(len(y)), start, 0.25)])
    return Law(_unscaled(draws, middle, scale), deviation * scale, freedom)


def _robust(logs: Numbers, y: Numbers, freedom: int) -> tuple[Numbers, Numbers]:
    """The fit, weighted until the weights agree with it."""
    weights = np.ones(len(y))
    middle = np.full((1, logs.shape[1]), np.mean(EXPONENTS))
    fits = _search(logs, y[None], weights, middle, (EXPONENTS[1] - EXPONENTS[0]) / 2, fine=25)
    for _ in range(ROUNDS):
        off = np.abs(y - _values(logs, fits)[0])
        spread = 1.4826 * float(np.median(off)) * np.sqrt(len(y) / freedom)
        if spread < TINY:
            break
        before, weights = weights, np.minimum(1.0, HUBER * spread / np.maximum(off, TINY))
        if np.allclose(before, weights, atol=1e-4):
            break
        fits = _search(logs, y[None], weights, fits[:, 1 + logs.shape[1] :], 0.25)
    return fits, weights


def _search(
    logs: Numbers, y: Numbers, weights: Numbers, center: Numbers, width: float, fine: int = 5
) -> Numbers:
    """Finds each row of `y` its best floor, factors, exponents; the grid moves on, or closes in on its middle."""
    powers = logs.shape[1]
    widths = np.full(len(y), width)
    best = np.empty((len(y), parameters(powers)))
    for _ in range(ROUNDS):
        steps = np.array(list(product(np.linspace(-1, 1, fine), repeat=powers)))
        tried = np.clip(center[:, None] + widths[:, None, None] * steps, *EXPONENTS)
        linear, squares = _projected(logs, y, weights, tried)
        at = np.arange(len(y)), squares.argmin(axis=1)
        center = tried[at]
        best = np.concatenate([linear[at], center], axis=1)
        inside = np.abs(steps[at[1]]).max(axis=1) < 1 - TINY
        bounded = np.isin(center, EXPONENTS).any(axis=1)
        widths = np.where(inside | bounded, widths * (0.5 if fine == 5 else 0.1), widths)
        fine = 5
        if widths.max() < CLOSE:
            break
    return best


def _projected(logs: Numbers, y: Numbers, weights: Numbers, exponents: Numbers) -> tuple[Numbers, Numbers]:
    """The best floor and factors for given exponents, none negative, and the sum of squares they leave."""
    powers = logs.shape[1]
    columns = np.exp(-exponents[:, :, None, :] * logs)
    least = np.full(exponents.shape[:2], np.inf)
    best = np.zeros((*exponents.shape[:2], 1 + powers))
    for floored, *used in product((True, False), *[(True, False)] * powers):
        if not any(used):
            continue
        chosen = columns[..., used]
        linear = _linear(chosen, y, weights, floored)
        left = y[:, None] - linear[..., :1] - np.einsum("bgnk,bgk->bgn", chosen, linear[..., 1:])
        squares = np.where((linear >= 0).all(axis=-1), (weights * left**2).sum(axis=-1), np.inf)
        better = squares < least
        least = np.where(better, squares, least)
        best[better] = 0.0
        best[..., [True, *used]] = np.where(better[..., None], linear, best[..., [True, *used]])
        if np.isfinite(least).all() and floored and all(used):
            break  # nothing had to be left out
    return best, least


def _linear(columns: Numbers, y: Numbers, weights: Numbers, floored: bool) -> Numbers:
    """Weighted least squares of the floor (0 where there is to be none) and a factor a column."""
    share = weights / weights.sum()
    means = (
        np.einsum("bgnk,n->bgk", columns, share)
        if floored
        else np.zeros(columns.shape[:2] + columns.shape[3:])
    )
    mean = y @ share if floored else np.zeros(len(y))
    centred, target = columns - means[:, :, None], (y - mean[:, None])[:, None]
    gram = np.einsum("bgni,n,bgnj->bgij", centred, weights, centred)
    size = np.trace(gram, axis1=-2, axis2=-1)[..., None, None]
    gram = gram + (size * 1e-15 + 1e-300) * np.eye(columns.shape[-1])
    right = np.einsum("bgni,n,bgn->bgi", centred, weights, np.broadcast_to(target, centred.shape[:3]))
    factors = np.linalg.solve(gram, right[..., None])[..., 0]
    floor = mean[:, None] - (means * factors).sum(axis=-1)
    return np.concatenate([floor[..., None], factors], axis=-1)


def _values(logs: Numbers, fits: Numbers) -> Numbers:
    factors, exponents = np.split(fits[:, 1:], 2, axis=1)
    values: Numbers = fits[:, :1] + np.einsum("bnk,bk->bn", np.exp(-exponents[:, None] * logs), factors)
    return values


def _unscaled(draws: Numbers, middle: Numbers, scale: float) -> Numbers:
    factors, exponents = np.split(draws[:, 1:], 2, axis=1)
    return np.concatenate([draws[:, :1] * scale, factors * scale * middle**exponents, exponents], axis=1)


def _interval(draws: Numbers) -> Interval:
    low, high = np.percentile(draws[1:], LEVEL) if len(draws) > 1 else (draws[0], draws[0])
    return Interval(float(draws[0]), float(low), float(high))
