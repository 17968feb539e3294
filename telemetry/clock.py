"""Three clocks, read together, and a sleep until a deadline.

The wall clock names a moment for people; the monotonic clock measures durations; the boot clock counts through a
suspend and stamps the driver's own samples. The wall clock is read once: from there on it goes with the boot clock,
so that setting the machine's clock moves no line and no sample of a recording against another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

SECOND = 1_000_000_000
TORN_NS = 20_000
TRIES = 5
BOOT_NAME = Path("/proc/sys/kernel/random/boot_id")
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
        """All three clocks at one moment."""
        boot = boot_ns()
        return Stamp(boot + wall_at_boot(), boot + _ahead_of_boot(time.monotonic_ns), boot)

    monotonic = staticmethod(time.monotonic_ns)  # saves a Python frame at every tick

    def sleep_until(self, monotonic: int) -> None:
        remaining = monotonic - time.monotonic_ns()
        if remaining > 0:
            time.sleep(remaining / SECOND)


def boot_name() -> str | None:
    """The kernel's name for the time since the machine was started: boot clocks are compared within one."""
    try:
        return BOOT_NAME.read_text().strip()
    except OSError:
        return None


def boot_ns() -> int:
    """The boot clock."""
    return time.clock_gettime_ns(BOOT)


def wall_ns() -> int:
    """The wall clock as recordings have it."""
    return wall_at_boot() + boot_ns()


def wall_s() -> float:
    """The wall clock in seconds."""
    return wall_ns() / SECOND


@cache
def wall_at_boot() -> int:
    """What the wall clock was when the boot clock was 0, read once: a process forked after that has the same."""
    return _ahead_of_boot(time.time_ns)


def set_by_ns() -> int:
    """Returns how far the machine's wall clock was set forward since `wall_at_boot` was read."""
    return _ahead_of_boot(time.time_ns) - wall_at_boot()


def _ahead_of_boot(clock: Callable[[], int]) -> int:
    """Returns how far a clock is ahead of the boot clock: by the fastest of some tries, at best TORN_NS.

    On a busy machine a thread may be interrupted for milliseconds between two clocks, and the times of a second of
    ticks depend on their difference.
    """
    best, ahead = TORN_NS, 0
    for number in range(TRIES):
        before = boot_ns()
        moment = clock()
        took = boot_ns() - before
        if number == 0 or took < best:
            best, ahead = took, moment - before - took // 2
        if took < TORN_NS:
            break
    return ahead


def iso(wall_ns: int) -> str:
    """ISO 8601 in UTC with all nine digits; `datetime` alone would cut them to six."""
    seconds, nanoseconds = divmod(wall_ns, SECOND)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
