"""What sampling costs, and the rates that fit into its budget (`--max-overhead`).

The cost is counted at each tick in memory that does not grow: durations go into buckets a sixteenth of their
value wide, so a quantile is right to 6 %, even after a week.

The budget lowers a tier's rate when calls into the driver cost too much, and raises it when there is room again.
It uses the median read of ten seconds, so that an occasional stall of the driver changes nothing. If the thread
was preempted during a read, only its processor time counts.
"""

from __future__ import annotations

import resource
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gputel.telemetry.clock import SECOND
from gputel.telemetry.machine import CounterState, Report
from gputel.telemetry.sampling.plan import SamplingPlan

BUCKETS_AN_OCTAVE = 16
WINDOW = 10 * SECOND
FEWEST_READS = 5
"""A tier with fewer reads in a window is judged in a later one, by all reads since the last time."""
WORTH_LOWERING = 0.1
"""A tier is lowered only if it costs this share of the budget; otherwise slow readings would be lost in vain."""
ROOM = 0.8
"""A rate is raised again only if all tiers then take less than this share of the budget."""
SLOWEST_S = 10
MINUTE = 60 * SECOND
CHANGED = 0.05
"""A minute whose rate of rows differs from the last by more than this is listed."""

Spending = Callable[[], resource.struct_rusage]


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
    """What one process of the sampler cost, over all its threads."""

    period_ns: int
    lateness: Durations = field(default_factory=Durations)
    ticks: int = 0
    tiers: defaultdict[str, TierCount] = field(default_factory=lambda: defaultdict(TierCount))
    late: int = 0
    missed: int = 0
    counters: dict[tuple[str, str], CounterState] = field(default_factory=dict)
    """By GPU and reading."""
    first: int | None = None
    last: int | None = None
    startup: tuple[float, float] | None = None
    """Seconds after the first tick, and what the process had cost by then: start-up is no part of the overhead."""
    _minute: int = 0
    _closed: int | None = None
    _delays: deque[int] = field(default_factory=deque)
    """Of the ticks since the last look."""

    def tick(self, deadline: int, now: int) -> None:
        """Count a tick that fired at `now`."""
        self.ticks += 1
        self._delays.append(now - deadline)
        if self.first is None:
            self.first = now
        self.last = now

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
        """Seconds from the first tick to the last."""
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


def thread_usage() -> resource.struct_rusage:
    """Resource usage of the calling thread; not converted, because every read asks for it."""
    return resource.getrusage(resource.RUSAGE_THREAD)  # Linux has it; other systems import this file, too


class Budget:
    """How often each tier is read: `every` has a number of ticks per tier.

    Shared by the threads that sample one after the other.
    """

    def __init__(self, plan: SamplingPlan, report: Report, spending: Spending = thread_usage) -> None:
        self._plan, self._report, self._spending = plan, report, spending
        self._planned = [planned.every for planned in plan.tiers]
        self._highest = list(self._planned)
        self.every = list(self._planned)
        self._reads = [Durations() for _ in self._planned]
        self._medians = [0] * len(self._planned)
        self._spent = spending()
        self._since = 0

    def begin(self, now: int) -> None:
        """Start a window; called by each sampling thread before its first read."""
        self._since = now
        self._spent = self._spending()

    def enter(self) -> None:
        """Note what the thread has spent before a read that is judged."""
        self._spent = self._spending()

    def add(self, tier: int, inside_ns: int, calls: Mapping[tuple[str, ...], int]) -> None:
        """Count one read of a tier, which spent `inside_ns` of elapsed time inside the driver."""
        before, spent = self._spent, self._spending()
        if spent.ru_nivcsw != before.ru_nivcsw:
            inside_ns = min(inside_ns, _processor_ns(spent) - _processor_ns(before))
        self._reads[tier].add(inside_ns)

    def judge(self, now: int) -> None:
        """Lower or raise rates, once per window."""
        if now - self._since < WINDOW:
            return
        self._since = now
        for tier, reads in enumerate(self._reads):
            if reads.count >= FEWEST_READS:
                self._medians[tier] = reads.quantile(0.5) or 0
                self._reads[tier] = Durations()
        self._set(self._lowered() or self._raised())

    def lowered(self) -> list[dict[str, object]]:
        """Each tier that was ever read less often than planned, with its lowest and its planned rate."""
        return [
            {
                "tier": planned.tier.name,
                "hz": self._hz(self._highest[tier]),
                "planned_hz": self._hz(planned.every),
            }
            for tier, planned in enumerate(self._plan.tiers)
            if self._highest[tier] > planned.every
        ]

    def _lowered(self) -> list[int] | None:
        """Rates within the budget; None if they already are, or if no tier can be lowered."""
        every, slowest = list(self.every), max(1, round(SLOWEST_S * self._plan.hz))
        while (
            tier := tier_to_lower(every, self._shares(every), self._plan.max_overhead, slowest)
        ) is not None:
            every[tier] *= 2
        return every if every != self.every else None

    def _raised(self) -> list[int]:
        """Rates one step higher for each tier that has room for it, the fastest first."""
        every = list(self.every)
        for tier in sorted(range(len(every)), key=lambda tier: self._planned[tier]):
            trial = list(every)
            trial[tier] = max(self._planned[tier], every[tier] // 2)
            if sum(self._shares(trial)) <= ROOM * self._plan.max_overhead:
                every = trial
        return every

    def _shares(self, every: Sequence[int]) -> list[float]:
        """The share of a core that each tier would cost at these rates."""
        return [median / SECOND * self._hz(ticks) for median, ticks in zip(self._medians, every, strict=True)]

    def _set(self, every: list[int]) -> None:
        before, share = self.every, sum(self._shares(self.every))
        self.every = every
        self._highest = [max(pair) for pair in zip(self._highest, every, strict=True)]
        for tier, (old, new) in enumerate(zip(before, every, strict=True)):
            if old != new:
                self._report_rate(tier, self._hz(old), self._hz(new), share)

    def _report_rate(self, tier: int, old_hz: float, new_hz: float, share: float) -> None:
        name, percent = self._plan.tiers[tier].tier.name, 100 * min(share, 1)
        limit = "more than" if new_hz < old_hz else "which leaves room within"
        budget = f"the {100 * self._plan.max_overhead:g} % of --max-overhead"
        why = f"calls into the driver take {percent:.{percent < 10:d}f} % of a core, {limit} {budget}"
        text = f"tier {name} is now sampled at {new_hz:g} Hz instead of {old_hz:g} Hz: {why}"
        self._report("rate", text, tier=name, why=why, **{"from": old_hz, "to": new_hz})

    def _hz(self, every: int) -> float:
        return round(self._plan.hz / every, 4)


def _processor_s() -> float:
    """Processor time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _processor_ns(spent: resource.struct_rusage) -> int:
    return round((spent.ru_utime + spent.ru_stime) * SECOND)


def tier_to_lower(every: Sequence[int], costs: Sequence[float], budget: float, slowest: int) -> int | None:
    """The tier to read half as often if costs (shares of a core) exceed the budget: the slowest that matters.

    `slowest` is the most ticks allowed between two reads. None if nothing needs to, or can, be lowered.
    """
    if sum(costs) <= budget:
        return None
    costly = [
        i for i, cost in enumerate(costs) if cost >= WORTH_LOWERING * budget and every[i] * 2 <= slowest
    ]
    return max(costly, key=lambda i: (every[i], i), default=None)
