"""What each step cost -> panels: energy and power of a step, joules a token, by time and by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from gputel.analysis.align.join import JOULES
from gputel.analysis.document import Axis, Curves, Mark, Numbers, Series

COSTS = (
    ("energy-per-step", "Energy of a step", "J", JOULES),
    ("energy-per-token", "Energy of a token", "J", pl.col("j_per_token")),
)


def panels(
    steps: pl.DataFrame, time: Axis, run: str, marks: Sequence[Mark] = (), link: str = "recording"
) -> Iterator[Curves]:
    """`steps` as `align.per_step` has them. A step lies where it ended."""
    if steps.is_empty() or time.start_ns is None:
        return
    x = {
        "time": np.round((steps["end"].dt.epoch("ns").to_numpy() - time.start_ns) / 1e9, 3),
        "step": _numbers(steps["step"]),
    }
    for name, title, unit, column in COSTS:
        y = _numbers(steps.select(column.alias("value"))["value"])
        if np.isfinite(y).any():
            axes = (time, Axis("step", "step"))
            series = (Series(run, x, y, run=run),)
            curves = Curves(name, title, axes, Axis(name, title, unit), series, tuple(marks))
            yield replace(curves, noisy=True, steady=True, link=link)


def _numbers(column: pl.Series) -> Numbers:
    numbers: Numbers = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return numbers
