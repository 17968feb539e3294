"""The keeper: writes the command's output into output.log, and when each line came into output.idx.

It starts the command, so that it can reap it after the viewer is gone, and notes the signals that reach it. It
never holds the command up: a queue in memory takes what the disk does not, and what the queue does not take is
dropped and counted. The queue is shared memory, so that the successor of a killed keeper continues with it.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gputel.telemetry.clock import SECOND, SystemClock, wall_ns
from gputel.telemetry.priority import raise_priority
from gputel.telemetry.process.disk_writer import DiskWriter, OutputQueues
from gputel.telemetry.process.output_index import RECORD, pack
from gputel.telemetry.process.shared_memory import Ledger, Ring
from gputel.telemetry.process.signals import Signals, note_arrivals

QUEUE_BYTES = 64 << 20
STAMP_BYTES = 1 << 20
PIPE_BYTES = 1 << 20
PAUSE = SECOND // 200
"""The pause between two reads under load. It delays a line that long, and makes 100,000 lines per second cheap."""
DENSE = PAUSE * 5 // 4
"""Reads that come closer than this are load: a pause that ends before the next line only wakes the keeper twice."""
GATHERED = 1 << 20
"""With this much in the queue the writer waits for no more."""
NEWLINE = ord("\n")
LAST_TRIES_S = 1.5
"""How long a full disk is retried at the end; shorter than the viewer waits for the keeper."""
LAST_WORD = 2 * SECOND
"""How long the second keeper waits for the viewer to report how the command ended."""
LOOK_MS = 100
IDLE_MS = 1000
"""The same while nothing is due but what wakes the keeper: each wake-up costs the machine 100 µs."""


class OutputSource(Protocol):
    """Where the output comes from: a pipe, a pseudo-terminal, or a log that another process writes."""

    @property
    def descriptor(self) -> int:
        """A descriptor that is readable when there may be more output."""

    @property
    def waits(self) -> bool:
        """Whether output that is not read stays where it is, so that none is ever dropped."""

    @property
    def more(self) -> bool:
        """Whether there is more to read, though nothing wakes the descriptor."""

    def read(self, room: list[memoryview]) -> int | None:
        """Number of bytes read into `room`; None if there are none yet, 0 at the end."""

    def stamps(self, count: int) -> list[tuple[int | None, int]]:
        """(wall ns, or None for no time; where it ends, counted from the begin of the `count` bytes just read)."""

    def descriptors(self) -> set[int]: ...


class OutputPipe:
    """Output from a pipe or a pseudo-terminal; the latter signals its end by EIO."""

    waits = more = False

    def __init__(self, descriptor: int) -> None:
        """`descriptor` must be non-blocking."""
        self.descriptor = descriptor

    def read(self, room: list[memoryview]) -> int | None:
        try:
            return os.readv(self.descriptor, room)
        except BlockingIOError:
            return None
        except OSError:
            return 0

    def stamps(self, count: int) -> list[tuple[int | None, int]]:
        return [(wall_ns(), count)]

    def descriptors(self) -> set[int]:
        return {self.descriptor}


@dataclass(frozen=True)
class KeeperState:
    """What a keeper needs and its successor takes over."""

    folder: Path
    source: OutputSource
    log: int
    index: int
    news: int
    """An eventfd that is raised when output.log has grown."""
    signals: Signals
    locks: tuple[int, ...]
    """Descriptors whose locks are held while the run is recorded."""
    fsync: bool = False
    """Whether the output is synced to the disk."""
    ledger: Ledger = field(default_factory=Ledger)
    output: Ring = field(default_factory=lambda: Ring(QUEUE_BYTES))
    stamps: Ring = field(default_factory=lambda: Ring(STAMP_BYTES))

    @property
    def queues(self) -> OutputQueues:
        return OutputQueues(self.output, self.stamps, self.log, self.index, self.ledger, fsync=self.fsync)

    def descriptors(self) -> set[int]:
        return self.source.descriptors() | {
            self.log,
            self.index,
            self.news,
            *self.locks,
            self.signals.descriptor,
        }


def take_over(state: KeeperState) -> None:
    """Continue where a keeper was killed: publish what it had read but not published."""
    whole = os.fstat(state.index).st_size // RECORD.size * RECORD.size
    os.ftruncate(state.index, whole)
    state.stamps.recover(whole, 0)
    state.stamps.forget_unpublished(RECORD.size)
    found = state.output.recover(os.fstat(state.log).st_size + state.ledger.skipped, PIPE_BYTES)
    while _is_ahead(state.stamps.copy(state.stamps.head - RECORD.size, RECORD.size), state.output.head):
        state.stamps.withdraw(RECORD.size)  # of output that ended with NUL bytes, which are not found
    if found:
        state.stamps.put(pack(wall_ns(), state.output.head))


def _is_ahead(stamp: bytes, head: int) -> bool:
    return bool(stamp) and RECORD.unpack(stamp)[1] > head


class Keeper:
    """Reads the command's output into the queues until both have ended."""

    def __init__(self, state: KeeperState, process: int | None, *, parent: bool) -> None:
        """`process` is a pidfd of the command. Only its parent can reap it; for a successor the viewer does."""
        self._state, self._process, self._parent = state, process, parent
        self._writer = DiskWriter(state.folder, state.queues, state.news)
        self._discarded = bytearray(PIPE_BYTES)
        self._unstamped: int | None = None
        self._dropping = self._torn = False
        self._last_read = self._resume = self._process_gone = 0
        self._listening, self._pausing = select.poll(), select.poll()
        self._listening.register(state.source.descriptor, select.POLLIN)
        self._watch(state.signals.descriptor)
        if process is not None:
            self._watch(process)

    def keep(self) -> int:
        """Run until the command has ended and no process can write to its output. Returns the exit code."""
        _survive_memory_pressure()
        self._writer.start()
        raise_priority()  # a late read makes a late stamp; 100,000 lines a second take 6 % of a core
        self._writer.wake()
        ledger = self._state.ledger
        while not (ledger.source_ended and ledger.ended):
            self._wait()
        self._writer.finish(LAST_TRIES_S)
        ledger.drained = True
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._state.news, 1)
        return 0

    def _wait(self) -> None:
        pause = self._resume - time.monotonic_ns()
        if pause > 0:
            ready = self._pausing.poll(pause / 1e6)
        else:
            ready = self._listening.poll(self._patience_ms())
            if not ready:
                self._look()
        for descriptor, _ in ready:
            if descriptor == self._state.source.descriptor:
                self._read()
            elif descriptor == self._process:
                self._reap()
            else:
                note_arrivals(descriptor, self._state.ledger)

    def _patience_ms(self) -> int:
        """How long to wait for a descriptor before the next look."""
        source, ledger = self._state.source, self._state.ledger
        if source.more:
            return 0
        idle = not (source.waits or self._process_gone or ledger.ended or ledger.fault)
        return IDLE_MS if idle else LOOK_MS

    def _look(self) -> None:
        """Poll for what wakes no descriptor: a log on a shared folder, an end that only the viewer can learn."""
        if not self._state.ledger.source_ended:
            self._read()
        if self._state.ledger.ended and not self._state.ledger.recorded:
            self._writer.wake(at_once=True)
        self._writer.look()
        if self._process_gone and time.monotonic_ns() - self._process_gone > LAST_WORD:
            self._state.ledger.end(None, SystemClock().stamp())

    def _watch(self, descriptor: int) -> None:
        for poll in (self._listening, self._pausing):
            poll.register(descriptor, select.POLLIN)

    def _read(self) -> None:
        output, source = self._state.output, self._state.source
        if self._dropping:
            self._end_dropped_line()
        room = output.room(PIPE_BYTES)
        if not room and source.waits:
            self._resume = time.monotonic_ns() + PAUSE
            return
        count = source.read(room or [memoryview(self._discarded)])
        if count == 0:
            self._state.ledger.source_ended = True
            self._listening.unregister(source.descriptor)
        elif count and not room:
            self._state.ledger.lost += count
            self._dropping = True
            self._writer.wake()
        elif count:
            for wall, end in source.stamps(count):
                self._stamp(wall, output.head + end)
            output.publish(count)
            self._writer.wake(at_once=output.head - output.tail > GATHERED)
        if not (count and room and self._begins_line(room, count)):
            self._pause(count or 0)

    def _begins_line(self, room: list[memoryview], count: int) -> bool:
        """Whether the rest of a line may come at once: Python's unbuffered `print` writes text and newline apart.

        Such a read is followed by no pause, but the next one is, however it ends: a progress bar has no newline.
        """
        torn = count < len(room[0]) and room[0][count - 1] != NEWLINE
        self._torn = torn and not self._torn
        return self._torn

    def _end_dropped_line(self) -> None:
        """End the line of which a part was dropped, so that the next one does not run into it."""
        output = self._state.output
        if output.copy(output.head - 1, 1) == b"\n":
            self._dropping = False
        elif output.put(b"\n"):
            self._state.ledger.lost -= 1  # the difference between what was printed and what was queued
            self._dropping = False

    def _stamp(self, wall: int | None, end: int) -> None:
        """Queue a timestamp. If no more fit, as after minutes of a hung disk, lines have none."""
        if self._unstamped is not None and self._state.stamps.put(pack(None, self._unstamped)):
            self._unstamped = None
        if self._unstamped is not None or not self._state.stamps.put(pack(wall, end)):
            self._unstamped = end

    def _pause(self, count: int) -> None:
        """Under load, pause reading for a short while, in which the pipe must not become more than half full."""
        now = time.monotonic_ns()
        since, self._last_read = now - self._last_read, now
        if since < DENSE and count < PIPE_BYTES // 2:
            until_half_full = since * (PIPE_BYTES // 2) // max(count, 1)
            self._resume = now + min(PAUSE, until_half_full)

    def _reap(self) -> None:
        """Note the end before reaping the command: if killed in between, the viewer can still read its status."""
        assert self._process is not None
        for poll in (self._listening, self._pausing):
            poll.unregister(self._process)
        if self._parent:
            self._state.ledger.end(status_of(self._process), SystemClock().stamp())
            os.waitid(os.P_PIDFD, self._process, os.WEXITED)
            self._writer.wake(at_once=True)
        else:
            self._process_gone = time.monotonic_ns()


def status_of(process: int) -> int | None:
    """Exit code, or -signal, of a child that has ended; does not reap it."""
    end = os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOWAIT)
    if end is None:
        return None
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def _survive_memory_pressure() -> None:
    """Ask the kernel to kill other processes first when memory runs out, if that is allowed."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-900")
