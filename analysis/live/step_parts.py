"""What the steps of the last minute of a followed recording consist of, as `--inside steps` sees them.

Records come from the run folder and, on the machine of the run, from memory, so that none is late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.live.view import StepPartsView
from gputel.analysis.report.step_shares import DATA_SHARE, shares_of_ranks
from gputel.analysis.runs import inside_steps
from gputel.telemetry.inside import drain, environment, step_records

if TYPE_CHECKING:
    from gputel.telemetry.run_folder import Segment

WINDOW_S = 60
EVERY_S = 1.0
MOST = 1 << 22
"""Bytes that are read of what was there before following began: over a minute of steps of a millisecond."""


@dataclass
class _Process:
    """The records of the last minute of a process, and how far its file was read."""

    rank: int | None
    read: int
    records: bytes = b""


class LiveSteps:
    """`read` gives a row a rank of one segment; None if there is nothing new."""

    def __init__(self, segment: Segment, now: Callable[[], float] = time.monotonic) -> None:
        self._segment, self._now = segment, now
        self._processes: dict[str, _Process] = {}
        self._due = float("-inf")
        self.has_begun = False

    def read(self, inside: object) -> tuple[StepPartsView, ...] | None:
        """Reads on, once a second; `inside` is what run.json says of the folder in memory."""
        if self._now() < self._due:
            return None
        self._due = self._now() + EVERY_S
        memory = environment.own_folder(inside)
        grown = [self._read(path, memory) for path in inside_steps.files(self._segment, memory)]
        if True not in grown:
            return None
        self.has_begun = True
        return self._views()

    def _read(self, path: Path, memory: Path | None) -> bool:
        """Whether a process has ended steps since the last look."""
        process, size = self._processes.get(path.stem), drain.size(path, memory)
        if process is None:
            head = step_records.header(drain.content(path, memory, most=step_records.SIZE))
            begin = max(step_records.SIZE, (size - MOST) // step_records.SIZE * step_records.SIZE)
            if head is None:
                return False
            process = self._processes[path.stem] = _Process(head.rank, begin)
        if size < process.read + step_records.SIZE:
            return False
        new = drain.content(path, memory, process.read)
        process.read += len(new)
        steps = inside_steps.ended(new)
        process.records += steps
        return bool(steps)

    def _views(self) -> tuple[StepPartsView, ...]:
        recent = pl.concat(
            inside_steps.rows_of(name, each.rank, each.records) for name, each in self._processes.items()
        )
        ended: Any = recent["time"].max()
        recent = recent.filter(pl.col("time") > ended - timedelta(seconds=WINDOW_S))
        for name, process in self._processes.items():
            kept = recent.filter(pl.col("inside") == name).height
            process.records = process.records[len(process.records) - kept * step_records.SIZE :]
        return tuple(
            StepPartsView(
                node=self._segment.node or "",
                rank=row["rank"],
                ended=ended,
                steps=row["steps"],
                step_ms=row["step_ms"],
                data_wait_ms=row["data_wait_ms"],
                data_share=row[DATA_SHARE],
                backward_ms=row["backward_call_ms"],
                optimizer_ms=row["optimizer_call_ms"],
                other_ms=row["other_ms"],
                gc_ms=row["gc_ms"],
            )
            for row in shares_of_ranks(recent).iter_rows(named=True)
        )
