"""Which settings of a sweep matter for a figure: adjusted η² of the figure's ranks in bins of a setting.

It is compared with shuffles of the same runs. Few runs say nothing, and settings that move together cannot be told
apart: both are said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEAST_RUNS = 16
BINS = 6
SHUFFLES = 200
CHANCE = 0.01  # share of shuffles that may explain as much
TOGETHER = 0.7  # correlation from which two settings are not told apart
SEED = 1

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Importance:
    """`explained`: the share of the order of runs that a setting explains; `chance`: of shuffles that reach it."""

    setting: str
    runs: int
    values: int
    explained: float
    chance: float
    together: tuple[str, ...] = ()

    @property
    def is_clear(self) -> bool:
        return self.chance <= CHANCE


def importance(
    target: Sequence[float | None], settings: Mapping[str, Sequence[float | str | None]]
) -> list[Importance]:
    """The settings that differ between at least 16 runs with the figure, the most important first."""
    known = np.array([value is not None and np.isfinite(value) for value in target], dtype=bool)
    figures = np.array([value if value is not None else np.nan for value in target], dtype=float)
    found, bins = [], {}
    for name, values in settings.items():
        rows = known & np.array([value is not None for value in values], dtype=bool)
        chosen = [value for value, kept in zip(values, rows, strict=True) if kept]
        count = len(set(chosen))
        if len(chosen) < LEAST_RUNS or count < 2 or _is_name(chosen):
            continue
        bins[name] = (rows, _bins(chosen))
        explained, chance = _explained(_ranks(figures[rows]), bins[name][1])
        found.append(Importance(name, len(chosen), count, explained, chance))
    found.sort(key=lambda each: -each.explained)
    return [
        Importance(one.setting, one.runs, one.values, one.explained, one.chance, _together(one.setting, bins))
        for one in found
    ]


def _is_name(values: Sequence[float | str | None]) -> bool:
    """Whether texts differ so much that they name runs rather than group them."""
    return any(isinstance(value, str) for value in values) and 2 * len(set(values)) > len(values)


def _ranks(values: Floats) -> Floats:
    """Ranks from 0; equal values share their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return np.asarray((ends - (count + 1) / 2)[place], dtype=float)


def _bins(values: Sequence[float | str | None]) -> Places:
    """The bin of each value: numbers in six quantiles, texts by themselves, the rarest in one."""
    if any(isinstance(value, str) for value in values):
        names, place, count = np.unique(
            [str(value) for value in values], return_inverse=True, return_counts=True
        )
        order = np.argsort(np.argsort(-count, kind="stable"))
        return np.minimum(order, BINS - 1)[place] if len(names) > BINS else place
    numbers = np.array(values, dtype=float)
    distinct, place = np.unique(numbers, return_inverse=True)
    if len(distinct) <= BINS:
        return place
    return np.minimum((_ranks(numbers) * BINS / len(numbers)).astype(np.intp), BINS - 1)


def _explained(ranks: Floats, places: Places) -> tuple[float, float]:
    """Adjusted η², and the share of shuffles that reach it."""
    draw = np.random.default_rng(SEED)
    centered = ranks - ranks.mean()
    shuffled = np.stack([centered, *(draw.permutation(centered) for _ in range(SHUFFLES))])
    member = places[:, None] == np.unique(places)[None, :]
    between = ((shuffled @ member) ** 2 / member.sum(axis=0)).sum(axis=1)
    whole = float((centered**2).sum())
    if not whole:
        return 0.0, 1.0
    count, groups = member.shape
    shares = between / whole
    adjusted = 1 - (1 - shares[0]) * (count - 1) / max(count - groups, 1)
    as_much = int((shares[1:] >= shares[0] * (1 - 1e-12)).sum())
    return max(float(adjusted), 0.0), (1 + as_much) / (1 + SHUFFLES)


def _together(name: str, bins: Mapping[str, tuple[npt.NDArray[np.bool_], Places]]) -> tuple[str, ...]:
    """The other settings whose bins say which bin of this one a run is in."""
    return tuple(
        other for other in bins if other != name and _association(bins[name], bins[other]) > TOGETHER
    )


def _association(
    one: tuple[npt.NDArray[np.bool_], Places], other: tuple[npt.NDArray[np.bool_], Places]
) -> float:
    """Cramér's V of the runs that have both, corrected for its bias."""
    rows = one[0] & other[0]
    first, second = one[1][rows[one[0]]], other[1][rows[other[0]]]
    count = len(first)
    if count < LEAST_RUNS:
        return 0.0
    table = np.zeros((BINS, BINS))
    np.add.at(table, (first, second), 1)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    down, across = (size - 1 for size in table.shape)
    if not down or not across:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / count
    phi = max(((table - expected) ** 2 / expected).sum() / count - down * across / (count - 1), 0.0)
    least = min(down - down**2 / (count - 1), across - across**2 / (count - 1))
    return float(np.sqrt(phi / least)) if least > 0 else 0.0
