"""Memory shared by viewer and keeper: a ledger of facts and a queue of bytes, safe against a kill at any moment.

The ledger has one word per fact, stored at once, so that a kill leaves each fact either old or new; a surviving
process can read it.

The queue publishes bytes by one store of eight bytes, so that a kill leaves them in the queue or out of it. All
memory that is not published is kept zero: bytes that a killed keeper had read but not published are therefore found
again, up to the last byte that is not NUL.
"""

from __future__ import annotations

import mmap
import signal
from typing import NamedTuple

from gputel.telemetry.clock import Stamp

COMMAND, STATUS, KNOWN, ENDED, SOURCE_ENDED, DRAINED, RECORDED, LOST, FAULT, POSITION = range(10)
SKIPPED, SHOWN, GAP_END, GAP_OFFSET = range(10, 14)
ENDED_AT = 16  # three words: wall, monotonic, boot clock
SIGNALS = 64  # the first of three words per signal: when, code, sender


class SeenSignal(NamedTuple):
    """When the keeper last got a signal, and from where."""

    monotonic: int
    code: int
    sender: int


class Ledger:
    """Facts about the command, each one word stored at once, so that a kill leaves it either old or new."""

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")

    def _get(self, word: int) -> int:
        return self._words[word]

    @property
    def command(self) -> int | None:
        """The command's process id, once started."""
        return self._get(COMMAND) or None

    @command.setter
    def command(self, pid: int) -> None:
        self._words[COMMAND] = pid

    @property
    def ended(self) -> Stamp | None:
        """When the command, or the followed process, ended."""
        return Stamp(*self._words[ENDED_AT : ENDED_AT + 3]) if self._get(ENDED) else None

    @property
    def status(self) -> int | None:
        """Exit code, or -n for a signal. None while it runs, and for a process that is not our child."""
        return self._get(STATUS) if self.ended and self._get(KNOWN) else None

    @property
    def exit_code(self) -> int | None:
        """The exit code a shell would report: 128+n for a signal."""
        status = self.status
        return status if status is None or status >= 0 else 128 - status

    def end(self, status: int | None, stamp: Stamp) -> None:
        """Record the end; later calls change nothing."""
        if self.ended:
            return
        for word, moment in enumerate(stamp, ENDED_AT):
            self._words[word] = moment
        self._words[STATUS], self._words[KNOWN] = status or 0, status is not None
        self._words[ENDED] = 1

    @property
    def source_ended(self) -> bool:
        """Whether no process can write to the command's output any more."""
        return bool(self._get(SOURCE_ENDED))

    @source_ended.setter
    def source_ended(self, value: bool) -> None:
        self._words[SOURCE_ENDED] = value

    @property
    def drained(self) -> bool:
        """Whether the output has ended and everything the disk takes is written."""
        return bool(self._get(DRAINED))

    @drained.setter
    def drained(self, value: bool) -> None:
        self._words[DRAINED] = value

    @property
    def recorded(self) -> bool:
        """Whether run.json has the end."""
        return bool(self._get(RECORDED))

    @recorded.setter
    def recorded(self, value: bool) -> None:
        self._words[RECORDED] = value

    @property
    def skipped(self) -> int:
        """Bytes that were shown and then given up for output.log, to make room in the queue while the disk is full.

        What comes after them in the stream stands that much earlier in output.log.
        """
        return self._get(SKIPPED)

    @skipped.setter
    def skipped(self, count: int) -> None:
        self._words[SKIPPED] = count

    @property
    def shown(self) -> int:
        """Up to where in the stream the screen needs the queue no more; EVERYTHING if there is no screen."""
        return self._get(SHOWN)

    @shown.setter
    def shown(self, position: int) -> None:
        self._words[SHOWN] = position

    @property
    def gap(self) -> tuple[int, int]:
        """Where in the stream the last skipped bytes end, and where in output.log they would stand."""
        return self._get(GAP_END), self._get(GAP_OFFSET)

    @gap.setter
    def gap(self, end_and_offset: tuple[int, int]) -> None:
        self._words[GAP_OFFSET] = end_and_offset[1]
        self._words[GAP_END] = end_and_offset[0]

    @property
    def lost(self) -> int:
        """Bytes of output that neither disk nor queue took."""
        return self._get(LOST)

    @lost.setter
    def lost(self, count: int) -> None:
        self._words[LOST] = count

    @property
    def fault(self) -> int | None:
        """The errno of the last write, while writing fails."""
        return self._get(FAULT) or None

    @fault.setter
    def fault(self, number: int | None) -> None:
        self._words[FAULT] = number or 0

    @property
    def position(self) -> int:
        """How far a followed log has been read."""
        return self._get(POSITION)

    @position.setter
    def position(self, offset: int) -> None:
        self._words[POSITION] = offset

    def note_signal(self, number: int, seen: SeenSignal) -> None:
        """Store when a signal arrived; the time is written last, which completes the entry."""
        first = SIGNALS + 3 * number
        self._words[first + 1], self._words[first + 2] = seen.code, seen.sender
        self._words[first] = seen.monotonic

    def seen_signal(self, number: int) -> SeenSignal:
        """The last arrival of a signal; all zeros if it never came."""
        first = SIGNALS + 3 * number
        return SeenSignal(*self._words[first : first + 3])


