"""Whose turn it is to sample: a thread may be stuck in a call into the driver forever, and another one goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from gputel.telemetry.clock import SECOND, Clock
from gputel.telemetry.machine import Gpu

FORGOTTEN_AFTER_WAITS = 10
"""A call that stalls once a minute costs its GPU a second; one that hangs at each try is tried ever less often."""

DriverCall = tuple[int, Gpu, int]
"""A call into the driver that has not returned: generation, GPU, start. A plain tuple, the fastest to make."""


class Stale(Exception):  # noqa: N818 - ends a thread that lost its turn
    """Another thread samples now."""


@dataclass
class Turn:
    """Whose turn it is to sample: only the thread of the current generation may write."""

    generation: int = 0
    stopping: bool = False
    entered: DriverCall | None = None
    left_out: set[Gpu] = field(default_factory=set)
    """GPUs not sampled, because a thread is or was stuck in a call to them."""
    hangs: dict[Gpu, int] = field(default_factory=dict)
    """How many calls to each GPU have hung, one soon after the other."""
    forgotten_at: dict[Gpu, int] = field(default_factory=dict)
    """When the hangs of a GPU that has answered since then no longer count."""
    returned: dict[Gpu, int] = field(default_factory=dict)
    """GPUs of `left_out` whose call has returned, and when to try them again."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def calling(self, gpu: Gpu, generation: int, clock: Clock) -> Iterator[None]:
        """Enter a call into the driver, which the watchdog sees. Raises Stale if it gave up on the call."""
        self.entered = generation, gpu, clock.monotonic()
        try:
            yield
        finally:
            if self.generation != generation:
                self.come_back(gpu, clock.monotonic())
            self.entered = None

    def come_back(self, gpu: Gpu, now: int) -> NoReturn:
        """A call returned after the watchdog gave up on it: schedule the next try, later each time."""
        wait = min(60, 2 ** self.hangs.get(gpu, 1) // 2) * SECOND
        self.returned[gpu] = now + wait
        self.forgotten_at[gpu] = now + FORGOTTEN_AFTER_WAITS * wait
        raise Stale
