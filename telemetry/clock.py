"""Three clocks, read together, and a sleep until a deadline.

The wall clock names a moment for people and jumps under NTP; the monotonic clock measures durations; the boot
clock counts through a suspend and stamps the driver's own samples.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from operator import itemgetter
from typing import NamedTuple, Protocol

SECOND = 1_000_000_000
TORN_NS = 20_000
TRIES = 5
BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Stamp(NamedTuple):
    """One moment on all three clocks, in nanoseconds."""

    wall: int
    monotonic: int
    boot: int

    def as_json(self) -> dict[str, object]:
        return {
            "time": iso(self.wall),
            "wall_ns": self.wall,
            "monotonic_ns": self.monotonic,
            "boot_ns": self.boot,
        }


class Clock(Protocol):
    """The time source of every recorder; tests pass one that moves only when told to."""

    def stamp(self) -> Stamp: ...

    def monotonic(self) -> int: ...

    def sleep_until(self, monotonic: int) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    def stamp(self) -> Stamp:
        """All three clocks within TORN_NS, or the best of some tries: on a busy machine a thread may be
        interrupted for milliseconds between two of them, and the wall time of a second of ticks hangs on it."""
        return min(self._stamps(), key=itemgetter(1))[0]

    def _stamps(self) -> Iterator[tuple[Stamp, int]]:
        """Stamps with the nanoseconds that each took, until one was quick."""
        for _ in range(TRIES):
            before = time.monotonic_ns()
            wall = time.time_ns()
            boot = time.clock_gettime_ns(BOOT)
            took = time.monotonic_ns() - before
            yield Stamp(wall, before + took // 2, boot), took
            if took < TORN_NS:
                return

    monotonic = staticmethod(time.monotonic_ns)  # saves a Python frame at every tick

    def sleep_until(self, monotonic: int) -> None:
        remaining = monotonic - time.monotonic_ns()
        if remaining > 0:
            time.sleep(remaining / SECOND)


def iso(wall_ns: int) -> str:
    """ISO 8601 in UTC with all nine digits; `datetime` alone would cut them to six."""
    seconds, nanoseconds = divmod(wall_ns, SECOND)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
