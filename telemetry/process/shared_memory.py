"""What the keeper knows, in memory that the viewer shares: the command, its end, signals seen, output lost.

One word a fact, each stored at once, so that a kill leaves every fact either old or new. Who survives reads on.

A queue of bytes in memory that processes share, any of which may be killed at any moment.

Mapped before the fork. What was put in is published by one store of eight bytes, so a kill leaves it in the
queue or out of it. Everything outside of what is published is kept zero: bytes that a reader fetched, and was
killed before it could publish, are therefore found again, up to their last byte that is not NUL.
"""

from __future__ import annotations

import mmap
import signal
from typing import NamedTuple

from gputel.telemetry.clock import Stamp

COMMAND, STATUS, KNOWN, ENDED, SOURCE_ENDED, DRAINED, RECORDED, LOST, FAULT, POSITION = range(10)
ENDED_AT = 16  # three words: wall, monotonic, boot clock
SIGNALS = 64  # the first of three words per signal: when, code, sender


class SeenSignal(NamedTuple):
    monotonic: int
    code: int
    sender: int


class Ledger:
    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")

    def _get(self, word: int) -> int:
        return self._words[word]

    @property
    def command(self) -> int | None:
        """Its process, once it was started."""
        return self._get(COMMAND) or None

    @command.setter
    def command(self, pid: int) -> None:
        self._words[COMMAND] = pid

    @property
    def ended(self) -> Stamp | None:
        """When the command ended, or the process that was followed."""
        return Stamp(*self._words[ENDED_AT : ENDED_AT + 3]) if self._get(ENDED) else None

    @property
    def status(self) -> int | None:
        """Its exit code, or -n for a signal. None while it runs, and of a process that is not ours."""
        return self._get(STATUS) if self.ended and self._get(KNOWN) else None

    @property
    def exit_code(self) -> int | None:
        """As a shell has it: 128+n for a signal."""
        status = self.status
        return status if status is None or status >= 0 else 128 - status

    def end(self, status: int | None, stamp: Stamp) -> None:
        """The first who says so is believed."""
        if self.ended:
            return
        for word, moment in enumerate(stamp, ENDED_AT):
            self._words[word] = moment
        self._words[STATUS], self._words[KNOWN] = status or 0, status is not None
        self._words[ENDED] = 1

    @property
    def source_ended(self) -> bool:
        """Nobody can write to the command's output any more."""
        return bool(self._get(SOURCE_ENDED))

    @source_ended.setter
    def source_ended(self, value: bool) -> None:
        self._words[SOURCE_ENDED] = value

    @property
    def drained(self) -> bool:
        """The output has come to its end, and all of it that can be on disk is."""
        return bool(self._get(DRAINED))

    @drained.setter
    def drained(self, value: bool) -> None:
        self._words[DRAINED] = value

    @property
    def recorded(self) -> bool:
        """run.json has the end."""
        return bool(self._get(RECORDED))

    @recorded.setter
    def recorded(self, value: bool) -> None:
        self._words[RECORDED] = value

    @property
    def lost(self) -> int:
        """Bytes of output that no disk took in time."""
        return self._get(LOST)

    @lost.setter
    def lost(self, count: int) -> None:
        self._words[LOST] = count

    @property
    def fault(self) -> int | None:
        """The errno of the last write, while writes fail."""
        return self._get(FAULT) or None

    @fault.setter
    def fault(self, number: int | None) -> None:
        self._words[FAULT] = number or 0

    @property
    def position(self) -> int:
        """How far a followed log was read."""
        return self._get(POSITION)

    @position.setter
    def position(self, offset: int) -> None:
        self._words[POSITION] = offset

    def note_signal(self, number: int, seen: SeenSignal) -> None:
        at = SIGNALS + 3 * number
        self._words[at + 1], self._words[at + 2] = seen.code, seen.sender
        self._words[at] = seen.monotonic

    def seen_signal(self, number: int) -> SeenSignal:
        at = SIGNALS + 3 * number
        return SeenSignal(*self._words[at : at + 3])


assert SIGNALS + 3 * signal.NSIG <= mmap.PAGESIZE // 8

HEAD, TAIL, ORIGIN = range(3)
ZEROS = bytes(1 << 20)


class Ring:
    """`head` and `tail` count bytes from the beginning of the stream, never modulo the size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._memory = memoryview(mmap.mmap(-1, mmap.PAGESIZE + size))
        self._words = self._memory[:64].cast("Q")
        self._data = self._memory[mmap.PAGESIZE :]

    @property
    def head(self) -> int:
        return self._words[HEAD]

    @property
    def tail(self) -> int:
        return self._words[TAIL]

    def room(self, limit: int) -> list[memoryview]:
        """Where up to `limit` bytes may be put next, to be published afterwards."""
        if self.head == self.tail:
            self._words[ORIGIN] = (
                self.head
            )  # an empty queue begins again in front, which keeps few pages in use
        return self._parts(self.head, min(limit, self.size - (self.head - self.tail)))

    def publish(self, count: int) -> None:
        self._words[HEAD] += count

    def put(self, data: bytes) -> bool:
        """All of it or nothing."""
        parts = self.room(len(data))
        if sum(map(len, parts)) < len(data):
            return False
        start = 0
        for part in parts:
            part[:] = data[start : start + len(part)]
            start += len(part)
        self.publish(len(data))
        return True

    def held(self, limit: int) -> list[memoryview]:
        """The oldest bytes that were not taken yet."""
        return self._parts(self.tail, min(limit, self.head - self.tail))

    def take(self, count: int) -> None:
        self._clear(self.tail, count)
        self._words[TAIL] += count

    def copy(self, start: int, limit: int) -> bytes:
        """Bytes from a place in the stream on. They are true if they were not taken before this returned."""
        if not self.tail <= start < self.head:
            return b""
        return b"".join(self._parts(start, min(limit, self.head - start)))

    def recover(self, taken: int, longest: int) -> int:
        """After a death: `taken` bytes had left for certain. Gives how many were found unpublished."""
        if self.tail < taken <= self.head:
            self.take(taken - self.tail)
        found = b"".join(self.room(longest)).rstrip(b"\0")
        self.publish(len(found))
        return len(found)

    def forget_unpublished(self, longest: int) -> None:
        """Zero what lies beyond the head."""
        self._clear(self.head, sum(map(len, self.room(longest))))

    def _clear(self, start: int, count: int) -> None:
        for part in self._parts(start, count):
            for at in range(0, len(part), len(ZEROS)):
                piece = part[at : at + len(ZEROS)]
                piece[:] = ZEROS[: len(piece)]

    def _parts(self, start: int, count: int) -> list[memoryview]:
        begin = (start - self._words[ORIGIN]) % self.size
        first = min(count, self.size - begin)
        parts = [self._data[begin : begin + first], self._data[: count - first]]
        return [part for part in parts if len(part)]
