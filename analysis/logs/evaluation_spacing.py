"""Evaluations that stand between two records, and how far they lie apart: often only one of the two can be meant.

One every 200 steps stands at 200, 400 and 600, and not at 250, 450 and 650, where records are 50 steps apart. Where
one stands below each record, the last included, each is of the record above it, also if the first record has none.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
import numpy.typing as npt
import polars as pl

LEAST = 3  # places, from which on their spacing says something
_SERIES = ("phase", "attempt", "name")
_BETWEEN = (pl.col("after") < pl.col("step")).fill_null(False)  # and not above the first record of an attempt


def placed(evals: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Gives evaluations the step of the record above them where only that can be meant."""
    if evals.filter(_BETWEEN).is_empty():
        return evals
    series = evals.group_by(_SERIES, maintain_order=True)
    steps = {key: {*rows["step"].drop_nulls()} for key, rows in records.group_by("phase", "attempt")}
    keys = [key for key, rows in series if _are_of_above(rows, steps.get(key[:2], set()))]
    of_above = pl.DataFrame(keys, {name: evals.schema[name] for name in _SERIES}, orient="row")
    marked = evals.join(of_above.with_columns(above=True), on=_SERIES, how="left", maintain_order="left")
    moved = _BETWEEN & marked["above"].fill_null(False)
    step = pl.when(moved).then("after").otherwise("step")
    return evals.with_columns(step=step, after=pl.when(~moved).then("after"))


def _are_of_above(rows: pl.DataFrame, steps: AbstractSet[int]) -> bool:
    """Whether the steps above are evenly apart and those below not, or are those of all records but the first.

    Of several between the same two records the later ones are not of the first.
    """
    nearest = rows.select(pl.min_horizontal("after", "step").unique(maintain_order=True))
    above = nearest.to_series().drop_nulls().to_numpy()
    between = rows.filter(_BETWEEN)
    below = between["step"].to_numpy()
    if len(above) < LEAST or not len(below) or (between["after"].diff() == 0).any():
        return False
    if steps and steps - {*above.tolist()} <= {min(steps)}:
        return True
    spacing = int(np.min(np.abs(np.diff(above))))
    return _are_multiples(above, spacing) and not _are_multiples(below, spacing)


def _are_multiples(steps: npt.NDArray[np.int64], spacing: int) -> bool:
    """Whether all are; steps may count from 0."""
    return bool((steps % spacing == 0).all() or ((steps + 1) % spacing == 0).all())
