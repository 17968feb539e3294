"""A clock on which threads take turns: the one that wakes first runs, and time jumps to its moment.

Nothing takes time but sleep. So an hour passes as fast as the threads work, and each run of a seed is the same.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

from gputel.telemetry.clock import Stamp

WALL = 1_700_000_000_000_000_000


class VirtualTime:
    """`moved` hears of each new time. The thread that makes it has the first turn."""

    def __init__(self, now: int, moved: Callable[[int], object]) -> None:
        self.now = now
        self._moved = moved
        self._wakes: list[tuple[int, int, int]] = []
        self._order = itertools.count()
        self._condition = threading.Condition()
        self._turn = threading.get_ident()
        moved(now)

    def stamp(self) -> Stamp:
        return Stamp(WALL + self.now, self.now, self.now)

    def monotonic(self) -> int:
        return self.now

    def sleep_until(self, monotonic: int) -> None:
        mine = threading.get_ident()
        with self._condition:
            heapq.heappush(self._wakes, (max(monotonic, self.now), next(self._order), mine))
            self._hand_on()
            self._condition.wait_for(lambda: self._turn == mine)

    def start(self, work: Callable[[], None]) -> None:
        """Run this in a thread, which gets its first turn when the present one sleeps."""
        thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        thread.start()
        with self._condition:
            assert thread.ident is not None
            heapq.heappush(self._wakes, (self.now, next(self._order), thread.ident))

    def _run(self, work: Callable[[], None]) -> None:
        mine = threading.get_ident()
        with self._condition:
            self._condition.wait_for(lambda: self._turn == mine)
        try:
            work()
        finally:
            with self._condition:
                self._hand_on()

    def _hand_on(self) -> None:
        wake, _, thread = heapq.heappop(self._wakes)
        if wake > self.now:
            self.now = wake
            self._moved(wake)
        self._turn = thread
        self._condition.notify_all()
