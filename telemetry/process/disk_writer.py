"""Writes what the queues hold into output.log and output.idx, in a thread of its own, since a disk may hang.

A write that fails is tried again every second; until then the queue holds on. It never raises: a full disk is an
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
"""Output that still comes so long after the command's end is somebody else's, for whom the end is not held back."""


class DiskWriter(threading.Thread):
    def __init__(self, folder: Path, files: list[tuple[Ring, int]], ledger: Ledger, news: int) -> None:
        """`files`: queues and where they go, in the order in which they are written."""
        super().__init__(name="disk-writer", daemon=True)
        self._folder, self._files, self._ledger, self._news = folder, files, ledger, news
        self._wake = threading.Event()
        self._deadline: float | None = None
        self._told_lost = ledger.lost
        self._untold: list[tuple[str, str]] = []

    def wake(self) -> None:
        self._wake.set()

    def finish(self, patience_s: float) -> None:
        """Write the rest. A disk that takes nothing gets `patience_s`; one that hangs is waited for."""
        self._deadline = time.monotonic() + patience_s
        self._wake.set()
        self.join()

    def run(self) -> None:
        while not self._is_done():
            self._wake.wait(RETRY_S if self._ledger.fault or self._untold or self._deadline else None)
            self._wake.clear()
            self._turn()

    def _turn(self) -> None:
        try:
            for ring, descriptor in self._files:
                drain(ring, descriptor)
            self._ledger.fault = None
        except OSError as error:
            self._failed(error)
        self._tell()
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
            self._untold.append(("disk_full", f"the command's output cannot be written: {error.strerror}"))
        self._ledger.fault = error.errno

    def _tell(self) -> None:
        """Events, once the disk takes them."""
        lost = self._ledger.lost
        if lost > self._told_lost and not self._ledger.fault:
            text = f"{lost - self._told_lost} bytes of output were lost: the disk did not take them in time"
            self._untold.append(("gap", text))
            self._told_lost = lost
        with contextlib.suppress(OSError):
            while self._untold:
                events.append(self._folder, time.time_ns(), *self._untold[0])
                del self._untold[0]

    def _record_end(self) -> None:
        """Behind the last byte, so that whoever reads of the end has the whole output."""
        ended = self._ledger.ended
        if ended is None or self._ledger.recorded:
            return
        if self._is_whole() or self._ledger.fault or time.monotonic_ns() - ended.monotonic > OUTLIVED:
            with contextlib.suppress(OSError, GputelError):
                record_end(self._folder, self._ledger)

    def _is_whole(self) -> bool:
        return self._ledger.source_ended and all(ring.head == ring.tail for ring, _ in self._files)


def drain(ring: Ring, descriptor: int) -> None:
    """All that is held. A short write is gone on with; OSError says that nothing more is taken now."""
    while parts := ring.held(AT_ONCE):
        ring.take(os.writev(descriptor, parts))


def record_end(folder: Path, ledger: Ledger) -> None:
    """The end in run.json, by whoever lives."""
    if ledger.ended:
        run_folder.update(folder, ended=ledger.ended.as_json(), exit_code=ledger.exit_code)
        ledger.recorded = True
