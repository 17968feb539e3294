"""Rules about the machine: GPUs that idle, are full, are slowed down or count errors; a disk that fills.

Rules about how fast a run is: below its own baseline, or below a floor that somebody set.

Rules about events: what a log or the recorder said outright needs no judgement, only to be passed on once.
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
    """A reading beyond a limit for so many seconds without a break; `after_step` waits for the first record."""

    reading: str
    seconds: float
    above: float | None = None
    below: float | None = None
    after_step: bool = False
    hears: ClassVar = (Record, GpuSecond)
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
        said = f"GPU {moment.gpu}: {self.reading} {value:.4g} for {text.duration(lasted)}"
        yield Finding(moment.gpu, beyond and lasted >= self.seconds, said)


@dataclass
class Throttled:
    """By heat or a power brake, in most of the last seconds. The software power cap does not count: it is usual."""

    seconds: int
    share: float
    hears: ClassVar = (GpuSecond,)
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
            yield Finding(moment.gpu, wrong, f"GPU {moment.gpu} is slowed down: {why}")


@dataclass
class Counted:
    """A counter that only grows when something broke has grown."""

    reading: str
    hears: ClassVar = (GpuSecond,)
    _known: dict[str, float] = field(default_factory=dict)

    def see(self, moment: Moment) -> Iterator[Finding]:
        value = moment.values.get(self.reading) if isinstance(moment, GpuSecond) else None
        if value is None or not isinstance(moment, GpuSecond):
            return
        before = self._known.get(moment.gpu, value)
        self._known[moment.gpu] = value
        if value > before:
            yield Finding(
                moment.gpu, True, f"GPU {moment.gpu}: {self.reading} grew from {before:.0f} to {value:.0f}"
            )


@dataclass
class DiskFull:
    share: float
    gib: float
    hears: ClassVar = (ClockTick,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if (
            isinstance(moment, ClockTick)
            and moment.disk_free_share is not None
            and moment.disk_free_gib is not None
        ):
            wrong = moment.disk_free_share < self.share or moment.disk_free_gib < self.gib
            yield Finding("", wrong, f"{moment.disk_free_gib:.1f} GiB are left on the disk of the run")


@dataclass
class OverBudget:
    """The run will be longer or dearer at its end than was allowed; None where no limit was set."""

    hours: float | None = None
    dollars: float | None = None
    hears: ClassVar = (ClockTick,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if not isinstance(moment, ClockTick):
            return
        if self.hours is not None and moment.hours is not None:
            needed, allowed = (text.duration(3600 * hours) for hours in (moment.hours, self.hours))
            said = f"it will have taken {needed}, and {allowed} were allowed"
            yield Finding("hours", moment.hours > self.hours, said)
        if self.dollars is not None and moment.dollars is not None:
            said = (
                f"it will have cost {text.money(moment.dollars)}, and {text.money(self.dollars)} were allowed"
            )
            yield Finding("dollars", moment.dollars > self.dollars, said)


class Slower:
    """The median of the last records against that of the first ones after the warm-up; anew in each phase.

    It is over once half of what was lost has come back: a pace that hovers at the limit is told once.
    """

    hears = (Record,)

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
                text = f"{name} is {now:,.5g}, {-self._signs[name] * change:.0%} {way} this run's own {usual:,.5g}"
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
    """The median of the last records of a metric under a floor."""

    hears = (Record,)

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
            text = f"{self._metric} is {now:.4g}, under {self._floor:g}"
            yield Finding(self._metric, now < self._floor, text, moment.step)


@dataclass
class OnEvent:
    """`over` is the kind that ends it, such as gpu_back for gpu_lost; a text in which `unless` is found is none."""

    kind: str
    over: str | None = None
    unless: str | None = None
    hears: ClassVar = (EventSeen,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, EventSeen) and moment.kind in (self.kind, self.over):
            if self.unless and re.search(self.unless, moment.text):
                return
            key = str(moment.facts.get("gpu", ""))
            yield Finding(key, moment.kind == self.kind, moment.text, moment.step)


class CommandFailed:
    """The command ended with a code that is not 0."""

    hears: ClassVar = (EventSeen,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        code = moment.facts.get("code") if isinstance(moment, EventSeen) and moment.kind == "exit" else None
        if code and isinstance(moment, EventSeen):
            yield Finding("", True, f"the command ended with {code}", moment.step)
