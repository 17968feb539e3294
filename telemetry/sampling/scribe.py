"""Writes the sampler's events and its part of run.json, in a thread of its own: a shared folder may take 30 s.

Nothing that is told to it raises or waits. A full disk loses what could not be written, and is tried again with the
next word.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from pathlib import Path

from gputel.telemetry import events, run
from gputel.telemetry.clock import Clock
from gputel.telemetry.errors import GputelError


class Scribe:
    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._words: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="scribe", daemon=True)
        self._thread.start()

    def event(self, kind: str, text: str, **facts: object) -> None:
        wall = self._clock.stamp().wall
        self._words.put(lambda: events.append(self._folder, wall, kind, text, **facts))

    def describe(self, **facts: object) -> None:
        self._words.put(lambda: run.update(self._folder, **facts))

    def close(self, patience_s: float = 30.0) -> None:
        self._words.put(None)
        self._thread.join(patience_s)

    def _write(self) -> None:
        while (word := self._words.get()) is not None:
            with contextlib.suppress(OSError, GputelError):
                word()
