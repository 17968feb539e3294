"""Bytes in any pieces -> clean whole lines. A redraw after a carriage return is a line of its own.

Removes escape sequences, terminal echo (`^[[B`), NUL bytes and backspaces, also as syslog spells them (`#033[32m`),
and a backtick that the first line begins with.
The upright lines of drawn boxes become `|`.
All but the echo and what syslog spells are found in the search for line feeds, so a log without them pays nothing.
Memory is bounded: of a line longer than LIMIT only the beginning is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import patterns

CHUNK = 4 << 20
LIMIT = 1 << 16  # no record is longer, and regexes that are quadratic in a line stay cheap
NOTEBOOK_LIMIT = 1 << 26  # a notebook may stand on one line
_MARK = 16  # bytes that show it
_NOTEBOOK = patterns.lazy_regex(rb'\{ ?"(?:cells|nbformat|metadata)" ?:')

ESCAPES = patterns.lazy_regex(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[()][0-9A-B]|[@-Z\\-_=>78])"
)
_ECHO = patterns.lazy_regex(rb"\^\[(?:\[|O)[0-9;]*[A-Za-z~]")
# syslog writes control characters as octal numbers; elsewhere `#015` is a number
_SYSLOG = patterns.lazy_regex(
    rb"(?m)^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d))"
    rb" \S+ \S+: .*#0(?:33|15|10).*$"
)
_SPELT = patterns.lazy_regex(rb"#0(?:33(?=\[)|15|10)(?!\d)")
_QUOTED = patterns.lazy_regex(rb"`[^`\r\n]*[\r\n]")  # of a log that was copied from a page with its backticks
_UPRIGHT = patterns.lazy_regex(rb"\xe2(?:\x94[\x82\x83\x86\x87]|\x95\x91)")
_ENDS = patterns.lazy_regex(rb"\r*\n|[\r\x08]+")
_OVERWRITTEN = patterns.lazy_regex(rb"([^\r\n\x08]+)(\x08+)([^\r\n\x08]+)")
BAR = b"\xe2\x94\x81"  # what Rich draws a bar with
INDENT = patterns.lazy_regex(rb"( {20,})[^\s]")  # what its figures have that do not fit the width
_BLOCK = 1 << 18  # bytes that the processor's cache holds
_FEED, _CONTROLS = 10, 32


@dataclass(frozen=True, eq=False)
class Chunk:
    """Clean whole lines, and the number of each in the file."""

    data: bytes
    first: int
    numbers: npt.NDArray[np.int64] | None  # None: line i is first + i
    starts: npt.NDArray[np.int64] | None = None  # where the lines start in data, if known
    begins: npt.NDArray[np.int64] | None = None  # where their texts do, if not there, see `carriers`

    def number(self, lines: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return lines + self.first if self.numbers is None else self.numbers[lines]

    def cut(self, at: int) -> tuple[Chunk, Chunk]:
        """Two chunks; the first ends with the line of byte `at`."""
        end = self.data.find(b"\n", max(at - 1, 0)) + 1 or len(self.data)
        count = self.data.count(b"\n", 0, end)
        numbers = (None, None) if self.numbers is None else (self.numbers[:count], self.numbers[count:])
        starts = (None, None) if self.starts is None else (self.starts[:count], self.starts[count:] - end)
        begins = (None, None) if self.begins is None else (self.begins[:count], self.begins[count:] - end)
        return (
            Chunk(self.data[:end], self.first, numbers[0], starts[0], begins[0]),
            Chunk(self.data[end:], self.first + count, numbers[1], starts[1], begins[1]),
        )

    def head(self, line: int) -> bytes:
        """What a carrier put before a line."""
        if self.starts is None or self.begins is None:
            return b""
        return self.data[self.starts[line] : self.begins[line]]

    def texts(self, begin: int = 0, end: int | None = None) -> bytes:
        """The lines between two places, without what a carrier put before each."""
        data = self.data[begin:end]
        if not data or self.starts is None or self.begins is None:
            return data
        first, last = np.searchsorted(self.starts, [begin, begin + len(data)])
        heads = (self.begins[first:last] - begin).tolist()
        ends = [*(self.starts[first + 1 : last] - begin).tolist(), len(data)]
        return b"".join([data[at:end] for at, end in zip(heads, ends, strict=True)])


class Splitter:
    """Cuts bytes into chunks at line ends, and keeps the rest for the next piece."""

    def __init__(self, *, live: bool = False, first: int = 1) -> None:
        self.number = first
        self._live = live
        self._rest = b""
        self._held = b""  # whole lines: a bar that the next line may continue
        self._limit = LIMIT  # of a line
        self._skipping = False  # inside a line that was longer

    @property
    def lines(self) -> int:
        """Line feeds so far, and an unterminated last line."""
        return self.next_line - 1 + bool(self._rest or self._skipping)

    @property
    def next_line(self) -> int:
        """The number of the line that the next byte belongs to."""
        return self.number + self._held.count(b"\n")

    def feed(self, data: bytes) -> Iterator[Chunk]:
        for start in range(0, len(data), CHUNK):
            yield from self._piece(data[start : start + CHUNK])

    def finish(self) -> Iterator[Chunk]:
        if self._held or self._rest:
            rest, self._held, self._rest = self._held + self._rest, b"", b""
            yield self._clean(rest)
            self._rest = b"" if rest.endswith(b"\n") else rest[:1]  # still a line, for `lines`

    def _piece(self, data: bytes) -> Iterator[Chunk]:
        if len(self._rest) < _MARK and self.number == 1 and _NOTEBOOK.match(self._rest + data[:_MARK]):
            self._limit = NOTEBOOK_LIMIT
        if self._skipping:
            data = self._skip(data)
        cut = data.rfind(b"\n") + 1
        whole = b"".join((self._rest, memoryview(data)[:cut])) if cut else b""
        self._rest = data[cut:] if cut else self._rest + data
        if len(self._rest) > self._limit:
            # NUL bytes: thousands, where a log was truncated while it was written
            rest = self._rest.replace(b"\x00", b"")
            cut = (rest.rfind(b"\r", 0, -1) + 1) or (rest.rfind(b"\x08", 0, -1) + 1)
            whole, self._rest = whole + rest[:cut], rest[cut:]
        if self._live and (drawn := _drawn(self._rest)):
            whole, self._rest = whole + self._rest[:drawn], self._rest[drawn:]
        whole, self._held = self._held + whole, b""
        if whole.endswith(b"\n") and BAR in whole[-LIMIT:]:
            at = _may_go_on(whole)
            whole, self._held = whole[:at], whole[at:]
        if whole:
            yield self._clean(_shorten(whole, self._limit))
        if len(self._rest) > self._limit and self._rest[-1:] != b"\r":
            yield self._clean(self._held + self._rest[: self._limit] + b"\r")
            self._held, self._rest, self._skipping = b"", b"", True

    def _skip(self, data: bytes) -> bytes:
        end = re.search(rb"[\r\n\x08]", data)
        if not end:
            return b""
        self._skipping = False
        return data[end.start() :] if end.group() == b"\n" else data[end.end() :]

    def _clean(self, data: bytes) -> Chunk:
        if self.number == 1 and _QUOTED.match(data):
            data = b" " + data[1:]
        if b"#" in data and b"#0" in data:
            data = _SYSLOG.sub(lambda line: _SPELT.sub(_control, line.group()), data)
        feeds, controls = _controls(data)
        first = self.number
        self.number += len(feeds)
        cleaned = data
        if b"\x1b" in controls:
            cleaned = ESCAPES.sub(b"", cleaned)
        if b"^" in data and b"^[" in data:  # searching one byte is ten times as fast as two
            cleaned = _ECHO.sub(b"", cleaned)
        if b"\xe2" in data and _UPRIGHT.search(data):
            cleaned = with_bars(cleaned)
        if b"\x00" in controls:
            cleaned = cleaned.replace(b"\x00", b"")
        if b"\x08" in controls:
            cleaned = _OVERWRITTEN.sub(_overwrite, cleaned)
        if b"\r" in controls or b"\x08" in controls:
            return _redraws(cleaned, first)
        return Chunk(cleaned, first, None, _after(feeds, data) if cleaned is data else None)


def _control(spelt: re.Match[bytes]) -> bytes:
    return bytes([int(spelt.group()[1:], 8)])


def _overwrite(drawn: re.Match[bytes]) -> bytes:
    """What backspaces within a line leave; a shorter text, such as a count amid a bar, is set behind the line."""
    before, spaces, after = drawn.groups()
    text = before.decode(errors="replace")
    if len(spaces) >= len(text):
        return drawn.group()  # the whole line is drawn again
    covers = len(after.decode(errors="replace")) >= len(spaces)
    return (text[: -len(spaces)].encode() if covers else before) + after


def keep(kept: list[Chunk], chunk: Chunk) -> None:
    """Appends a chunk, and joins small ones, as logs may grow by a line at a time."""
    kept.append(chunk)
    while len(kept) > 1 and len(kept[-2].data) <= len(kept[-1].data) < CHUNK // 2:
        last = kept.pop()
        kept[-1] = _joined(kept[-1], last)


def _joined(first: Chunk, second: Chunk) -> Chunk:
    data = first.data + second.data
    begun = begins = None
    if first.begins is not None or second.begins is not None:
        begun = starts(data)
        begins = np.concatenate([positions(first)[1], positions(second)[1] + len(first.data)])
    follows = second.first == first.first + first.data.count(b"\n")
    if first.numbers is None and second.numbers is None and follows:
        return Chunk(data, first.first, None, begun, begins)
    numbers = [chunk.number(np.arange(len(starts(chunk.data)))) for chunk in (first, second)]
    return Chunk(data, first.first, np.concatenate(numbers), begun, begins)


def _may_go_on(whole: bytes) -> int:
    """Where a bar begins that a line below `whole` may continue; the length of `whole` if none does."""
    end = len(whole)
    while end > max(len(whole) - LIMIT, 0):
        start = whole.rfind(b"\n", 0, end - 1) + 1
        line = whole[start:end]
        if BAR in line:
            return start
        if not INDENT.match(ESCAPES.sub(b"", line)):
            break
        end = start
    return len(whole)


def _drawn(rest: bytes) -> int:
    """Where the last redraw of an unfinished line begins; ignores a carriage return at its end."""
    return rest.rstrip(b"\r").rfind(b"\r") + 1


def with_bars(text: bytes) -> bytes:
    """A box that is drawn, as one of bars."""
    return _UPRIGHT.sub(b"|", text)


def line_at(data: bytes, start: int) -> bytes:
    """The line that begins at `start`, without its end."""
    end = data.find(b"\n", start)
    return data[start : end if end >= 0 else len(data)]


def starts(data: bytes) -> npt.NDArray[np.int64]:
    """The position at which each line starts."""
    return _after(_controls(data)[0], data)


def ends(data: bytes, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The position at which each line ends, before its line feed."""
    found = np.empty_like(starts)
    np.subtract(starts[1:], 1, out=found[:-1])
    found[-1:] = len(data) - data.endswith(b"\n")
    return found


