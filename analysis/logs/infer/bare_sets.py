"""Figures named by a set alone, `Train: 0.81, Val: 0.72`: losses, or scores, which rise where a loss falls."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from gputel.analysis.logs.infer.counters import integers, numbers
from gputel.analysis.logs.infer.dialects import SETS
from gputel.analysis.logs.infer.named import PLACES, Named
from gputel.analysis.logs.infer.shapes import LineShape

_LEARN = "learn"
_FEW = 4  # values, from which on they rise or fall
CLEAR = 0.5  # of all pairs: values rise or fall, and do not only vary
_PERCENT = 20  # the highest of them is no loss that diverges


def with_bare_sets(cells: list[Named], shape: LineShape) -> list[Named]:
    """Calls bare sets scores where a loss has a name, or where that of the training rises as shares do.

    Else all are losses if one is; so is `dev` or `eval` beside the training set, `train 2.5, dev 2.75`.
    """
    bare = [cell for cell in cells if cell.column and is_set(cell.source)]
    if len(bare) > 1 and _give_scores(bare, cells, shape):
        return [replace(c, column=f"{_set_of(c)}_score") if c in bare else c for c in cells]
    trains = any(cell.column == "loss" and cell.source.lower().startswith("train") for cell in cells)
    held_out = [cell for cell in cells if cell.column and cell.source.lower() in ("dev", "eval")][:1]
    if trains and held_out and not any(cell.column == "val_loss" for cell in cells):
        return [replace(cell, column="val_loss") if cell in held_out else cell for cell in cells]
    more = [cell for cell in bare if cell.column == "val_loss"][1:]
    return [replace(c, column=f"{c.source.lower()}_loss") if c in more else c for c in cells]


def _give_scores(bare: Sequence[Named], cells: Sequence[Named], shape: LineShape) -> bool:
    trained = next((cell for cell in bare if cell.source.lower().startswith(("train", _LEARN))), None)
    if trained is None:
        return False
    names_loss = any(cell.column == "loss" and "loss" in cell.source.lower() for cell in cells)
    values = numbers(shape.column(trained.at))
    place = next((cell for cell in cells if cell.column in PLACES), None)
    counts = integers(shape.column(place.at)) if place else None
    return names_loss or (are_shares(values) and trend(values, counts or ()) > CLEAR)


def _set_of(cell: Named) -> str:
    name = cell.source.lower()
    return "train" if name == _LEARN else name


def is_set(name: str) -> bool:
    """Whether a printed name is that of a set and of nothing else; boosters print `learn: 0.81`."""
    return name.lower() in {*SETS, _LEARN}


def are_shares(values: Sequence[float]) -> bool:
    """Whether they may be shares, or such in percent."""
    return len(values) >= _FEW and min(values) >= 0 and (max(values) <= 1 or _PERCENT < max(values) <= 100)


def trend(values: Sequence[float], counts: Sequence[int] = ()) -> float:
    """How much more often a value of the second half is above one of the first than below it, from -1 to 1.

    A training begins where `counts` fall; each has halves of its own.
    """
    turns = [at for at, (a, b) in enumerate(pairwise(counts), 1) if b < a]
    runs = [values[first:last] for first, last in pairwise([0, *turns, len(values)])]
    halves = [(sorted(run[: len(run) // 2]), run[len(run) // 2 :]) for run in runs if len(run) >= _FEW]
    pairs = sum(len(first) * len(second) for first, second in halves)
    above = sum(
        bisect_left(first, value) + bisect_right(first, value) - len(first)
        for first, second in halves
        for value in second
    )
    return above / pairs if pairs else 0.0
