"""A queue of bytes in memory that processes share, any of which may be killed at any moment.

Mapped before the fork. What was put in is published by one store of eight bytes, so a kill leaves it in the
queue or out of it. Everything outside of what is published is kept zero: bytes that a reader fetched, and was
killed before it could publish, are therefore found again, up to their last byte that is not NUL.
"""

from __future__ import annotations

import mmap

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
