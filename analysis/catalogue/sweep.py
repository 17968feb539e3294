"""Runs with the settings in which they differ, and which of these matter for a figure: for the page of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gputel.analysis.catalogue import groups, questions
from gputel.analysis.catalogue.answer import RunsQuestion, columns_of
from gputel.analysis.catalogue.questions import RunRows

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
MOST_SETTINGS = 10
LEAST_RUNS = 16
BINS = 6
SHUFFLES = 200
CHANCE = 0.01  # share of shuffles that may explain as much
TOGETHER = 0.7  # correlation from which on two settings move together
SEED = 1

TARGETS = ("val_loss_min", "val_bpb_min", "loss")
NO_FIGURES = ("started", "ended", "run", "path")


@dataclass(frozen=True)
class Sweep:
    """`found` begins with the run's name and its settings; `target` is the figure that they matter for, if any.

    `why_not` says why no setting is known to matter.
    """

    found: RunRows
    target: str
    matter: Sequence[Importance]

    @property
    def why_not(self) -> str:
        if self.matter:
            return ""
        if len(self.found.paths) < LEAST_RUNS:
            few = f"{len(self.found.paths)} runs are too few"
            return f"{few}: {LEAST_RUNS} are needed to tell a setting from chance"
        return f"no setting that differs is known for {LEAST_RUNS} or more runs with {self.target}"


def sweep(question: RunsQuestion, file: Path) -> Sweep:
    """The runs of a question with the settings in which they differ; sorting by a figure makes it the target."""
    columns = columns_of(question)
    asked = [name for word in question.sort if (name := word.lstrip("-")) not in NO_FIGURES]
    with questions.reading(file) as connection:
        names = ["path", *columns, *asked[:1], *TARGETS]
        found = questions.rows_of(
            connection, names, question.where, question.sort, question.places, question.limit
        )
        by_path = questions.settings(connection)
    paths = [row[0] for row in found.rows]
    figures = {name: [row[at] for row in found.rows] for at, name in enumerate(names)}
    target = next((name for name in (*asked[:1], *TARGETS) if _is_figure(figures[name])), "")
    settings = _differing([by_path.get(path, {}) for path in paths])
    matter = importance(figures[target], settings) if target else []
    order = [*(each.setting for each in matter), *settings]
    repeated = {name for name, cells in settings.items() if figures.get(name.partition(".")[2]) == cells}
    mattering = {each.setting for each in matter}
    shown = [
        name
        for name in dict.fromkeys(order)
        if name not in repeated
        and _is_short(settings[name])
        and (name in mattering or _is_of_most(settings[name]))
    ][:MOST_SETTINGS]
    heads = _heads(shown, columns)
    more = [target] if target and target not in columns else []
    first, rest = columns[:1], [*columns[1:], *more]
    if not question.columns:
        rest = [name for name in rest if any(cell is not None for cell in figures[name])]
    cells = [
        *(figures[name] for name in first),
        *(settings[name] for name in shown),
        *(figures[n] for n in rest),
    ]
    rows = RunRows([*first, *heads, *rest], list(zip(*cells, strict=True)), paths)
    return Sweep(rows, target, matter)


def _is_figure(cells: Sequence[Any]) -> bool:
    """Whether at least half of the runs have a number."""
    return 0 < len(cells) <= 2 * sum(isinstance(cell, (int, float)) for cell in cells)


def _differing(settings: Sequence[Mapping[str, float | str]]) -> dict[str, list[float | str | None]]:
    """The settings with at least two values, but for those that name a run."""
    names = dict.fromkeys(name for each in settings for name in each if not groups.SEEDS.search(name))
    values = {name: [each.get(name) for each in settings] for name in names}
    return {
        name: cells for name, cells in values.items() if len({cell for cell in cells if cell is not None}) > 1
    }


def _is_of_most(cells: Sequence[float | str | None]) -> bool:
    """Whether at least half of the runs state it: in a folder of many programs a setting is of a few."""
    return 2 * sum(cell is not None for cell in cells) >= len(cells)


def _is_short(cells: Sequence[float | str | None]) -> bool:
    return all(len(cell) <= 40 for cell in cells if isinstance(cell, str))


def _heads(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """`lr` of `config.lr`, unless a fact or another setting is called so, too."""
    bare = [name.partition(".")[2] for name in names]
    return [
        short if bare.count(short) == 1 and short not in taken else name
        for name, short in zip(names, bare, strict=True)
    ]


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
    """The settings that differ between at least 16 runs with the figure, the most important first.

    By adjusted η² of ranks in bins of a setting, compared with shuffles of the same runs. Settings that
    move together cannot be told apart, and say so.
    """
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
