"""Three clocks read together, and a sleep that keeps to a deadline.

The wall clock names a moment for people and jumps under NTP; the monotonic clock measures; the boot clock
goes on through a suspend, and is the one that the driver stamps its own samples with.
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
    def stamp(self) -> Stamp: ...

    def monotonic(self) -> int: ...

    def sleep_until(self, monotonic: int) -> None: ...


class SystemClock:
    def stamp(self) -> Stamp:
        boot = time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
        return Stamp(time.time_ns(), time.monotonic_ns(), boot)

    monotonic = staticmethod(time.monotonic_ns)  # without a frame of its own: it is called at every tick

    def sleep_until(self, monotonic: int) -> None:
        left = monotonic - time.monotonic_ns()
        if left > 0:
            time.sleep(left / SECOND)


def iso(wall_ns: int) -> str:
    """ISO 8601 in UTC with all nine digits, which `datetime` alone would cut to six."""
    seconds, rest = divmod(wall_ns, SECOND)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