assert SIGNALS + 3 * signal.NSIG <= mmap.PAGESIZE // 8

EVERYTHING = 1 << 62
HEAD, TAIL, ORIGIN = range(3)
ZEROS = bytes(1 << 20)


class Ring:
    """A queue of bytes; `head` and `tail` count from the beginning of the stream, not modulo the size."""

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
        """Buffers for up to `limit` bytes; call `publish` after filling them."""
        if self.head == self.tail:  # an empty queue starts again at the front, which uses few pages of memory
            self._words[ORIGIN] = self.head
        return self._parts(self.head, min(limit, self._free()))

    def publish(self, count: int) -> None:
        self._words[HEAD] += count

    def put(self, data: bytes) -> bool:
        """Append the data, all of it or none; False if it does not fit."""
        parts = self.room(len(data))
        if sum(map(len, parts)) < len(data):
            return False
        start = 0
        for part in parts:
            part[:] = data[start : start + len(part)]
            start += len(part)
        self.publish(len(data))
        return True

    def oldest(self, limit: int) -> list[memoryview]:
        """The oldest bytes in the queue; call `take` after using them."""
        return self._parts(self.tail, min(limit, self.head - self.tail))

    def take(self, count: int) -> None:
        self._clear(self.tail, count)
        self._words[TAIL] += count

    def copy(self, start: int, limit: int) -> bytes:
        """Bytes from `start` in the stream on; valid only if they have not been taken in the meantime."""
        if not self.tail <= start < self.head:
            return b""
        return b"".join(self._parts(start, min(limit, self.head - start)))

    def recover(self, taken: int, longest: int) -> int:
        """Repair after a kill, given that `taken` bytes have left. Returns how many unpublished bytes it found.

        They lie where the queue began before the kill: it must not start again at the front until they are found.
        """
        unpublished = b"".join(self._parts(self.head, min(longest, self._free()))).rstrip(b"\0")
        if self.tail < taken <= self.head:
            self.take(taken - self.tail)
        self.publish(len(unpublished))
        return len(unpublished)

    def withdraw(self, count: int) -> None:
        """Take back the newest bytes."""
        self._words[HEAD] -= count
        self._clear(self.head, count)

    def forget_unpublished(self, longest: int) -> None:
        """Zero the memory beyond the head."""
        self._clear(self.head, min(longest, self._free()))

    def _free(self) -> int:
        return self.size - (self.head - self.tail)

    def _clear(self, start: int, count: int) -> None:
        for part in self._parts(start, count):
            for start_of_piece in range(0, len(part), len(ZEROS)):
                piece = part[start_of_piece : start_of_piece + len(ZEROS)]
                piece[:] = ZEROS[: len(piece)]

    def _parts(self, start: int, count: int) -> list[memoryview]:
        begin = (start - self._words[ORIGIN]) % self.size
        first = min(count, self.size - begin)
        parts = [self._data[begin : begin + first], self._data[: count - first]]
        return [part for part in parts if len(part)]
