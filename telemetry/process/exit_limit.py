"""Ends the recorder with the command's exit code where a hanging disk would hold it forever.

Once the command has ended, a write may hang in the kernel, where Python handles no signal. A thread looks whether
this process, and the child that it waits for, still use the processor: a slow disk is waited for while anything
happens. The thread is there only at the end, because the recorder forks before that.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from pathlib import Path

LIMIT_S = 180.0
"""Longer than the last of a run may take to be sent."""
LOOK_S = 1.0
LONGEST_LOOK_S = 2.0
"""The most that counts between two looks: while Ctrl-Z stops this process, none happens."""
NOISE_NS = 1_000_000
"""A process that takes less of the processor between two looks does nothing."""


class ExitLimit:
    """Begins when the command has ended; `child` is a process that this one waits for."""

    def __init__(self, place: Path, limit_s: float = LIMIT_S) -> None:
        self.child: int | None = None
        self._place, self._limit_s = place, limit_s
        self._code = self._spent_ns = 0
        self._idle_s, self._looked = 0.0, time.monotonic()
        self._thread = threading.Thread(target=self._watch, name="exit-limit", daemon=True)

    def begin(self, code: int) -> None:
        """End with this code from now on, if nothing happens for so long."""
        self._code = code
        with contextlib.suppress(RuntimeError, MemoryError):  # no room for a thread
            self._thread.start()

    def _watch(self) -> None:
        while not self.is_over(time.monotonic(), self.spent_ns()):
            time.sleep(LOOK_S)
        line = f"{self._place}: the disk hangs; what was not written by now is left behind\n"
        with contextlib.suppress(OSError):
            if select.select([], [2], [], 0)[1]:
                os.write(2, line.encode(errors="replace"))
        os._exit(self._code)

    def is_over(self, now_s: float, spent_ns: int) -> bool:
        """Whether nothing has happened for so long, by the processor time at each look."""
        is_idle = spent_ns - self._spent_ns <= NOISE_NS
        self._idle_s = self._idle_s + min(now_s - self._looked, LONGEST_LOOK_S) if is_idle else 0.0
        self._looked, self._spent_ns = now_s, spent_ns
        return self._idle_s >= self._limit_s

    def spent_ns(self) -> int:
        """Processor time of this process, without this thread, and of the child."""
        own = time.process_time_ns() - time.thread_time_ns()
        with contextlib.suppress(OSError):
            if self.child is not None:  # Linux makes the number of a process's clock from its pid
                return own + time.clock_gettime_ns(~self.child << 3 | 2)
        return own