def positions(chunk: Chunk) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The position at which each line starts, and that of its text."""
    begun = starts(chunk.data) if chunk.starts is None else chunk.starts
    return begun, begun if chunk.begins is None else chunk.begins


def _after(feeds: npt.NDArray[np.int64], data: bytes) -> npt.NDArray[np.int64]:
    found = np.zeros(len(feeds) + 1, dtype=np.int64)
    np.add(feeds, 1, out=found[1:])
    return found[:-1] if data.endswith(b"\n") or not data else found


def _controls(data: bytes) -> tuple[npt.NDArray[np.int64], bytes]:
    """The positions of line feeds, and the other control characters that occur."""
    text = np.frombuffer(data, np.uint8)
    blocks = range(_BLOCK, len(data), _BLOCK)
    places = [np.flatnonzero(text[at : at + _BLOCK] < _CONTROLS) + at for at in blocks]
    found = np.flatnonzero(text[:_BLOCK] < _CONTROLS)
    found = np.concatenate([found, *places]) if places else found
    kinds = text[found]
    is_feed = kinds == _FEED
    if is_feed.all():
        return found, b""
    return found[is_feed], bytes(np.flatnonzero(np.bincount(kinds, minlength=1)).tolist())


def _redraws(data: bytes, first: int) -> Chunk:
    ends = [end.group() for end in _ENDS.finditer(data)]
    feeds = np.array([end.endswith(b"\n") for end in ends] + [False], dtype=np.int64)
    numbers = first + np.concatenate([[0], np.cumsum(feeds)[:-1]]).astype(np.int64)
    return Chunk(_ENDS.sub(b"\n", data), first, numbers)


def _shorten(data: bytes, limit: int) -> bytes:
    """Cuts lines longer than the limit, so that a file reads the same whole and in pieces."""
    start = 0
    while len(data) - start > limit:
        end = data.rfind(b"\n", start, start + limit + 1)
        if end < 0:
            ends = (data.rfind(control, start, start + limit + 1) for control in (b"\r", b"\x08"))
            end = next((end for end in ends if end >= 0), -1)
        if end < 0:
            lines = re.split(rb"([\r\n\x08])", data.replace(b"\x00", b""))
            return b"".join(line[:limit] for line in lines)
        start = end + 1
    return data
