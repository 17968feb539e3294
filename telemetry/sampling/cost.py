"""What the sampler costs and how well it keeps time: counted at each tick, in memory that does not grow.

Durations go into buckets whose width is a sixteenth of their value: a quantile is right to 6 %, after a week too.
"""

from __future__ import annotations

import resource
from collections import Counter
from dataclasses import dataclass, field

from gputel.telemetry.clock import SECOND

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
class Cost:
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
