"""Where the time and the energy of a run went -> bars by kind: start, training, evaluation, checkpoint, idle."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from gputel.analysis.align.join import JOULES
from gputel.analysis.document import Bars

NAMES = {"train": "training", "eval": "evaluation"}


def panels(totals: pl.DataFrame, run: str) -> Iterator[Bars]:
    """`totals` as `align.totals` has them; nothing where nothing was printed, or no energy was measured."""
    for name, title, unit, column in (
        ("time-spent", "Where the time went", "s", pl.col("duration_s")),
        ("energy-spent", "Where the energy went", "J", JOULES),
    ):
        values = totals.select(column.cast(pl.Float64).fill_null(float("nan")).alias("value"))[
            "value"
        ].to_numpy()
        if len(values) and np.nansum(values) > 0:
            yield Bars(name, title, unit, (run,), tuple(totals["kind"].to_list()), values[None, :])
