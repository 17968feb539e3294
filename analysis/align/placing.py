"""When a log's lines were written: by their stamps, else by the log's own clock and the time of its file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from gputel.analysis.subjects import Subject


@dataclass(frozen=True)
class Tables:
    """A log's tables, every row with its `time`; `how` says where the times come from."""

    records: pl.DataFrame
    evals: pl.DataFrame
    events: pl.DataFrame
    how: str
    uncertainty_s: float | None

    def of_node(self, node: str | None) -> Tables:
        def own(frame: pl.DataFrame) -> pl.DataFrame:
            return frame.filter(pl.col("node").eq_missing(node))

        return replace(self, records=own(self.records), evals=own(self.evals), events=own(self.events))


def of(subject: Subject) -> Tables:
    log = subject.log
    return Tables(log.records, log.evals, log.events, "by the stamps of its lines", 0.0)
