"""How fast a followed log goes: the time of its steps, and its pauses, in bounded memory.

Step times are as printed, else by timestamps, else by the clock. Whole-second timestamps say little of one step:
then the steps of many count. A pause is what a gap has beyond its steps; one with an evaluation or a checkpoint
in it counts however short it is, any other only if it is long.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from gputel.analysis.live.series import CurveHistory
from gputel.analysis.runs.printed_times import ENOUGH, LONG, LONGER

RECENT = 64
SHORTEST_S = 1.0  # of a pause that no line explains, as stamps may be whole seconds
FARTHEST = 3.0  # times the median pause of its kind, at most


class Pause(NamedTuple):
    """Time before a step beyond that of its steps; `kind` names what was printed in it, None for a stall."""

    step: float
    seconds: float
    kind: str | None


class Gap(NamedTuple):
    """Steps between two records, the seconds that passed, and whether something was printed in between."""

    steps: float
    seconds: float
    paused: bool


def _recent() -> deque[float]:
    return deque(maxlen=RECENT)


@dataclass
class LogPace:
    """`moments` are when each step was done, in seconds since `first_at`, the first record with a time."""

    moments: CurveHistory = field(default_factory=CurveHistory)
    first_at: float | None = None
    _strides: deque[float] = field(default_factory=_recent)  # steps a record
    _printed: deque[float] = field(default_factory=_recent)  # seconds a step
    _behind: deque[float] = field(default_factory=_recent)  # the same, of records behind a pause
    _gaps: deque[Gap] = field(default_factory=lambda: deque(maxlen=RECENT))
    _pauses: deque[Pause] = field(default_factory=lambda: deque(maxlen=RECENT))
    _named: list[tuple[int, str]] = field(default_factory=list)  # lines of what pauses, since the last record
    _before: tuple[float, float] | None = None  # step and time of the last record
    _line: int = 0  # of the last record
    _since: float | None = None  # the step from which on pauses are known

    def names(self, lines: Iterable[int], kind: str) -> None:
        """Takes the lines of evaluations, or of checkpoints, before the records around them."""
        self._named = sorted({*self._named, *((line, kind) for line in lines if line > self._line)})

    def take(self, records: pl.DataFrame, step: int | None, now: float, *, live: bool) -> None:
        """Adds records; `step` is that of the last record before. `live`: they were printed just now."""
        records = records.with_columns(pause=self._kinds(records["line"]))
        tail = records.tail(RECENT)
        strides = pl.concat([pl.Series("step", [step], pl.Int64), tail["step"]]).diff()
        self._strides.extend(strides.filter(strides > 0).to_list())
        passed = self._passed(records, now, live=live)
        if passed is not None:
            gaps = passed.select("steps", "seconds", pl.col("pause").is_not_null()).tail(RECENT)
            self._gaps.extend(Gap(*row) for row in gaps.iter_rows())
        if "dt_ms" in records.columns and tail["dt_ms"].count():
            for times, paused in ((self._printed, False), (self._behind, True)):
                alike = tail.filter(pl.col("pause").is_not_null() == paused)["dt_ms"].drop_nulls()
                times.extend((alike / 1000).to_list())
            passed = _by_dt(records) if passed is None else passed
        if passed is not None:
            self._add_pauses(passed)

    def seconds_a_step(self) -> float | None:
        """The usual time of a step, over the last records.

        A log that prints every N steps may print times that hold a pause: longer than a step can be by the clock.
        """
        times = self._printed if len(self._printed) >= ENOUGH else [*self._printed, *self._behind]
        if not self._gaps or not times:
            return statistics.median(times) if times else self._by_clock()
        printed, steps = statistics.median(times), sum(gap.steps for gap in self._gaps)
        whole_s = sum(gap.seconds for gap in self._gaps) + self._is_coarse()
        return self._by_clock() if printed > LONGER * whole_s / steps else printed

    def seconds_a_record(self) -> float | None:
        """The usual time between the last records, from the time per step and the steps between records."""
        step_s = self.seconds_a_step()
        return step_s * statistics.median(self._strides) if step_s is not None and self._strides else None

    def seconds_ahead(self, steps: int, here: int | None) -> float | None:
        """Time that so many steps will take, with evaluations and checkpoints as often as before.

        A single pause far beyond the others of its kind, such as a stall of hours, counts as a few of them.
        """
        step_s = self.seconds_a_step()
        if step_s is None or here is None or self._since is None or not self._pauses:
            return None if step_s is None else steps * step_s
        since = self._pauses[0].step if len(self._pauses) == RECENT else self._since
        usual = statistics.median(pause.seconds for pause in self._pauses)
        paused = 0.0
        for kind in {pause.kind for pause in self._pauses}:
            alike = [pause.seconds for pause in self._pauses if pause.kind == kind]
            most = FARTHEST * (usual if kind is None else statistics.median(alike))
            paused += sum(min(seconds, max(most, SHORTEST_S)) for seconds in alike)
        return steps * (step_s + max(paused, 0.0) / max(here - since, 1))

    def cut(self, step: float) -> None:
        """Goes on from an earlier step: what came behind it says nothing of what follows."""
        self.moments.cut(step)
        self._before = self._since = None
        for recent in (self._printed, self._behind, self._gaps, self._pauses):
            recent.clear()

    def _by_clock(self) -> float | None:
        """The median of gaps without other lines, if any; of whole-second stamps the mean of the usual ones."""
        gaps = [gap for gap in self._gaps if not gap.paused] or self._gaps
        if not gaps:
            return None
        each = statistics.median(gap.seconds / gap.steps for gap in gaps)
        if not self._is_coarse():
            return each
        steady = [gap for gap in gaps if gap.seconds <= LONG * each * gap.steps + SHORTEST_S]
        return sum(gap.seconds for gap in steady) / sum(gap.steps for gap in steady)

    def _is_coarse(self) -> bool:
        return all(gap.seconds.is_integer() for gap in self._gaps)

    def _kinds(self, lines: pl.Series) -> pl.Series:
        """The kind of line between each record and the one before it; null if there is none."""
        named, numbers = np.array([line for line, _ in self._named]), lines.to_numpy()
        places = np.searchsorted(named, numbers, side="right")
        before = np.searchsorted(named, np.append(self._line, numbers[:-1]), side="right")
        spans = zip(before.tolist(), places.tolist(), strict=True)
        kinds = [
            "+".join(sorted({kind for _, kind in self._named[start:end]})) or None for start, end in spans
        ]
        self._line = int(numbers.max())
        self._named = [(line, kind) for line, kind in self._named if line > self._line]
        return pl.Series(kinds, dtype=pl.String)

    def _passed(self, records: pl.DataFrame, now: float, *, live: bool) -> pl.DataFrame | None:
        """Returns the seconds and steps between records by the clock; None if no record has a time."""
        timed = records.select(
            pl.col("step").cast(pl.Float64), "pause", at=pl.col("time").dt.epoch("ns") / 1e9
        ).filter(pl.col("step").is_not_null() & pl.col("at").is_not_null())
        if timed.is_empty() and live and records["step"].null_count() < records.height:
            last = records.filter(pl.col("step").is_not_null()).tail(1)
            timed = last.select(pl.col("step").cast(pl.Float64), "pause", at=pl.lit(now))
        if timed.is_empty():
            return None
        self.first_at = float(timed["at"][0]) if self.first_at is None else self.first_at
        self.moments.add(timed["step"].to_numpy(), (timed["at"] - self.first_at).to_numpy())
        if self._before is not None:
            step, at = self._before
            first = pl.DataFrame({"step": [step], "pause": [None], "at": [at]}, schema=timed.schema)
            timed = pl.concat([first, timed])
        self._before = timed["step"][-1], timed["at"][-1]
        gaps = timed.select("step", "pause", steps=pl.col("step").diff(), seconds=pl.col("at").diff())
        return gaps.filter((pl.col("steps") > 0) & (pl.col("seconds") >= 0))

    def _add_pauses(self, passed: pl.DataFrame) -> None:
        """Adds gaps that are much longer than their steps, and those in which something was printed."""
        step_s = self.seconds_a_step()
        if step_s is None or passed.is_empty():
            return
        if self._since is None:
            self._since = float(passed["step"][0] - passed["steps"][0])
        usual, beyond = pl.col("steps") * step_s, pl.col("seconds") - pl.col("steps") * step_s
        least = pl.min_horizontal(usual / 2, pl.lit(step_s))
        long = (beyond > least) & (beyond > SHORTEST_S)
        pauses = passed.filter(long | pl.col("pause").is_not_null()).select("step", beyond, "pause")
        self._pauses.extend(Pause(*row) for row in pauses.tail(RECENT).iter_rows())


def _by_dt(records: pl.DataFrame) -> pl.DataFrame:
    """Returns the printed times of steps, which may contain an evaluation."""
    rows = records.filter(pl.col("dt_ms").is_finite() & pl.col("step").is_not_null())
    return rows.select(
        pl.col("step").cast(pl.Float64), "pause", steps=pl.lit(1.0), seconds=pl.col("dt_ms") / 1000
    )
