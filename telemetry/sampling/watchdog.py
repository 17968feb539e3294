"""Looks whether the sampling thread is stuck in a call into the driver, and if so has a successor take its turn.

Nothing can end a thread that is inside a C call. So it is left alone, with its buffers; the GPU it asks is left
out, and a new thread goes on with the others. When the call returns at last, that thread finds its turn over.
"""

from __future__ import annotations

from collections.abc import Callable

from gputel.telemetry.clock import SECOND
from gputel.telemetry.machine import Report
from gputel.telemetry.sampling.loop import Turn

LIMIT = SECOND // 4
LOOK_EVERY_S = 0.05


class Watchdog:
    def __init__(self, turn: Turn, succeed: Callable[[], None], report: Report, limit: int = LIMIT) -> None:
        self._turn, self._succeed, self._report, self._limit = turn, succeed, report, limit

    def look(self, now: int) -> None:
        turn = self._turn
        entry = turn.entered
        if entry is None:
            return
        generation, gpu, since = entry
        if now - since < self._limit or generation != turn.generation:
            return
        with turn.lock:
            if turn.entered is not entry:
                return  # it returned just now
            turn.generation += 1
            turn.entered = None
        turn.left_out.add(gpu)
        turn.hangs[gpu] = turn.hangs.get(gpu, 0) + 1
        waited = self._limit / SECOND
        text = f"GPU {gpu.index} is left out: a call into the driver has not returned for {waited:g} s"
        self._report("gpu_lost", text, gpu=gpu.index, cause="hang")
        self._succeed()

    def stuck(self) -> bool:
        """A call has not returned: then the driver must not be shut down, and only `os._exit` leaves."""
        return self._turn.entered is not None or bool(self._turn.left_out - self._turn.returned.keys())
