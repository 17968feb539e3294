"""Evaluations that stand between two records, and how far they lie apart: often only one of the two can be meant.

One every 200 steps stands at 200, 400 and 600, and not at 250, 450 and 650, where records are 50 steps apart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

LEAST = 3  # places, from which on their spacing says something
_SERIES = ("phase", "attempt", "name")


def placed(evals: pl.DataFrame) -> pl.DataFrame:
    """Gives evaluations the step of the record above them where only these steps are evenly apart."""
    if evals["after"].null_count() == evals.height:
        return evals
    series = evals.group_by(_SERIES, maintain_order=True)
    keys = [key for key, rows in series if _are_of_above(rows)]
    of_above = pl.DataFrame(keys, {name: evals.schema[name] for name in _SERIES}, orient="row")
    found = evals.join(of_above.with_columns(found=True), on=_SERIES, how="left", maintain_order="left")[
        "found"
    ]
    moved = found.fill_null(False) & evals["after"].is_not_null()
    step = pl.when(moved).then("after").otherwise("step")
    return evals.with_columns(step=step, after=pl.when(~moved).then("after"))


def _are_of_above(rows: pl.DataFrame) -> bool:
    """Whether the steps above are evenly apart and those below not; one below the last record has no other."""
    above = rows.select(pl.coalesce("after", "step").unique(maintain_order=True)).to_series().drop_nulls()
    below = rows.filter(pl.col("after").is_not_null())["step"].to_numpy()
    if len(above) < LEAST or not len(below):
        return False
    spacing = int(np.min(np.abs(np.diff(above.to_numpy()))))
    return _are_multiples(above.to_numpy(), spacing) and not _are_multiples(below, spacing)


def _are_multiples(steps: npt.NDArray[np.int64], spacing: int) -> bool:
    """Whether all are; steps may count from 0."""
    return bool((steps % spacing == 0).all() or ((steps + 1) % spacing == 0).all())
