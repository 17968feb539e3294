"""Three clocks, read together, and a sleep until a deadline.

The wall clock names a moment for people and jumps under NTP; the monotonic clock measures durations; the boot
clock counts through a suspend and stamps the driver's own samples.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import NamedTuple, Protocol

SECOND = 1_000_000_000


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
        boot = time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
        return Stamp(time.time_ns(), time.monotonic_ns(), boot)

    monotonic = staticmethod(time.monotonic_ns)  # saves a Python frame at every tick

    def sleep_until(self, monotonic: int) -> None:
        remaining = monotonic - time.monotonic_ns()
        if remaining > 0:
            time.sleep(remaining / SECOND)


def iso(wall_ns: int) -> str:
    """ISO 8601 in UTC with all nine digits; `datetime` alone would cut them to six."""
    seconds, nanoseconds = divmod(wall_ns, SECOND)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
