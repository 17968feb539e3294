"""Detects a sampling thread that is stuck in a call into the driver, and starts a successor.

A thread inside a C call cannot be ended. It is left alone with its buffers; its GPU is left out, and a new thread
samples the others. When the call returns, the old thread finds that it has lost its turn, and ends.
"""

from __future__ import annotations

from collections.abc import Callable

from gputel.telemetry.clock import SECOND
from gputel.telemetry.machine import Report
from gputel.telemetry.sampling.turn import Turn

LIMIT = SECOND // 4
LOOK_EVERY_S = 0.25


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
