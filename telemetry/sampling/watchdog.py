"""Detects a sampling thread that is stuck in a call into the driver, and starts a successor.

A thread inside a C call cannot be ended. It is left alone with its buffers; its GPU is left out, and a new thread
samples the others. When the call returns, the old thread finds that it has lost its turn, and ends.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from gputel.telemetry.clock import SECOND, Clock
from gputel.telemetry.machine import Gpu, Report

LIMIT = SECOND // 4
LOOK_EVERY_S = 0.25
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


class Watchdog:
    """Calls `succeed` when a call into the driver does not return."""

    def __init__(self, turn: Turn, succeed: Callable[[], None], report: Report) -> None:
        self._turn, self._succeed, self._report = turn, succeed, report

    def look(self, now: int, limit: int = LIMIT) -> None:
        """Check whether the call in flight has lasted longer than `limit` nanoseconds."""
        turn = self._turn
        entry = turn.entered
        if entry is None:
            return
        generation, gpu, since = entry
        if now - since < limit or generation != turn.generation:
            return
        with turn.lock:
            if turn.entered is not entry:
                return  # the call has just returned
            turn.generation += 1
            turn.entered = None
        turn.left_out.add(gpu)
        turn.returned.pop(gpu, None)
        is_new = since >= turn.forgotten_at.get(gpu, 0)
        turn.hangs[gpu] = 1 if is_new else turn.hangs.get(gpu, 0) + 1
        waited = limit / SECOND
        text = f"GPU {gpu.index} is left out: a call into the driver has not returned for {waited:g} s"
        self._report("gpu_lost", text, gpu=gpu.index, cause="hang")
        self._succeed()

    def stuck(self) -> bool:
        """Whether a call has not returned: shutting the driver down would crash, and only `os._exit` ends us."""
        return self._turn.entered is not None or bool(self._turn.left_out - self._turn.returned.keys())
