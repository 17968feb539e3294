"""A run that is slower than it was: by the rate or the step time that it prints, else by the times of its lines.

Times of lines are the log's own timestamps, else when lines arrived. Timestamps may be whole seconds: then steps of
at least `BLOCK` seconds together are one measurement, and steps of 0.3 s are judged as well as those of 3 s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gputel.analysis import columns, text
from gputel.analysis.alarms.loss import RunningWindow
from gputel.analysis.alarms.observations import Evaluation, EventSeen, Finding, Moment, Record

STEP_TIME = "time per step"
BLOCK = 20  # times the resolution of a clock: what takes as long is known to a few percent
MEDIAN_OF = 15  # gaps, whose median is the usual one
LONG = 1.5  # times the usual gap: the run stood still, and a step says nothing of it
COARSE_S, FINE_S = 1.0, 0.001


class Slower:
    """The median of the last records is worse than that of the first ones after warm-up, per phase and attempt.

    The alarm ends once the median of the last `recovery` records has regained half of the allowed loss, so a
    throughput that wavers around the limit raises it once.
    """

    observes = (Record, Evaluation, EventSeen)

    def __init__(
        self, metrics: list[str], warmup: int, baseline: int, records: int, recovery: int, share: float
    ) -> None:
        hint = "name rates or times of steps in `metrics`"
        self._metrics, self._share = metrics, share
        self._signs = {n: 1 if columns.better_or_refuse(n, hint=hint) == "higher" else -1 for n in metrics}
        self._sizes = warmup, baseline, records, recovery
        self._paces: dict[tuple[str, str, int], _Pace] = {}
        self._clocks: dict[tuple[str, int], StepClock] = {}
        self._prints_pace = False
        self._wrong: set[str] = set()

    def see(self, moment: Moment) -> Iterator[Finding]:
        if not isinstance(moment, Record):
            for clock in self._clocks.values():
                clock.interrupt()
            return
        name, values = self._measured(moment)
        if not values:
            return
        pace = self._pace(name, moment)
        for value in values:
            pace.take(value)
        slow = pace.judge(self._signs.get(name, -1), self._share)
        if slow or (slow is False and name in self._wrong):
            if slow:
                self._wrong.add(name)
            else:
                self._wrong.discard(name)
            show = text.duration if name == STEP_TIME else text.count
            yield Finding(name, slow, f"{name} {pace.describe(show)}", moment.step)

    def _measured(self, record: Record) -> tuple[str, Sequence[float]]:
        """Returns the first metric that is printed: MFU follows throughput, so one of them is enough."""
        for name in self._metrics:
            value = record.values.get(name, math.nan)
            if math.isfinite(value):
                self._prints_pace = True
                return name, [value]
        if self._prints_pace:
            return "", []
        return STEP_TIME, self._clocks.setdefault((record.phase, record.attempt), StepClock()).take(record)

    def _pace(self, name: str, moment: Record) -> _Pace:
        key = name, moment.phase, moment.attempt
        pace = self._paces.get(key)
        if pace is None:
            pace = self._paces[key] = _Pace(*self._sizes)
        return pace


class _Pace:
    """Baseline and recent median of one metric, and while it is slow the median of a longer window."""

    def __init__(self, warmup: int, baseline: int, records: int, recovery: int) -> None:
        self._left = warmup
        self._first, self._last = RunningWindow(baseline), RunningWindow(records)
        self._since = RunningWindow(recovery)  # records since it is slow
        self._usual: float | None = None
        self._slow = False

    def take(self, value: float) -> None:
        if self._left:
            self._left -= 1
        elif self._usual is None:
            self._first.add(value)
            self._usual = self._first.median() if self._first.full else None
        else:
            self._last.add(value)
            self._since.add(value)

    def judge(self, sign: int, share: float) -> bool | None:
        """Returns whether it is slow now; None while there are too few records. `sign` is 1 if more is better."""
        if self._usual is None or not self._last.full:
            return None
        loss = sign * (1 - self._last.median() / self._usual)
        if not self._slow and loss > share:
            self._slow = True
            self._since.clear()
        elif self._slow and loss <= share / 2 and self._since.full:
            self._slow = sign * (1 - self._since.median() / self._usual) > share / 2
        return self._slow

    def describe(self, show: Callable[[float], str]) -> str:
        assert self._usual is not None
        now = self._last.median()
        change = now / self._usual - 1
        way = "below" if change < 0 else "above"
        return f"is {show(now)}, {abs(change):.0%} {way} this run's baseline {show(self._usual)}"


class _Mark(NamedTuple):
    """A moment and the last step that was printed by then."""

    at_s: float
    step: int


@dataclass
class StepClock:
    """Times of records -> the time of a step, without gaps in which something was printed or the run stood still.

    Of lines with one time only the last counts, so lines that are written in blocks are measured by the block.
    """

    _before: _Mark | None = None  # the mark before the last, unless something was printed in between
    _last: _Mark | None = None
    _interrupted: bool = False
    _coarse: bool = True  # all times are whole seconds
    _usual: RunningWindow = field(default_factory=lambda: RunningWindow(MEDIAN_OF))
    _seconds: float = 0.0  # of the block that is being measured
    _steps: int = 0
    _records: int = 0

    def interrupt(self) -> None:
        """What comes next stands behind an evaluation, a checkpoint or another event."""
        self._interrupted = True

    def take(self, record: Record) -> list[float]:
        """Returns the seconds of a step once for each record of a block that is complete with this one."""
        own = record.printed_s is not None
        at_s = record.printed_s if own else record.at_s
        if record.step is None or at_s is None or (self._last and record.step <= self._last.step):
            return []
        self._coarse = self._coarse and (not own or at_s.is_integer())
        self._records += 1
        mark, last = _Mark(at_s, record.step), self._last
        if last is None or (at_s == last.at_s and not self._interrupted):
            self._last = mark
            return []
        done = self._measure(self._before, last)
        self._before = None if self._interrupted or at_s < last.at_s else last
        self._last, self._interrupted = mark, False
        return done

    def _measure(self, begin: _Mark | None, end: _Mark) -> list[float]:
        if begin is None:
            return []
        seconds, steps = end.at_s - begin.at_s, end.step - begin.step
        resolution = COARSE_S if self._coarse else FINE_S
        self._usual.add(seconds / steps)
        if seconds <= LONG * self._usual.median() * steps + 2 * resolution:
            self._seconds += seconds
            self._steps += steps
        if self._seconds < BLOCK * resolution:
            return []
        done = [self._seconds / self._steps] * self._records
        self._seconds, self._steps, self._records = 0.0, 0, 0
        return done
