"""Writes the sampling process's own events and facts into the run folder, in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path

from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import Clock
from gputel.telemetry.errors import GputelError
from gputel.telemetry.whole_files import NO_ROOM

MOST_WAITING = 1000
"""Events and facts that wait for room on a full disk."""


class FolderWriter:
    """Writes events and run.json in a thread of its own; neither raises nor makes the caller wait.

    What a full disk does not take is tried again with what comes next, and at the end in the reserved room.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._write, name="folder-writer", daemon=True)
        self._thread.start()

    def event(self, kind: str, text: str, **facts: object) -> None:
        wall = self._clock.stamp().wall
        self._tasks.put(lambda: events.append(self._folder, wall, kind, text, **facts))

    def describe(self, **facts: object) -> None:
        self._tasks.put(lambda: run_folder.update(self._folder, **facts))

    def describe_end(self, **facts: object) -> None:
        """Describes the end; on a full disk, in the room that was reserved for it."""
        self._tasks.put(lambda: run_folder.update_end(self._folder, facts))

    def close(self, patience_s: float = 30.0) -> None:
        self._tasks.put(None)
        self._thread.join(patience_s)

    def _write(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._waiting.append(task)
            self._work_off()
        if self._waiting:
            self._work_off()
        if self._waiting:
            run_folder.reserve(self._folder).lend()
            self._work_off()

    def _work_off(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            try:
                each()
            except OSError as error:
                if error.errno in NO_ROOM and len(self._waiting) < MOST_WAITING:
                    self._waiting.append(each)
            except GputelError:
                continue
