"""Writes the keeper's queues into output.log and output.idx, in a thread of its own, because a disk may hang.

A failed write is retried every second, while the queue holds the data. It never raises: a full disk becomes an
event, written when there is room again. Where a full disk would fill the queue, the oldest bytes that the screen
has shown are given up, so that the screen never lacks anything and the last 64 MiB are still there when there is
room again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND, wall_ns
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process.output_index import RECORD, UNKNOWN
from gputel.telemetry.process.shared_memory import Ledger, Ring
from gputel.telemetry.whole_files import NO_ROOM

AT_ONCE = 1 << 20
RETRY_S = 1.0
GATHER_S = 0.025
"""How long output is gathered after a write: each turn wakes the viewer, too, and costs the machine 300 µs."""
SYNC_EVERY_S = 5.0
OUTLIVED = SECOND // 2
"""Output that comes this long after the command's end is from another process; the end is recorded without it."""
FREE_BYTES = 8 << 20
"""How much of the queue is kept free for new output while the disk is full."""
LONGEST_LINE = 1 << 16


class OutputQueues:
    """The queues of output and timestamps and the files into which they go.

    An offset in output.log is a position in the stream less `ledger.skipped`, for every byte that is still queued.
    """

    def __init__(
        self, output: Ring, stamps: Ring, log: int, index: int, ledger: Ledger, *, fsync: bool = False
    ) -> None:
        """Syncs the files as well with `fsync`, every few seconds and at the end."""
        self.fsync = fsync
        self._output, self._stamps, self._log, self._index = output, stamps, log, index
        self.ledger = ledger

    @property
    def empty(self) -> bool:
        return self._output.head == self._output.tail and self._stamps.head == self._stamps.tail

    @property
    def missing(self) -> int:
        """Bytes of output that are not in output.log."""
        return self.ledger.lost + self.ledger.skipped + self._output.head - self._output.tail

    def written_tail(self, count: int) -> bytes:
        """The end of output.log; empty while the disk does not take what is printed."""
        if self.ledger.fault:
            return b""
        return os.pread(self._log, count, max(0, os.fstat(self._log).st_size - count))

    def write(self) -> None:
        """Write everything. Raises OSError when a file takes no more."""
        try:
            self._end_torn_line()
            drain(self._output, self._log)
        finally:
            self._write_stamps()

    def sync(self) -> None:
        """Have the kernel write the files to the disk, for a power failure. Raises OSError."""
        for descriptor in (self._log, self._index):
            os.fdatasync(descriptor)

    def make_room(self) -> None:
        """Give up the oldest lines that were shown, as many as new output may soon need."""
        output, ledger = self._output, self.ledger
        count = FREE_BYTES - (output.size - (output.head - output.tail))
        if count <= 0 or ledger.shown <= output.tail:
            return
        count += output.copy(output.tail + count, LONGEST_LINE).find(b"\n") + 1
        count = min(count, ledger.shown - output.tail)
        gap_end, offset = ledger.gap
        if gap_end != output.tail:
            offset = output.tail - ledger.skipped
        ledger.gap = output.tail + count, offset
        ledger.skipped += count
        output.take(count)

    def _end_torn_line(self) -> None:
        """After a gap, end the line before it, so that the next one does not run into it."""
        gap_end, offset = self.ledger.gap
        if not gap_end or gap_end != self._output.tail or os.fstat(self._log).st_size != offset:
            return
        if offset and os.pread(self._log, 1, offset - 1) != b"\n":
            self.ledger.skipped -= 1
            try:
                os.write(self._log, b"\n")
            except OSError:
                self.ledger.skipped += 1
                raise

    def _write_stamps(self) -> None:
        """Write the timestamps of what is in output.log, with offsets in that file."""
        stamps = self._stamps
        while piece := b"".join(stamps.oldest(AT_ONCE)):
            data = b"".join(self._stamps_on_disk(piece))
            if not data:
                return
            count = os.write(self._index, data)
            torn = count % RECORD.size
            stamps.take(count - torn)
            if torn:
                os.ftruncate(self._index, os.fstat(self._index).st_size - torn)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _stamps_on_disk(self, records: bytes) -> Iterator[bytes]:
        """The first of the records, as far as output.log reaches; what was given up has no time."""
        gap_end, offset = self.ledger.gap
        for wall, end in RECORD.iter_unpack(records):
            if end > self._output.tail:
                return
            in_gap = end <= gap_end
            yield RECORD.pack(UNKNOWN, offset) if in_gap else RECORD.pack(wall, end - self.ledger.skipped)


