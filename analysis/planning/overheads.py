"""What a run did besides its steps, from the stamps of its lines: seconds to start, to evaluate, to save.

The time before a line belongs to what the line reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.parse.log import Log

SETTLED = 10
"""Steps after which compiling and warming up are over."""


@dataclass(frozen=True)
class Overheads:
    """None where the log has no stamps."""

    start_s: float | None
    evaluations: int
    evaluation_s: float | None
    checkpoints: int
    checkpoint_s: float | None

    @property
    def eval_hours(self) -> float | None:
        return None if self.evaluation_s is None else self.evaluations * self.evaluation_s / 3600

    @property
    def save_hours(self) -> float | None:
        return None if self.checkpoint_s is None else self.checkpoints * self.checkpoint_s / 3600


def overheads(log: Log) -> Overheads:
    stamped = _stamped(log)
    evaluations, checkpoints = _times(stamped, "eval"), _times(stamped, "checkpoint")
    return Overheads(
        _start_s(log),
        len(evaluations),
        sum(evaluations) / len(evaluations) if evaluations else None,
        len(checkpoints),
        sum(checkpoints) / len(checkpoints) if checkpoints else None,
    )


def settled(steps: pl.DataFrame) -> pl.DataFrame:
    """Without the first steps, where enough others are left."""
    return steps.slice(SETTLED) if steps.height >= 2 * SETTLED else steps.slice(steps.height // 2)


def _stamped(log: Log) -> pl.DataFrame:
    """Every line with a stamp, in order: what it reports, and the seconds since the one before."""
    import polars as pl

    frames = [
        log.records.select("line", "time", pl.lit("step").alias("kind")),
        log.evals.select("line", "time", pl.lit("eval").alias("kind")),
        log.events.filter(pl.col("kind") == "checkpoint").select("line", "time", "kind"),
    ]
    lines = pl.concat(frames).filter(pl.col("time").is_not_null()).sort("line").unique("line", keep="first")
    since = pl.col("time").diff().dt.total_nanoseconds() / 1e9
    return lines.sort("line").with_columns(since.alias("seconds"), pl.col("kind").shift(1).alias("before"))


def _times(stamped: pl.DataFrame, kind: str) -> list[float]:
    """A figure per evaluation or checkpoint; lines of one that follow each other are one."""
    import polars as pl

    mine = stamped.filter(pl.col("seconds").is_not_null() & (pl.col("kind") == kind))
    return [
        float(seconds)
        for seconds, before in mine.select("seconds", "before").iter_rows()
        if before != kind and seconds >= 0
    ]


def _start_s(log: Log) -> float | None:
    """From the start of the process until the first step is done, less an ordinary step."""
    steps = log.steps
    first: Any = log.records["time"].drop_nulls().first()
    if first is None or log.started is None or "dt_ms" not in steps.columns:
        return None
    usual: Any = settled(steps)["dt_ms"].median()
    return None if usual is None else max(0.0, first.timestamp() - log.started / 1e9 - usual / 1e3)
