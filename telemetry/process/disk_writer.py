"""Writes the keeper's queues into output.log and output.idx, in a thread of its own, because a disk may hang.

A failed write is retried every second, while the queue holds the data. It never raises: a full disk becomes an
event, written when there is room again.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process.shared_memory import Ledger, Ring

AT_ONCE = 1 << 20
RETRY_S = 1.0
OUTLIVED = SECOND // 2
"""Output that comes this long after the command's end is from another process; the end is recorded without it."""


class DiskWriter(threading.Thread):
    """Writes queues into files, in a thread."""

    def __init__(self, folder: Path, files: list[tuple[Ring, int]], ledger: Ledger, news: int) -> None:
        """`files` are queues and their descriptors, in the order in which they are written."""
        super().__init__(name="disk-writer", daemon=True)
        self._folder, self._files, self._ledger, self._news = folder, files, ledger, news
        self._wake = threading.Event()
        self._deadline: float | None = None
        self._reported_lost = ledger.lost
        self._unwritten_events: list[tuple[str, str]] = []

    def wake(self) -> None:
        self._wake.set()

    def finish(self, patience_s: float) -> None:
        """Write the rest. Gives up on a full disk after `patience_s`, and waits for one that hangs."""
        self._deadline = time.monotonic() + patience_s
        self._wake.set()
        self.join()

    def run(self) -> None:
        while not self._is_done():
            retry = self._ledger.fault or self._unwritten_events or self._deadline
            self._wake.wait(RETRY_S if retry else None)
            self._wake.clear()
            self._turn()

    def _turn(self) -> None:
        try:
            for ring, descriptor in self._files:
                drain(ring, descriptor)
            self._ledger.fault = None
        except OSError as error:
            self._failed(error)
        self._write_events()
        self._record_end()
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._news, 1)

    def _is_done(self) -> bool:
        if self._deadline is None:
            return False
        if time.monotonic() > self._deadline and self._ledger.fault:
            ring = self._files[0][0]
            self._ledger.lost += ring.head - ring.tail
            return True
        return not self._ledger.fault and all(ring.head == ring.tail for ring, _ in self._files)

    def _failed(self, error: OSError) -> None:
        if not self._ledger.fault:
            text = f"the command's output cannot be written: {error.strerror}"
            self._unwritten_events.append(("disk_full", text))
        self._ledger.fault = error.errno

    def _write_events(self) -> None:
        """Write events about the disk, once it takes them."""
        lost = self._ledger.lost
        if lost > self._reported_lost and not self._ledger.fault:
            text = (
                f"{lost - self._reported_lost} bytes of output were lost: the disk did not take them in time"
            )
            self._unwritten_events.append(("gap", text))
            self._reported_lost = lost
        with contextlib.suppress(OSError):
            while self._unwritten_events:
                events.append(self._folder, time.time_ns(), *self._unwritten_events[0])
                del self._unwritten_events[0]

    def _record_end(self) -> None:
        """Record the end after the last byte, so that a reader who sees the end has the whole output."""
        ended = self._ledger.ended
        if ended is None or self._ledger.recorded:
            return
        if self._is_whole() or self._ledger.fault or time.monotonic_ns() - ended.monotonic > OUTLIVED:
            with contextlib.suppress(OSError, GputelError):
                record_end(self._folder, self._ledger)

    def _is_whole(self) -> bool:
        return self._ledger.source_ended and all(ring.head == ring.tail for ring, _ in self._files)


def drain(ring: Ring, descriptor: int) -> None:
    """Write everything in the queue. Raises OSError when the file takes no more."""
    while parts := ring.oldest(AT_ONCE):
        ring.take(os.writev(descriptor, parts))


def record_end(folder: Path, ledger: Ledger) -> None:
    """Write the end into run.json; the keeper or the viewer does it, whichever survives."""
    if ledger.ended:
        run_folder.update_end(folder, ended=ledger.ended.as_json(), exit_code=ledger.exit_code)
        ledger.recorded = True