class DiskWriter(threading.Thread):
    """Writes queues into files, in a thread; where there is no memory for one, in the keeper's own."""

    def __init__(self, folder: Path, queues: OutputQueues, news: int) -> None:
        super().__init__(name="disk-writer", daemon=True)
        self._folder, self._queues, self._ledger, self._news = folder, queues, queues.ledger, news
        self._wake, self._at_once = threading.Event(), threading.Event()
        self._deadline: float | None = None
        self._synced = 0.0
        self._reported_lost = queues.ledger.lost
        self._unwritten_events: list[tuple[str, str]] = []
        self._has_thread = True

    def start(self) -> None:
        try:
            super().start()
        except (RuntimeError, MemoryError):
            self._has_thread = False

    def wake(self, *, at_once: bool = False) -> None:
        """Have it write: what comes after a quiet moment, or `at_once`, without gathering more."""
        self._wake.set()
        if at_once:
            self._at_once.set()
        if not self._has_thread:
            self._turn()

    def look(self) -> None:
        """Try again what failed; called about ten times per second while something has."""
        if self._ledger.fault and not self._has_thread:
            self._turn()

    def finish(self, patience_s: float) -> None:
        """Write the rest and the end. Gives up after `patience_s` on a full disk, but waits for one that hangs."""
        self._deadline = time.monotonic() + patience_s
        self._wake.set()
        self._at_once.set()
        if self._has_thread:
            self.join()
        else:
            self.run()

    def run(self) -> None:
        while not self._is_done():
            retry = self._ledger.fault or self._unwritten_events or self._deadline
            self._wake.wait(RETRY_S if retry else None)
            self._wake.clear()
            self._turn()
            if self._deadline is None:
                self._at_once.wait(GATHER_S)
                self._at_once.clear()

    def _turn(self) -> None:
        if self._has_said_what_is_missing():
            write_after_end(self._folder, self._queues, self._write)
        else:
            self._write()
        self._write_events()
        self._record_end()
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._news, 1)

    def _has_said_what_is_missing(self) -> bool:
        """Whether run.json has the end, and the disk took no more by then."""
        return bool(self._deadline and self._ledger.recorded and self._ledger.fault)

    def _write(self) -> None:
        try:
            self._queues.write()
            self._sync()
            self._ledger.fault = None
        except OSError as error:
            self._failed(error)
            if error.errno in NO_ROOM:
                self._queues.make_room()

    def _sync(self) -> None:
        if self._queues.fsync and (self._deadline or time.monotonic() - self._synced > SYNC_EVERY_S):
            self._queues.sync()
            self._synced = time.monotonic()

    def _is_done(self) -> bool:
        """Whether the thread may end. An end that came during the last turn needs another turn."""
        if self._deadline is None:
            return False
        unrecorded = self._ledger.ended is not None and not self._ledger.recorded
        if self._ledger.fault or unrecorded:
            return time.monotonic() > self._deadline
        return self._queues.empty

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
                f"{lost - self._reported_lost} bytes of output were lost: neither disk nor memory took them"
            )
            self._unwritten_events.append(("gap", text))
            self._reported_lost = lost
        with contextlib.suppress(OSError):
            while self._unwritten_events:
                events.append(self._folder, wall_ns(), *self._unwritten_events[0])
                del self._unwritten_events[0]

    def _record_end(self) -> None:
        """Record the end after the last byte, so that a reader who sees the end has the whole output."""
        ended = self._ledger.ended
        if ended is None or self._ledger.recorded:
            return
        if self._is_whole() or self._ledger.fault or time.monotonic_ns() - ended.monotonic > OUTLIVED:
            with contextlib.suppress(OSError, GputelError):
                record_end(self._folder, self._queues)

    def _is_whole(self) -> bool:
        return self._ledger.source_ended and self._queues.empty


def drain(ring: Ring, descriptor: int) -> None:
    """Write everything in the queue. Raises OSError when the file takes no more."""
    while parts := ring.oldest(AT_ONCE):
        ring.take(os.writev(descriptor, parts))


def write_after_end(folder: Path, queues: OutputQueues, write: Callable[[], None]) -> None:
    """Write output that run.json counts as missing, where a full disk lets run.json count it anew."""
    if run_folder.reserve(folder).is_enough():
        missing = queues.missing
        try:
            write()
        finally:
            queues.ledger.recorded &= queues.missing == missing


def record_end(folder: Path, queues: OutputQueues) -> None:
    """Write the end into run.json; the keeper or the viewer does it, whichever survives."""
    ledger = queues.ledger
    if ledger.ended:
        facts: dict[str, object] = {"ended": ledger.ended.as_json(), "exit_code": ledger.exit_code}
        if queues.missing:
            facts["output_missing_bytes"] = queues.missing
        run_folder.update_end(folder, facts, fsync=queues.fsync)
        ledger.recorded = True
