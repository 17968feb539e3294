"""Values given by `gputel.log` while a training runs: rows of a log beside the printed one of its segment.

Rows come from the run folder and, on the machine of the run, from memory, so that none is late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.live.whole_logs import SHARE, HandedOut, WholeLog
from gputel.analysis.logs.incremental import Increment, OpenFrames
from gputel.analysis.runs import api_rows
from gputel.telemetry.inside import environment

if TYPE_CHECKING:
    from gputel.telemetry.run_folder import Segment


class LiveGiven:
    """The rows that the first rank of one segment gives."""

    def __init__(self, segment: Segment, now: Callable[[], float] = time.monotonic) -> None:
        self._segment, self._now = segment, now
        self._rows = HandedOut()
        self._seen: dict[Path, int] = {}
        self._due = float("-inf")
        self.has_begun = False
        self.is_pending = False
        self.log: WholeLog | None = None

    def read(self, inside: object) -> Increment | None:
        """Returns what is new; reading all of it again takes a small share of the time."""
        began = self._now()
        sizes = self._sizes(inside)
        self.is_pending = began < self._due and sizes != self._seen
        if self.is_pending or sizes == self._seen:
            return None
        self._seen = sizes
        log = next(api_rows.read(self._segment, inside).logs("", str(self._segment.path)), None)
        self._due = self._now() + SHARE * (self._now() - began)
        if log is None:
            return None
        self.log, self.has_begun = WholeLog(log), True
        return self._rows.difference(log)

    def _sizes(self, inside: object) -> dict[Path, int]:
        sizes = {}
        for path in api_rows.files(self._segment, environment.own_folder(inside)):
            try:
                sizes[path] = path.stat().st_size
            except OSError:  # it was removed after the end
                continue
        return sizes


def unprinted(increment: Increment, printed: Mapping[str, object]) -> Increment:
    """Leaves out the values of names that are printed, too: alarms judge each value once."""

    def without(frame: pl.DataFrame) -> pl.DataFrame:
        names = [name for name in frame.columns if name in printed and frame.schema[name] == pl.Float64]
        return frame.with_columns(pl.when(~pl.col(names).is_finite()).then(pl.col(names)))

    opened = OpenFrames(without(increment.open_records), increment.open_evals, increment.open_events)
    return Increment(
        without(increment.records),
        increment.evals,
        increment.partials,
        increment.events,
        increment.afresh,
        opened=opened,
    )
