"""Steps that hooks in a training recorded -> what each rank's step consists of, and how much of it waits for data.

Means over all steps that were seen but a process's first and those with an evaluation within. Calls of backward and
of optimizers are the host's time; only the wait for data means the same on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.align.step_parts import PARTS, recorded

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

DATA_SHARE = "data_wait_share"


def step_shares(subject: RunData) -> pl.DataFrame:
    """A row a rank: `rank`, `steps`, the mean of each part, the share of the wait for data; null if not seen."""
    return shares_of_ranks(recorded(subject))


def shares_of_ranks(inside: pl.DataFrame) -> pl.DataFrame:
    """The same of a recording's steps, or of some of them."""
    seen = inside.filter(pl.col("step_ms").is_not_null() & ~pl.col("evaluates"))
    waited = pl.col("step_ms").filter(pl.col("data_wait_ms").is_not_null()).sum()
    share = pl.when(waited > 0).then(pl.col("data_wait_ms").sum() / waited)
    means = [pl.col(name).mean() for name in PARTS]
    return seen.group_by("rank").agg(pl.len().alias("steps"), *means, share.alias(DATA_SHARE)).sort("rank")


def longest_wait(shares: pl.DataFrame) -> tuple[float, str] | None:
    """The largest share that a rank waits for data, which the others wait for, too; and a sentence on it."""
    waits = shares.filter(pl.col(DATA_SHARE).is_not_null()).sort(DATA_SHARE, descending=True)
    if waits.is_empty():
        return None
    row = waits.row(0, named=True)
    whose = f"rank {row['rank']} spends waiting" if waits.height > 1 else "is spent waiting"
    seen = f"as seen from inside over {row['steps']:,} steps"
    return row[DATA_SHARE], f"{100 * row[DATA_SHARE]:.0f} % of a step {whose} for data, {seen}"


def printed_steps(steps: pl.DataFrame) -> tuple[int, int] | None:
    """The first and the last step of the log that is known from inside; None where the two stay apart."""
    joined = steps.filter(pl.col("data_wait_ms").is_not_null() | pl.col("optimizer_call_ms").is_not_null())
    edges = joined.select(first=(pl.col("step") - pl.col("steps") + 1).min(), last=pl.col("step").max())
    first, last = edges.row(0)
    return None if first is None else (first, last)
