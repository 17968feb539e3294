"""Rules about the machine, throughput and events.

GPUs: idle, full, throttled, counting errors. Disk and budget. Throughput below a floor.
Events of the log or the recorder, such as OOM and Xid, become alarms as they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from gputel.analysis import text
from gputel.analysis.alarms.loss import RunningWindow
from gputel.analysis.alarms.observations import ClockTick, EventSeen, Finding, GpuSecond, Moment, Record
from gputel.analysis.timed_regex import timed
from gputel.telemetry.sampling.status import SLOWED, SLOWED_DOWN

MARGIN = 0.1  # beyond a limit, before an alarm about it is over
BUDGET_MARGIN = 0.02  # the same for projections, which waver with the pace


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
    _wrong: bool = False

    def see(self, moment: Moment) -> Iterator[Finding]:
        if (
            isinstance(moment, ClockTick)
            and moment.disk_free_share is not None
            and moment.disk_free_gib is not None
        ):
            more = 1 + MARGIN if self._wrong else 1
            self._wrong = moment.disk_free_share < self.share * more or moment.disk_free_gib < self.gib * more
            yield Finding("", self._wrong, f"{moment.disk_free_gib:.1f} GiB free on the run's disk")


@dataclass
class OverBudget:
    """The duration or cost exceeds its limit, the projected one if the end is foreseen. None is no limit."""

    hours: float | None = None
    dollars: float | None = None
    observes: ClassVar = (ClockTick,)
    _wrong: dict[str, bool] = field(default_factory=dict)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if not isinstance(moment, ClockTick):
            return
        projected = "projected " if moment.foresees_end else ""
        if self.hours is not None and moment.hours is not None:
            needed, allowed = (text.duration(3600 * hours) for hours in (moment.hours, self.hours))
            over = self._is_over("hours", moment.hours, self.hours)
            yield Finding("hours", over, f"{projected}duration {needed}, limit {allowed}")
        if self.dollars is not None and moment.dollars is not None:
            cost, budget = text.money(moment.dollars), text.money(self.dollars)
            over = self._is_over("dollars", moment.dollars, self.dollars)
            yield Finding("dollars", over, f"{projected}cost {cost}, budget {budget}")

    def _is_over(self, name: str, value: float, limit: float) -> bool:
        within = limit * (1 - BUDGET_MARGIN if self._wrong.get(name) else 1)
        self._wrong[name] = value > within
        return self._wrong[name]


class Below:
    """The median of the last records of a metric is below a floor; over once it is a tenth above."""

    observes = (Record,)

    def __init__(self, metric: str, floor: float, records: int) -> None:
        self._metric, self._floor = metric, floor
        self._window = RunningWindow(records)
        self._wrong = False

    def see(self, moment: Moment) -> Iterator[Finding]:
        assert isinstance(moment, Record)
        if not math.isfinite(moment.values.get(self._metric, math.nan)):
            return
        self._window.add(moment.values[self._metric])
        if self._window.full:
            now = self._window.median()
            self._wrong = now < self._floor * (1 + MARGIN if self._wrong else 1)
            way = "below" if self._wrong else "above"
            words = f"{self._metric} is {text.count(now)}, {way} {text.count(self._floor)}"
            yield Finding(self._metric, self._wrong, words, moment.step)


@dataclass
class OnEvent:
    """An event of a kind. An event of the kind `over` ends the alarm; texts matching `unless` are ignored."""

    kind: str
    over: str | None = None
    unless: str | None = None
    observes: ClassVar = (EventSeen,)

    def __post_init__(self) -> None:
        """Raises TypeError if `unless` is no regular expression."""
        self._unless: re.Pattern[bytes] | None = None
        if self.unless:
            try:
                regex = re.compile(self.unless.encode())
            except re.error as error:
                raise TypeError(f"'unless' is not a regular expression: {error}") from None
            self._unless = timed(regex, "unless", f"alarm of {self.kind}")

    def see(self, moment: Moment) -> Iterator[Finding]:
        if isinstance(moment, EventSeen) and moment.kind in (self.kind, self.over):
            if self._unless and self._unless.search(moment.text.encode(errors="replace")):
                return
            key = str(moment.facts.get("gpu", ""))
            yield Finding(key, moment.kind == self.kind, moment.text, moment.step)


class CommandFailed:
    """The command exited with a code other than 0, and its user did not stop it."""

    observes: ClassVar = (EventSeen,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        code = moment.facts.get("code") if isinstance(moment, EventSeen) and moment.kind == "exit" else None
        if code and isinstance(moment, EventSeen) and not moment.facts.get("stopped"):
            yield Finding("", True, f"exit code {code}", moment.step)
