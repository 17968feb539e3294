"""What the sampler costs and how well it keeps time: counted at each tick, in memory that does not grow.

Durations go into buckets whose width is a sixteenth of their value: a quantile is right to 6 %, after a week too.

The budget: what reading each tier costs inside the driver, and how often the tier is read for that.

Judged by the median read of many seconds, so that a stall of the driver now and then changes nothing. Of a read
during which the machine ran somebody else, only the processor time of this thread counts. A rate that was lowered
comes back when there is room again.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gputel.telemetry.clock import SECOND
from gputel.telemetry.machine import Report
from gputel.telemetry.sampling.plan import SamplingPlan

BUCKETS_AN_OCTAVE = 16


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
        """Nanoseconds; the upper edge of the bucket in which it lies. None before the first."""
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= share * self.count:
                octave, part = bucket >> 4, bucket & 15
                return min(self.most, (17 + part << octave) >> 5)
        return None


@dataclass
class SamplingCost:
    """Of one life of the sampler, over all of its threads."""

    period_ns: int
    lateness: Durations = field(default_factory=Durations)
    ticks: int = 0
    rows: int = 0
    """Of the fastest tier: where it was lowered, not every tick has one."""
    late: int = 0
    missed: int = 0
    inside_ns: Counter[str] = field(default_factory=Counter)
    """By tier; stalls of the driver and of the machine count, too."""
    first: int | None = None
    last: int | None = None

    def tick(self, deadline: int, now: int) -> None:
        late = max(0, now - deadline)
        self.ticks += 1
        self.late += late > self.period_ns
        self.lateness.add(late)
        self.first = self.first or now
        self.last = now

    @property
    def sampled_s(self) -> float:
        """From the first tick to the last."""
        return 0.0 if self.first is None or self.last is None else (self.last - self.first) / SECOND

    @property
    def hz(self) -> float | None:
        """Rows of the fastest tier a second."""
        return (self.rows - 1) / self.sampled_s if self.sampled_s and self.rows else None

    def as_json(self) -> dict[str, object]:
        p50, p99 = self.lateness.quantile(0.5), self.lateness.quantile(0.99)
        used = resource.getrusage(resource.RUSAGE_SELF)
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
            "inside_driver_s": {tier: ns / SECOND for tier, ns in self.inside_ns.items()},
            "cpu_s": round(used.ru_utime + used.ru_stime, 4),
            "resident_mib": used.ru_maxrss / 1024,
        }


WINDOW = 10 * SECOND
FEWEST_READS = 5
"""A tier with fewer in a window is judged in a later one, by all reads since it was judged last."""
WORTH_LOWERING = 0.1
"""A tier is lowered only if it costs this share of the budget; else slow readings would be lost for nothing."""
ROOM = 0.8
"""A rate comes back only if all tiers then take less than this share of the budget, so that it stays."""
SLOWEST_S = 10


Spending = Callable[[], resource.struct_rusage]


def spent_by_thread() -> resource.struct_rusage:
    """By the thread that calls, since it began; left as it comes, since it is asked for at every read."""
    return resource.getrusage(resource.RUSAGE_THREAD)  # Linux has it; other systems import this file, too


class Budget:
    """Shared by the threads that sample one after the other; `every` is in ticks, a number a tier."""

    def __init__(self, plan: SamplingPlan, report: Report, spending: Spending = spent_by_thread) -> None:
        self._plan, self._report, self._spending = plan, report, spending
        self._planned = [planned.every for planned in plan.tiers]
        self._highest = list(self._planned)
        self.every = list(self._planned)
        self._reads = [Durations() for _ in self._planned]
        self._medians = [0] * len(self._planned)
        self._spent = spending()
        self._since = 0

    def begin(self, now: int) -> None:
        """Called by each thread that samples, before its first read."""
        self._since = now
        self._spent = self._spending()

    def add(self, tier: int, inside_ns: int) -> None:
        """One read of a tier, which spent so long inside the driver by the clock on the wall."""
        before = self._spent
        spent = self._spent = self._spending()
        if spent.ru_nivcsw != before.ru_nivcsw:
            inside_ns = min(inside_ns, _processor_ns(spent) - _processor_ns(before))
        self._reads[tier].add(inside_ns)

    def judge(self, now: int) -> None:
        """Lower or raise rates, once a window."""
        if now - self._since < WINDOW:
            return
        self._since = now
        for tier, reads in enumerate(self._reads):
            if reads.count >= FEWEST_READS:
                self._medians[tier] = reads.quantile(0.5) or 0
                self._reads[tier] = Durations()
        self._set(self._lowered() or self._raised())

    def lowered(self) -> list[dict[str, object]]:
        """Each tier that was ever read less often than planned: its lowest rate, and the planned one."""
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
        """Rates within the budget; None where it is kept already, or nothing is left to lower."""
        every, slowest = list(self.every), max(1, round(SLOWEST_S * self._plan.hz))
        while (dear := lower(every, self._shares(every), self._plan.max_overhead, slowest)) is not None:
            every[dear] *= 2
        return every if every != self.every else None

    def _raised(self) -> list[int]:
        """One step up for each tier that has room for it, the fastest first."""
        every = list(self.every)
        for tier in sorted(range(len(every)), key=lambda tier: self._planned[tier]):
            trial = list(every)
            trial[tier] = max(self._planned[tier], every[tier] // 2)
            if sum(self._shares(trial)) <= ROOM * self._plan.max_overhead:
                every = trial
        return every

    def _shares(self, every: Sequence[int]) -> list[float]:
        """Of a core, for each tier if it were read so often."""
        return [median / SECOND * self._hz(ticks) for median, ticks in zip(self._medians, every, strict=True)]

    def _set(self, every: list[int]) -> None:
        before, share = self.every, sum(self._shares(self.every))
        self.every = every
        self._highest = [max(pair) for pair in zip(self._highest, every, strict=True)]
        for tier, (old, new) in enumerate(zip(before, every, strict=True)):
            if old != new:
                self._say(tier, self._hz(old), self._hz(new), share)

    def _say(self, tier: int, old_hz: float, new_hz: float, share: float) -> None:
        name, percent = self._plan.tiers[tier].tier.name, 100 * min(share, 1)
        limit = "more than" if new_hz < old_hz else "which leaves room within"
        budget = f"the {100 * self._plan.max_overhead:g} % of --max-overhead"
        why = f"calls into the driver take {percent:.{percent < 10:d}f} % of a core, {limit} {budget}"
        text = f"tier {name} is sampled at {new_hz:g} Hz, no longer at {old_hz:g} Hz: {why}"
        self._report("rate", text, tier=name, why=why, **{"from": old_hz, "to": new_hz})

    def _hz(self, every: int) -> float:
        return round(self._plan.hz / every, 4)


def _processor_ns(spent: resource.struct_rusage) -> int:
    return round((spent.ru_utime + spent.ru_stime) * SECOND)


def lower(every: Sequence[int], costs: Sequence[float], budget: float, slowest: int) -> int | None:
    """Which tier to read half as often where costs (shares of a core) are over the budget: the slowest that costs.

    `slowest` is the most ticks that may lie between two readings. None where the budget is kept or nothing is left.
    """
    if sum(costs) <= budget:
        return None
    dear = [i for i, cost in enumerate(costs) if cost >= WORTH_LOWERING * budget and every[i] * 2 <= slowest]
    return max(dear, key=lambda i: (every[i], i), default=None)
