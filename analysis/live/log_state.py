"""The state of one followed log, in bounded memory: last values, curves, evaluations, events, and what comes next.

After a resume from an earlier step, curves drop the later points. The next checkpoint, evaluation and epoch end are
predicted from what the log has printed at least twice; an event that is overdue is not predicted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from math import floor
from typing import Any

import numpy as np
import polars as pl

from gputel.analysis.live.log_pace import RECENT, LogPace
from gputel.analysis.live.series import CurveHistory
from gputel.analysis.logs.incremental import Increment
from gputel.analysis.logs.saved_steps import begins_where_resumed

MOST_METRICS = 64
MOST_EVENTS = 500
MOST_EVALS = 4096
PLACES = frozenset("phase attempt step total_steps time line rank epoch".split())


@dataclass
class Seen:
    """The last step of one rank, and when it was printed."""

    step: float | None
    at: float


@dataclass
class LogState:
    """`take` adds an increment; everything else is read. Times called `now` are in seconds since 1970."""

    records: int = 0
    phase: str | None = None
    attempt: int = 1
    step: int | None = None
    first_step: int | None = None
    goes_on: bool = False  # at a step that an earlier line names
    total_steps: int | None = None
    epoch: float | None = None
    time: datetime | None = None
    last: dict[str, float] = field(default_factory=dict)
    curves: dict[str, CurveHistory] = field(default_factory=dict)
    evals: dict[str, CurveHistory] = field(default_factory=dict)
    events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    open_events: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    ranks: dict[str | None, Seen] = field(default_factory=dict)
    borders: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RECENT))  # epoch, step
    saves: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))  # steps of checkpoints
    pace: LogPace = field(default_factory=LogPace)
    begun: datetime | None = None  # the first timestamp of any line; `time` is the last

    @property
    def counts_from_zero(self) -> bool:
        return self.first_step == 0 or self.goes_on

    def take(self, increment: Increment, now: float, *, live: bool) -> None:
        """Adds an increment. `live`: its lines were written just now, so the clock can time the steps."""
        if increment.renamed:
            self.phase, self.attempt = increment.renamed.get(
                (self.phase or "", self.attempt), (self.phase or "", self.attempt)
            )
        for frame in (increment.records, increment.evals, increment.events, increment.open_records):
            self._clock(frame)
        self.pace.names(increment.evals["line"], "eval")
        self.pace.names(increment.events.filter(pl.col("kind") == "checkpoint")["line"], "checkpoint")
        if increment.records.height:
            self.goes_on = self.goes_on or (
                not self.records and begins_where_resumed(increment.records, increment.events)
            )
            self._records(increment.records, now, live=live)
        self._evals(increment.evals)
        for event in increment.events.iter_rows(named=True):
            self._event(event)
        self.open_events = list(increment.open_events.iter_rows(named=True))
        if increment.open_records.height:
            self._set_latest(increment.open_records, now)
        self._take_open_evals(increment.open_evals)

    def beside(self, given: LogState) -> LogState:
        """This printed log with what the training gave by itself, whose values come first."""
        if self.step is None and not self.records:
            return replace(given, events=self.events, open_events=self.open_events, counts=self.counts)
        return replace(
            self,
            records=max(self.records, given.records),
            step=max(filter(None, (self.step, given.step)), default=self.step),
            last={**self.last, **given.last},
            curves={**self.curves, **given.curves},
            evals={**self.evals, **given.evals},
        )

    def starts_at(self, began: int | None) -> None:
        """Takes the timestamp of the first line, in ns, which may come long before the first row."""
        if began is not None and self.begun is not None:
            self.begun = min(self.begun, datetime.fromtimestamp(began / 1e9, timezone.utc))

    def _clock(self, frame: pl.DataFrame) -> None:
        """Widens the time from the first to the last timestamp; rows of several ranks need not be in order."""
        if not frame.height or frame["time"].null_count() == frame.height:
            return
        first: Any = frame["time"].min()
        last: Any = frame["time"].max()
        self.begun = first if self.begun is None else min(self.begun, first)
        self.time = last if self.time is None else max(self.time, last)

    def _records(self, frame: pl.DataFrame, now: float, *, live: bool) -> None:
        first: Any = frame["step"].first()
        if first is not None and self.step is not None and first < self.step and self.records:
            self._cut(float(frame["step"].min()))  # type: ignore[arg-type]
        counted = np.arange(self.records, self.records + frame.height, dtype=np.float64)
        steps = frame["step"].cast(pl.Float64).to_numpy() if not frame["step"].null_count() else counted
        for name, kind in frame.schema.items():
            if kind == pl.Float64 and name not in PLACES:
                self._curve(name, frame[name], steps)
        self.pace.take(frame, self.step, now, live=live)
        self.records += frame.height
        self._set_latest(frame, now)

    def _curve(self, name: str, values: pl.Series, steps: Any) -> None:
        if name not in self.curves:
            if len(self.curves) == MOST_METRICS:
                return
            self.curves[name] = CurveHistory()
        if values.null_count():
            printed = values.is_not_null().to_numpy()
            self.curves[name].add(steps[printed], values.drop_nulls().to_numpy())
        else:
            self.curves[name].add(steps, values.to_numpy())

    def _cut(self, step: float) -> None:
        for curve in (*self.curves.values(), *self.evals.values()):
            curve.cut(step)
        self.pace.cut(step)

    def _set_latest(self, frame: pl.DataFrame, now: float) -> None:
        """Takes step, phase and values from the last row."""
        row = frame.row(-1, named=True)
        if row["phase"] != self.phase:
            self.first_step = frame.filter(pl.col("phase") == row["phase"])["step"].drop_nulls().first()  # type: ignore[assignment]
        self.phase, self.attempt = row["phase"], row["attempt"]
        if row["step"] is not None:
            self.step = row["step"]
            self.first_step = self.step if self.first_step is None else self.first_step
        self.total_steps = row.get("total_steps") or self.total_steps
        for name, value in row.items():
            if isinstance(value, float) and name not in PLACES:
                self.last[name] = value
        epoch = row.get("epoch")
        if epoch is not None and self.step is not None:
            if not self.borders or self.borders[-1][0] != epoch:
                self.borders.append((epoch, self.step))
            self.epoch = epoch
        for rank, step in frame.select("rank", "step").iter_rows() if frame.height < RECENT else ():
            self.ranks[rank] = Seen(step, now)

    def _evals(self, frame: pl.DataFrame) -> None:
        if not frame.height:
            return
        for name in frame["name"].unique(maintain_order=True).to_list():
            rows = frame.filter(pl.col("name") == name)
            steps = rows["step"].fill_null(self.step or 0).cast(pl.Float64).to_numpy()
            self.evals.setdefault(name, CurveHistory(MOST_EVALS)).add(steps, rows["value"].to_numpy())

    def _take_open_evals(self, frame: pl.DataFrame) -> None:
        """Shows the values of evaluations that later lines may still change."""
        for name, value in frame.select("name", "value").iter_rows():
            self.last[name] = value

    def _event(self, event: dict[str, Any]) -> None:
        self.counts[event["kind"]] += 1
        if event["kind"] not in ("eval", "epoch"):
            self.events.append(event)
        step = event["step"]
        if event["kind"] == "checkpoint" and step is not None and step not in self.saves:
            self.saves.append(step)


@dataclass(frozen=True)
class UpcomingEvent:
    """`kind` is checkpoint, eval, epoch or end; `at` is None if the time per step is unknown."""

    kind: str
    step: int
    at: datetime | None


def upcoming(
    log: LogState, total: int | None, seconds_a_step: float | None, now: datetime, eta_s: float | None
) -> list[UpcomingEvent]:
    """Predicts the next event of each kind and the end, ordered by step."""
    if log.step is None:
        return []
    evals = max((curve for curve in log.evals.values()), key=len, default=None)
    eval_steps = [round(step) for step in evals.points().step.tolist()[-3:]] if evals else []
    steps = {
        "checkpoint": _next(sorted(log.saves), log.step),
        "eval": _next(eval_steps, log.step),
        "epoch": _epoch_end(log),
    }

    def date(step: int) -> datetime | None:
        left = (step - (log.step or 0)) * seconds_a_step if seconds_a_step is not None else None
        return None if left is None else now + timedelta(seconds=left)

    events = [
        UpcomingEvent(kind, step, date(step))
        for kind, step in steps.items()
        if step is not None and (total is None or step <= total)
    ]
    if total is not None and total > log.step:
        end = date(total) if eta_s is None else now + timedelta(seconds=eta_s)
        events.append(UpcomingEvent("end", total, end))
    return sorted(events, key=lambda event: event.step)


def _next(steps: Sequence[int], here: int) -> int | None:
    """The step after the last one, if the interval of the last two repeats; None if that is overdue."""
    if len(steps) < 2 or steps[-1] <= steps[-2]:
        return None
    every = steps[-1] - steps[-2]
    expected = steps[-1] + every
    return expected if expected > here else None


def _epoch_end(log: LogState) -> int | None:
    """The step at which the current epoch ends."""
    borders = list(log.borders)
    if log.epoch is None or len(borders) < 2:
        return None
    if any(not epoch.is_integer() for epoch, _ in borders):
        (first, begun), (last, here) = borders[0], borders[-1]
        if last <= first:
            return None
        return here + round((floor(last) + 1 - last) * (here - begun) / (last - first))
    lengths = [(later - step) for (_, step), (_, later) in pairwise(borders)]
    if len(lengths) < 2 or lengths[-1] <= 0:
        return None
    expected = borders[-1][1] + lengths[-1]
    return expected if expected > (log.step or 0) else None
