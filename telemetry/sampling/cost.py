"""Cost and punctuality of sampling: lateness, rows of each tier, time inside the driver.

Counted in memory that does not grow: durations go into buckets a sixteenth of their value wide, so a quantile is
right to 6 %, even after a week.
"""

from __future__ import annotations

import resource
from collections import defaultdict, deque
from dataclasses import dataclass, field

from gputel.telemetry.clock import SECOND
from gputel.telemetry.machine import CounterState

BUCKETS_AN_OCTAVE = 16
MINUTE = 60 * SECOND
CHANGED = 0.05
"""A minute whose rate of rows differs from the last by more than this is listed."""


class Durations:
    """Counts durations in nanoseconds, and gives their quantiles."""

    def __init__(self) -> None:
        self._counts = [0] * (64 * BUCKETS_AN_OCTAVE)
        self.most = 0
        self.count = 0

    def add(self, ns: int) -> None:
        octave = ns.bit_length()
        self._counts[(octave << 4) | ((ns << 5 >> octave) & 15)] += 1
        self.count += 1
        if ns > self.most:
            self.most = ns

    def quantile(self, share: float) -> int | None:
        """The quantile in nanoseconds, rounded up to its bucket's upper edge; None without durations."""
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= share * self.count:
                octave, part = bucket >> 4, bucket & 15
                return min(self.most, (17 + part << octave) >> 5)
        return None


@dataclass(slots=True)
class TierCount:
    """What the rows of one tier were; after its rate was lowered, not every tick has one."""

    rows: int = 0
    inside_ns: int = 0
    """Time inside the driver, including stalls of the driver and of the machine."""
    minutes: list[tuple[int, float]] = field(default_factory=list)
    """The rate of rows in the first minute, and in each in which it was another."""
    rows_before: int = 0
    """Rows by the end of the last whole minute."""


@dataclass
class SamplingCost:
    """The cost of one sampling process, over all its threads."""

    period_ns: int
    lateness: Durations = field(default_factory=Durations)
    ticks: int = 0
    tiers: defaultdict[str, TierCount] = field(default_factory=lambda: defaultdict(TierCount))
    late: int = 0
    missed: int = 0
    counters: dict[tuple[str, str], CounterState] = field(default_factory=dict)
    """The counters by GPU and reading."""
    faults: set[tuple[str, str, str]] = field(default_factory=set)
    """GPU, reading and error of each that was reported."""
    first: int | None = None
    last: int | None = None
    startup: tuple[float, float] | None = None
    """Seconds after the first tick, and what the process had cost by then: start-up is no part of the overhead."""
    _minute: int = 0
    _closed: int | None = None
    _delays: deque[int] = field(default_factory=deque)
    """Delays of the ticks since the last look."""

    def tick(self, deadline: int, now: int) -> None:
        """Count a tick that fired at `now`."""
        self.ticks += 1
        self._delays.append(now - deadline)
        if self.first is None:
            self.first = deadline
        self.last = deadline

    def look(self, now: int) -> None:
        """Close a minute when it is over; called about once per second."""
        self.count_delays()
        if self.first is None:
            return
        self.startup = self.startup or ((now - self.first) / SECOND, _processor_s())
        if now - self.first >= (self._minute + 1) * MINUTE:
            whole, self._minute = self._minute, (now - self.first) // MINUTE
            seconds, self._closed = (now - (self._closed or self.first)) / SECOND, now
            for tier in self.tiers.values():
                hz = round((tier.rows - tier.rows_before) / seconds, 1)
                if not tier.minutes or abs(hz - tier.minutes[-1][1]) > CHANGED * tier.minutes[-1][1]:
                    tier.minutes.append((whole, hz))
                tier.rows_before = tier.rows

    def count_delays(self) -> None:
        """Count the ticks since the last look: together they cost a tenth of what each would alone."""
        while True:
            try:
                delay = self._delays.popleft()
            except IndexError:
                return
            self.lateness.add(max(0, delay))
            self.late += delay > self.period_ns

    @property
    def sampled_s(self) -> float:
        """Seconds from the first deadline to the last, by which a late first tick makes no rate too high."""
        return 0.0 if self.first is None or self.last is None else (self.last - self.first) / SECOND

    @property
    def hz(self) -> float | None:
        """Rows of the fastest tier per second."""
        most = max((tier.rows for tier in list(self.tiers.values())), default=0)
        return (most - 1) / self.sampled_s if self.sampled_s and most else None

    def as_json(self) -> dict[str, object]:
        self.count_delays()
        p50, p99 = self.lateness.quantile(0.5), self.lateness.quantile(0.99)
        tiers = {name: tier for name, tier in list(self.tiers.items()) if tier.rows}
        return {
            "ticks": self.ticks,
            "sampled_s": round(self.sampled_s, 3),
            "late": self.late,
            "missed": self.missed,
            "lateness_us": {
                "p50": None if p50 is None else p50 / 1000,
                "p99": None if p99 is None else p99 / 1000,
                "max": self.lateness.most / 1000 if self.ticks else None,
            },
            "inside_driver_s": {name: tier.inside_ns / SECOND for name, tier in tiers.items()},
            "counters": self._counters(),
            "tiers": {name: {"rows": tier.rows, "minutes": tier.minutes} for name, tier in tiers.items()},
            "cpu_s": round(_processor_s(), 4),
            "startup": self.startup and {"sampled_s": self.startup[0], "cpu_s": round(self.startup[1], 4)},
            "resident_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }

    def _counters(self) -> dict[str, dict[str, object]]:
        by_gpu: dict[str, dict[str, object]] = {}
        for (gpu, name), state in list(self.counters.items()):
            by_gpu.setdefault(gpu, {})[name] = state._asdict()
        return by_gpu


def _processor_s() -> float:
    """Processor time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
