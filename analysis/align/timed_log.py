"""A log whose lines have times."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from gputel.analysis.logs.outcome import SaveEnd
from gputel.telemetry.clock import SECOND

WHOLE_SECOND = 1.0  # resolution of most timestamps in logs, in s


@dataclass(frozen=True)
class TimedLog:
    """A log's tables, every row with its `time`; `how` says where the times come from; None if unknown.

    `uncertainty_s` is how far off a line may be, None if unknown. `resolution_s` is the smallest difference between
    two times, 0 of a recorder's and of printed step times. Without timestamps (`stamped`), only the length of steps
    is known. `late_error_s` is how far off a line may be that came late, moved or not. `brief`: most evaluations
    and checkpoints take about as long as the resolution, so a time of one means little. `dt_digit_ms` is what the
    last printed digit of step times stands for, 0 if unknown. `last_save` says when the log's last save ended.
    """

    records: pl.DataFrame
    evals: pl.DataFrame
    events: pl.DataFrame
    how: str | None
    uncertainty_s: float | None
    stamped: bool = True
    resolution_s: float = 0.0
    late_error_s: float = 0.0
    brief: bool = False
    dt_digit_ms: float = 0.0
    last_save: SaveEnd | None = None

    @property
    def cut_ns(self) -> int:
        """How much the clock cuts off a timestamp on average."""
        return SECOND // 2 if self.stamped and self.resolution_s == WHOLE_SECOND else 0

    def of_node(self, node: str | None) -> TimedLog:
        def rows_of_node(frame: pl.DataFrame) -> pl.DataFrame:
            return frame.filter(pl.col("node").eq_missing(node))

        return replace(
            self,
            records=rows_of_node(self.records),
            evals=rows_of_node(self.evals),
            events=rows_of_node(self.events),
        )
