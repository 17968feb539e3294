"""Bytes in any pieces -> clean whole lines. A redraw after a carriage return is a line of its own.

Escape sequences, terminal echo (`^[[B`), NUL bytes and backspaces go; nothing is looked for line by line, so a log
that has none of them costs four searches per chunk. Memory stays bounded whatever comes: of a line longer than
LIMIT only the beginning is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gputel.analysis.parse import lazily

CHUNK = 4 << 20
LIMIT = 1 << 16  # no record is as long, and what is quadratic in a line stays cheap

_ESCAPES = lazily.regex(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[()][0-9A-B]|[@-Z\\-_=>78])"
)
_ECHO = lazily.regex(rb"\^\[(?:\[|O)[0-9;]*[A-Za-z~]")
_ENDS = lazily.regex(rb"\r*\n|[\r\x08]+")


@dataclass(frozen=True)
class Chunk:
    """Clean whole lines, and the number that each has in the file."""

    data: bytes
    first: int
    numbers: npt.NDArray[np.int64] | None  # None: line i is first + i

    def number(self, lines: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return lines + self.first if self.numbers is None else self.numbers[lines]

    def cut(self, at: int) -> tuple[Chunk, Chunk]:
        """Two chunks, the first with the line in which byte `at` lies."""
        end = self.data.find(b"\n", max(at - 1, 0)) + 1 or len(self.data)
        count = self.data.count(b"\n", 0, end)
        numbers = (None, None) if self.numbers is None else (self.numbers[:count], self.numbers[count:])
        return Chunk(self.data[:end], self.first, numbers[0]), Chunk(
            self.data[end:], self.first + count, numbers[1]
        )


class Splitter:
    """Cuts what is fed to it into chunks at line ends, and keeps the rest for the next piece."""

    def __init__(self) -> None:
        self.number = 1
        self._rest = b""
        self._skipping = False  # inside a line that was longer than LIMIT

    @property
    def lines(self) -> int:
        """Line feeds so far, and an unterminated last line."""
        return self.number - 1 + bool(self._rest or self._skipping)

    def feed(self, data: bytes) -> Iterator[Chunk]:
        for start in range(0, len(data), CHUNK):
            yield from self._piece(data[start : start + CHUNK])

    def finish(self) -> Iterator[Chunk]:
        if self._rest:
            rest, self._rest = self._rest, b""
            yield self._clean(rest)
            self._rest = b"" if rest.endswith(b"\n") else rest[:1]  # still a line, for `lines`

    def _piece(self, data: bytes) -> Iterator[Chunk]:
        if self._skipping:
            data = self._skip(data)
        data = self._rest + data
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > LIMIT:
            cut = max(data.rfind(b"\r", 0, -1), data.rfind(b"\x08", 0, -1)) + 1
        whole, self._rest = data[:cut], data[cut:]
        if whole:
            yield self._clean(_shorten(whole))
        if len(self._rest) > LIMIT and self._rest[-1:] != b"\r":
            yield self._clean(self._rest[:LIMIT] + b"\r")
            self._rest, self._skipping = b"", True

    def _skip(self, data: bytes) -> bytes:
        end = re.search(rb"[\r\n\x08]", data)
        if not end:
            return b""
        self._skipping = False
        return data[end.start() :] if end.group() == b"\n" else data[end.end() :]

    def _clean(self, data: bytes) -> Chunk:
        first = self.number
        self.number += int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))
        if b"\x1b" in data:
            data = _ESCAPES.sub(b"", data)
        if b"^" in data and b"^[" in data:  # one byte is found ten times as fast as two
            data = _ECHO.sub(b"", data)
        if b"\x00" in data:
            data = data.replace(b"\x00", b"")
        if b"\r" in data or b"\x08" in data:
            return _redraws(data, first)
        return Chunk(data, first, None)


def _redraws(data: bytes, first: int) -> Chunk:
    ends = [end.group() for end in _ENDS.finditer(data)]
    feeds = np.array([end.endswith(b"\n") for end in ends] + [False], dtype=np.int64)
    numbers = first + np.concatenate([[0], np.cumsum(feeds)[:-1]]).astype(np.int64)
    return Chunk(_ENDS.sub(b"\n", data), first, numbers)


def _shorten(data: bytes) -> bytes:
    """Cuts lines that are longer than LIMIT, so that whole files and pieces of them read the same."""
    start = 0
    while len(data) - start > LIMIT:
        end = max(data.rfind(b, start, start + LIMIT + 1) for b in (b"\n", b"\r", b"\x08"))
        if end < 0:
            return b"".join(line[:LIMIT] for line in re.split(rb"([\r\n\x08])", data))
        start = end + 1
    return data
