"""Evaluations that records print until the next one is made -> each once, where it was printed first.

Records whose step is an epoch keep all: they may evaluate alike. So do records whose loss stands still as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from gputel.analysis.logs.rounding import decimals, is_of

LEAST = 4  # records, of which more than half print what was printed before
DIGITS = 3  # behind the point of a loss; with fewer it is alike by chance
_LOSS = re.compile(r"(?i)loss|nll|ppl|perplexity|bpb")


def without_repeats(evals: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """The evaluations, but for those that a record repeats."""
    if "loss" not in records.columns or not evals["line"].is_in(records["line"].implode()).sum() >= LEAST:
        return evals
    above = pl.col("value").shift(1).over("phase", "attempt", "rank", "name")
    beside = evals.with_columns(above=above).join(_going_on(records), on="line", maintain_order="left")
    lines = beside.group_by("line", maintain_order=True).agg("name", "value", "above", "goes_on")
    stale = [
        line
        for line, names, values, last, goes_on in lines.iter_rows()
        if goes_on[0] and any(map(_LOSS.search, names)) and _show(values, last)
    ]
    return evals.filter(~pl.col("line").is_in(stale)) if 2 * len(stale) > lines.height else evals


def _going_on(records: pl.DataFrame) -> pl.DataFrame:
    """Whether each record has another loss than the one before, and a step that is no epoch."""
    of_epoch = (pl.col("step") == pl.col("epoch")) if "epoch" in records.columns else pl.lit(False)
    moves = pl.col("loss") != pl.col("loss").shift(1).over("rank")
    return records.select("line", goes_on=(moves & ~of_epoch.fill_null(False)).fill_null(False))


def _show(values: Sequence[float], above: Sequence[float | None]) -> bool:
    """Whether each is the figure above of its name, with as many digits or fewer."""
    same = all(last is not None and is_of(last, value) for value, last in zip(values, above, strict=True))
    return same and max(map(decimals, values)) >= DIGITS
