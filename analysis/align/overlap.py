"""How a run's spans and its telemetry lie to each other: what they share, and what is idle at the ends.

A table and a log that were never recorded together may not overlap at all; most often one of the two is in local
time, which shows as a shift by whole quarters of an hour.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from gputel.telemetry.clock import SECOND, iso

QUARTER_NS = 900 * SECOND
FARTHEST = 56  # quarters of an hour: no two places on Earth are farther apart than 26 h, hardly any than 14


def of(spans: pl.DataFrame, sampled: tuple[int, int] | None) -> dict[str, Any] | None:
    """Both stretches of time, what they share, and `offset_s`, the shift of zones that would make them overlap.

    `sampled` is the first and the last moment of the readings.
    """
    if sampled is None or spans.is_empty():
        return None
    run = _edges(spans)
    shared = max(0, min(run[1], sampled[1]) - max(run[0], sampled[0]))
    length = run[1] - run[0]
    return {
        "log": [iso(moment) for moment in run],
        "gpu": [iso(moment) for moment in sampled],
        "shared_s": shared / 1e9,
        "share": shared / length if length else None,
        "offset_s": None if shared else _zone(run, sampled),
    }


def cut(spans: pl.DataFrame) -> pl.DataFrame:
    """Without idle spans at its ends."""
    node = ["node"] if "node" in spans.columns else []
    busy = pl.col("kind") != "idle"
    before, after = busy.cum_sum() > 0, busy.reverse().cum_sum().reverse() > 0
    kept = before & after
    return spans.filter(kept.over(node) if node else kept)


def widened(spans: pl.DataFrame, sampled: tuple[int, int] | None) -> pl.DataFrame:
    """With idle spans before and after it, as far as telemetry reaches."""
    if sampled is None or spans.is_empty() or "node" in spans.columns:
        return spans
    (first, last), (begun, ended) = _edges(spans), sampled
    edges = [(begun, first), (last, ended)]
    ends = [
        spans.head(1).with_columns(
            pl.lit("idle").alias("kind"),
            pl.lit(0, pl.Int64).alias("steps"),
            pl.lit(None, pl.Int64).alias("step"),
            pl.lit(None, pl.String).alias("text"),
            pl.lit(start).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC").alias("start"),
            pl.lit(end).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC").alias("end"),
        )
        if end > start
        else spans.clear()
        for start, end in edges
    ]
    return pl.concat([ends[0], spans, ends[1]])


def _edges(spans: pl.DataFrame) -> tuple[int, int]:
    begun, ended = spans.select(
        pl.col("start").min().dt.epoch("ns").alias("begun"), pl.col("end").max().dt.epoch("ns").alias("ended")
    ).row(0)
    return int(begun), int(ended)


def _zone(run: tuple[int, int], sampled: tuple[int, int]) -> float | None:
    """The least shift of the samples, in quarters of an hour, after which one stretch holds the other."""
    lowest, highest = sorted((run[0] - sampled[0], run[1] - sampled[1]))
    quarters = [n for n in range(-FARTHEST, FARTHEST + 1) if n and lowest <= n * QUARTER_NS <= highest]
    best = min(quarters, key=lambda n: (n % 4 != 0, abs(n)), default=None)
    return None if best is None else best * QUARTER_NS / SECOND
