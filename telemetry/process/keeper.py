"""The keeper: the command's output goes in, output.log and output.idx come out. It does nothing else.

It starts the command, so that it is there to reap it when the viewer is gone; it witnesses signals; and it never
holds the command: what the disk does not take stands in a queue in memory, and what the queue does not take is
dropped and counted. The queue is shared, so that a keeper that was killed is succeeded by one that goes on with
it.

output.idx: when each line of output.log was written.

One record of 16 bytes per read of the command's output, little-endian: wall clock in nanoseconds since 1970 (0:
not known), and where output.log ended after that read. A line has the stamp of the read that brought its last
byte; no stamp is interpolated. A torn record at the end is "not yet".
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gputel.telemetry.clock import SECOND, SystemClock
from gputel.telemetry.process.disk_writer import DiskWriter
from gputel.telemetry.process.shared_memory import Ledger, Ring
from gputel.telemetry.process.signals import Signals, note_arrivals

QUEUE_BYTES = 64 << 20
STAMP_BYTES = 1 << 20
PIPE_BYTES = 1 << 20
PAUSE = SECOND // 200
"""Between two reads under load. A line waits for it, and 100,000 lines a second then cost little."""
LAST_TRIES_S = 1.5
"""For a disk that takes nothing at the end; shorter than the viewer waits for us."""
LAST_WORD = 2 * SECOND
"""A viewer that lives has told by then how a command ended whose first keeper was killed."""
LOOK_MS = 100


class OutputSource(Protocol):
    """Where the output comes from: a pipe, a pseudo-terminal, a log that somebody else writes."""

    @property
    def descriptor(self) -> int:
        """Readable when there may be more."""

    @property
    def fresh(self) -> bool:
        """Whether what was read last has just been written."""

    def read(self, room: list[memoryview]) -> int | None:
        """How many bytes were put there; None if there are none yet, 0 if there never will be."""

    def descriptors(self) -> set[int]: ...


class OutputPipe:
    """A pseudo-terminal is read likewise; its end is told by EIO."""

    fresh = True

    def __init__(self, descriptor: int) -> None:
        """The descriptor does not block."""
        self.descriptor = descriptor

    def read(self, room: list[memoryview]) -> int | None:
        try:
            return os.readv(self.descriptor, room)
        except BlockingIOError:
            return None
        except OSError:
            return 0

    def descriptors(self) -> set[int]:
        return {self.descriptor}


@dataclass(frozen=True)
class KeeperState:
    """What a keeper needs, and its successor finds."""

    folder: Path
    source: OutputSource
    log: int
    index: int
    news: int
    """An eventfd that is raised when output.log has grown."""
    signals: Signals
    ledger: Ledger = field(default_factory=Ledger)
    output: Ring = field(default_factory=lambda: Ring(QUEUE_BYTES))
    stamps: Ring = field(default_factory=lambda: Ring(STAMP_BYTES))

    def descriptors(self) -> set[int]:
        return self.source.descriptors() | {self.log, self.index, self.news, self.signals.descriptor}


def take_over(state: KeeperState) -> None:
    """Go on where a keeper was killed: what it read and could not publish is published now."""
    state.stamps.recover(os.fstat(state.index).st_size, 0)
    state.stamps.forget_unpublished(RECORD.size)
    if state.output.recover(os.fstat(state.log).st_size, PIPE_BYTES):
        state.stamps.put(pack(time.time_ns(), state.output.head))


class Keeper:
    def __init__(self, state: KeeperState, process: int | None, *, parent: bool) -> None:
        """`process`: a pidfd of the command. Its `parent` reaps it; a successor's viewer does."""
        self._state, self._process, self._parent = state, process, parent
        self._writer = DiskWriter(
            state.folder, [(state.output, state.log), (state.stamps, state.index)], state.ledger, state.news
        )
        self._scrap = bytearray(PIPE_BYTES)
        self._unstamped: int | None = None
        self._last_read = self._resume = self._bereft = 0
        self._listening, self._pausing = select.poll(), select.poll()
        self._listening.register(state.source.descriptor, select.POLLIN)
        self._watch(state.signals.descriptor)
        if process is not None:
            self._watch(process)

    def keep(self) -> int:
        """Until the command has ended and nobody can write to its output any more."""
        _survive_memory_pressure()
        self._writer.start()
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
            ready = self._listening.poll(LOOK_MS)
            if not ready:
                self._look()
        for descriptor, _ in ready:
            if descriptor == self._state.source.descriptor:
                self._read()
            elif descriptor == self._process:
                self._reap()
            else:
                note_arrivals(descriptor, self._state.ledger)

    def _look(self) -> None:
        """Where nothing is told: a log on a shared folder; a command whose end only the viewer could learn."""
        if not self._state.ledger.source_ended:
            self._read()
        if self._state.ledger.ended and not self._state.ledger.recorded:
            self._writer.wake()
        if self._bereft and time.monotonic_ns() - self._bereft > LAST_WORD:
            self._state.ledger.end(None, SystemClock().stamp())

    def _watch(self, descriptor: int) -> None:
        for poll in (self._listening, self._pausing):
            poll.register(descriptor, select.POLLIN)

    def _read(self) -> None:
        output, ledger = self._state.output, self._state.ledger
        room = output.room(PIPE_BYTES)
        count = self._state.source.read(room or [memoryview(self._scrap)])
        wall = time.time_ns()
        if count == 0:
            ledger.source_ended = True
            self._listening.unregister(self._state.source.descriptor)
        elif count and not room:
            ledger.lost += count
        elif count:
            self._stamp(wall if self._state.source.fresh else None, output.head + count)
            output.publish(count)
            self._writer.wake()
        self._pause(count or 0)

    def _stamp(self, wall: int | None, end: int) -> None:
        """Where no more stamps fit, as after minutes of a hung disk, lines stay without one."""
        if self._unstamped is not None and self._state.stamps.put(pack(None, self._unstamped)):
            self._unstamped = None
        if self._unstamped is not None or not self._state.stamps.put(pack(wall, end)):
            self._unstamped = end

    def _pause(self, count: int) -> None:
        """Under load a short while, in which the pipe must not come to be more than half full."""
        now = time.monotonic_ns()
        since, self._last_read = now - self._last_read, now
        if since < 2 * PAUSE and count < PIPE_BYTES // 2:
            until_half_full = since * (PIPE_BYTES // 2) // max(count, 1)
            self._resume = now + min(PAUSE, until_half_full)

    def _reap(self) -> None:
        """Say how it ended before it is forgotten: killed between the two, the viewer can still ask."""
        assert self._process is not None
        for poll in (self._listening, self._pausing):
            poll.unregister(self._process)
        if self._parent:
            self._state.ledger.end(status_of(self._process), SystemClock().stamp())
            os.waitid(os.P_PIDFD, self._process, os.WEXITED)
            self._writer.wake()
        else:
            self._bereft = time.monotonic_ns()


def status_of(process: int) -> int | None:
    """Exit code or -signal of a child that has ended, which stays to be reaped."""
    end = os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOWAIT)
    if end is None:
        return None
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def _survive_memory_pressure() -> None:
    """Where that is allowed, the machine kills others first when its memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-900")


RECORD = struct.Struct("<QQ")
UNKNOWN = 0


def pack(wall_ns: int | None, end: int) -> bytes:
    return RECORD.pack(UNKNOWN if wall_ns is None else wall_ns, end)


def read(index: Path) -> list[tuple[int | None, int]]:
    """(wall ns, end) of every read, oldest first; empty where there is no index."""
    try:
        data = index.read_bytes()
    except FileNotFoundError:
        return []
    whole = memoryview(data)[: len(data) // RECORD.size * RECORD.size]
    return [(wall or None, end) for wall, end in RECORD.iter_unpack(whole)]


def lines(log: Path, index: Path) -> Iterator[tuple[int | None, bytes]]:
    """Every line of a log with its stamp; the last one perhaps without a newline."""
    records = iter(read(index))
    wall, covered = next(records, (None, None))
    end = 0
    with log.open("rb") as texts:
        for text in texts:
            end += len(text)
            while covered is not None and covered < end:
                wall, covered = next(records, (None, None))
            yield wall, text
