"""Attempts: which rows of a log led to its end.

Those of the last attempt, before its first step those of the attempt that it resumed, and so on. The others were
rolled back, or belong to trainings that ran before in the same log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.logs.signs import BEGIN_AGAIN

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log

PLACE = ("phase", "attempt")


def retained(rows: pl.DataFrame, log: Log) -> pl.DataFrame:
    """Returns the rows that led to the end of their phase; rows without a step are kept.

    An evaluation at the very step from which an attempt went on was made before it, unless the attempt repeats it.
    """
    if all(attempt == 1 for _, attempt in log.places):
        return rows
    begins = _begins(log)
    later = pl.col("begin").reverse().cum_min().reverse().shift(-1).over("phase")
    ends = begins.sort("attempt").with_columns(until=later, anew=later <= pl.col("begin").min().over("phase"))
    at = _position(log, rows)
    if at is None:
        return rows
    limit = pl.col("until")
    placed = rows.join(ends.select(*PLACE, "until", "anew"), on=PLACE, how="left", maintain_order="left")
    led = at < limit
    if "name" in rows.columns:  # evaluations; records may have a metric called `value`
        is_last = pl.col("attempt") == pl.col("attempt").max().over("phase", "name", "step")
        led |= (at == limit) & ~pl.col("anew") & is_last
    return rows.filter(placed.select(led.fill_null(value=True)).to_series())


def _begins(log: Log) -> pl.DataFrame:
    """Returns the position at which each attempt begins: by its records, else by its evaluations.

    It is null for an attempt of a single step that no line announces: that one line may be a stray number.
    """
    parts = []
    for rows in (log.measured, log.evals):
        at = _position(log, rows)
        if at is not None:
            known = rows.filter(pl.col("step").is_not_null())
            parts.append(
                known.group_by(PLACE).agg(
                    at.min().alias("begin"), (at.n_unique() == 1).alias("single"), pl.col("line").min()
                )
            )
    begins = pl.concat(parts).unique(PLACE, keep="first", maintain_order=True)
    guessed = log.events.filter((pl.col("kind") == "restart") & (pl.col("text") == BEGIN_AGAIN))["line"]
    is_stray = pl.col("single") & pl.col("line").is_in(guessed.to_list())
    return begins.select(*PLACE, begin=pl.when(~is_stray).then("begin"))


def _position(log: Log, rows: pl.DataFrame) -> pl.Expr | None:
    """Returns what grows along a training: the step, or epoch and step where steps begin again in each epoch."""
    step = pl.col("step").cast(pl.Float64)
    if not log.counts_within_epochs:
        return step
    longest = float(log.records["step"].max() or 0) + 1  # type: ignore[arg-type]
    return pl.col("epoch") * longest + step if "epoch" in rows.columns else None
