"""Rules about the machine: GPUs that idle, are full, are slowed down or count errors; a disk that fills."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from gputel.analysis import text
from gputel.analysis.alarms.finding import Finding
from gputel.analysis.alarms.moments import Clock, GpuSecond, Moment, Record
from gputel.telemetry.sampling.news import SLOWED, SLOWED_DOWN


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
    hears: ClassVar = (Clock,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if (
            isinstance(moment, Clock)
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
    hears: ClassVar = (Clock,)

    def see(self, moment: Moment) -> Iterator[Finding]:
        if not isinstance(moment, Clock):
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
