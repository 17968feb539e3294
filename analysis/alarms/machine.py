"""Rules about the machine, throughput and events.

GPUs: idle, full, throttled, counting errors. Disk and budget. Throughput below the run's own baseline or a floor.
Events of the log or the recorder, such as OOM and Xid, become alarms as they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from gputel.analysis import columns, text
from gputel.analysis.alarms.loss import RunningWindow
from gputel.analysis.alarms.observations import ClockTick, EventSeen, Finding, GpuSecond, Moment, Record
from gputel.telemetry.sampling.status import SLOWED, SLOWED_DOWN


@dataclass
class GpuLevel:
    """A reading is beyond a limit for `seconds` without a break; `after_step` waits for the first record."""

    reading: str
    seconds: float
    above: float | None = None
    below: float | None = None
    after_step: bool = False
    observes: ClassVar = (Record, GpuSecond)
    _since: dict[str, float | None] = field(default_factory=dict)
    _stepped: bool = False

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, Record):
            self._stepped = True
        if not isinstance(moment, GpuSecond) or (self.after_step and not self._stepped):
            return
        value = moment.values.get(self.reading)
        if value is None:
            return
        beyond = (self.above is not None and value > self.above) or (
            self.below is not None and value < self.below
        )
        since = self._since.get(moment.gpu) or moment.at_s
        self._since[moment.gpu] = since if beyond else None
        lasted = moment.at_s - since
        words = f"GPU {moment.gpu}: {self.reading} {value:.4g} for {text.duration(lasted)}"
        yield Finding(moment.gpu, beyond and lasted >= self.seconds, words)


@dataclass
class Throttled:
    """Throttled by heat or a power brake in most of the last seconds; the software power cap is normal."""

    seconds: int
    share: float
    observes: ClassVar = (GpuSecond,)
    _slow: dict[str, list[bool]] = field(default_factory=dict)

    def see(self, moment: Moment) -> Iterator[Finding]:
        mask = moment.values.get("throttle") if isinstance(moment, GpuSecond) else None
        if mask is None or not isinstance(moment, GpuSecond):
            return
        reasons = int(mask) & SLOWED
        last = self._slow.setdefault(moment.gpu, [])
        last.append(bool(reasons))
        del last[: -self.seconds]
        why = ", ".join(words for bit, words in SLOWED_DOWN.items() if reasons & bit)
        wrong = sum(last) >= self.share * self.seconds
        if (wrong and why) or not any(last):
            state = f"throttled: {why}" if why else "no longer throttled"
            yield Finding(moment.gpu, wrong, f"GPU {moment.gpu} is {state}")


@dataclass
class Counted:
    """An error counter has grown."""

    reading: str
    observes: ClassVar = (GpuSecond,)
    _last: dict[str, float] = field(default_factory=dict)

    def see(self, moment: Moment) -> Iterator[Finding]:
        value = moment.values.get(self.reading) if isinstance(moment, GpuSecond) else None
        if value is None or not isinstance(moment, GpuSecond):
            return
        before = self._last.get(moment.gpu, value)
        self._last[moment.gpu] = value
        if value > before:
            yield Finding(
                moment.gpu, True, f"GPU {moment.gpu}: {self.reading} grew from {before:.0f} to {value:.0f}"
            )


@dataclass
class DiskFull:
    """The disk of the run has less free space than a share or a number of GiB."""

    share: float
    gib: float
    observes: ClassVar = (ClockTick,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if (
            isinstance(moment, ClockTick)
            and moment.disk_free_share is not None
            and moment.disk_free_gib is not None
        ):
            wrong = moment.disk_free_share < self.share or moment.disk_free_gib < self.gib
            yield Finding("", wrong, f"{moment.disk_free_gib:.1f} GiB free on the run's disk")


@dataclass
class OverBudget:
    """The projected duration or cost exceeds its limit; a limit of None is not checked."""

    hours: float | None = None
    dollars: float | None = None
    observes: ClassVar = (ClockTick,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if not isinstance(moment, ClockTick):
            return
        if self.hours is not None and moment.hours is not None:
            needed, allowed = (text.duration(3600 * hours) for hours in (moment.hours, self.hours))
            yield Finding("hours", moment.hours > self.hours, f"projected duration {needed}, limit {allowed}")
        if self.dollars is not None and moment.dollars is not None:
            cost, budget = text.money(moment.dollars), text.money(self.dollars)
            yield Finding("dollars", moment.dollars > self.dollars, f"projected cost {cost}, budget {budget}")


class Slower:
    """The median of the last records is worse than that of the first ones after warm-up, per phase and attempt.

    The alarm ends once half of the allowed loss is regained, so a throughput around the limit raises it once.
    """

    observes = (Record,)

    def __init__(self, metrics: list[str], warmup: int, baseline: int, records: int, share: float) -> None:
        hint = "name rates or times of steps in `metrics`"
        self._metrics, self._share = metrics, share
        self._signs = {n: 1 if columns.better_or_refuse(n, hint=hint) == "higher" else -1 for n in metrics}
        self._sizes = warmup, baseline, records
        self._paces: dict[tuple[str, str, int], _Pace] = {}
        self._wrong: set[str] = set()

    def see(self, moment: Moment) -> Iterator[Finding]:
        assert isinstance(moment, Record)
        for name in self._metrics:
            value = moment.values.get(name)
            if value is None or not math.isfinite(value):
                continue
            usual, now, wrong = self._judge(self._pace(name, moment), value, self._signs[name])
            if usual is None or now is None:
                continue
            if wrong or name in self._wrong:
                if wrong:
                    self._wrong.add(name)
                else:
                    self._wrong.discard(name)
                change, way = now / usual - 1, "below" if self._signs[name] > 0 else "above"
                loss = f"{-self._signs[name] * change:.0%} {way} this run's baseline {usual:,.5g}"
                text = f"{name} is {now:,.5g}, {loss}"
                yield Finding(name, wrong, text, moment.step)
            return  # MFU follows throughput: one of them is enough

    def _pace(self, name: str, moment: Record) -> _Pace:
        key = name, moment.phase, moment.attempt
        pace = self._paces.get(key)
        if pace is None:
            pace = self._paces[key] = _Pace(*self._sizes)
        return pace

    def _judge(self, pace: _Pace, value: float, sign: int) -> tuple[float | None, float | None, bool]:
        pace.take(value)
        usual, now = pace.usual, pace.now
        if usual is not None and now is not None:
            pace.slow = sign * (1 - now / usual) > self._share / (2 if pace.slow else 1)
        return usual, now, pace.slow


class _Pace:
    """Baseline and recent median of one metric."""

    def __init__(self, warmup: int, baseline: int, records: int) -> None:
        self._left = warmup
        self._first, self._last = RunningWindow(baseline), RunningWindow(records)
        self.usual: float | None = None
        self.slow = False

    def take(self, value: float) -> None:
        if self._left:
            self._left -= 1
        elif self.usual is None:
            self._first.add(value)
            self.usual = self._first.median() if self._first.full else None
        else:
            self._last.add(value)

    @property
    def now(self) -> float | None:
        return self._last.median() if self._last.full else None


class Below:
    """The median of the last records of a metric is below a floor."""

    observes = (Record,)

    def __init__(self, metric: str, floor: float, records: int) -> None:
        self._metric, self._floor = metric, floor
        self._window = RunningWindow(records)

    def see(self, moment: Moment) -> Iterator[Finding]:
        assert isinstance(moment, Record)
        if not math.isfinite(moment.values.get(self._metric, math.nan)):
            return
        self._window.add(moment.values[self._metric])
        if self._window.full:
            now = self._window.median()
            text = f"{self._metric} is {now:.4g}, below {self._floor:g}"
            yield Finding(self._metric, now < self._floor, text, moment.step)


@dataclass
class OnEvent:
    """An event of a kind. An event of the kind `over` ends the alarm; texts matching `unless` are ignored."""

    kind: str
    over: str | None = None
    unless: str | None = None
    observes: ClassVar = (EventSeen,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, EventSeen) and moment.kind in (self.kind, self.over):
            if self.unless and re.search(self.unless, moment.text):
                return
            key = str(moment.facts.get("gpu", ""))
            yield Finding(key, moment.kind == self.kind, moment.text, moment.step)


class CommandFailed:
    """The command exited with a code other than 0."""

    observes: ClassVar = (EventSeen,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        code = moment.facts.get("code") if isinstance(moment, EventSeen) and moment.kind == "exit" else None
        if code and isinstance(moment, EventSeen):
            yield Finding("", True, f"exit code {code}", moment.step)
