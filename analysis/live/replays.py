"""What a command prints when it is started again -> only what it had not printed before.

`kubectl logs -f` begins again with the whole log, or with what its node still has of it; `ssh b tail -F log` with
the last ten lines. So lines are held back as long as they are those that once stood somewhere, one after the other;
what follows the last of the old ones is new. Lines that part from the old are another container's, and all new.

Lines are known by checksum and length: the last ones each, the first ones each, of those between every thousandth
with all before it. What cannot be known: a second run that prints, to the letter, what the first one did.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

LAST, FIRST = 1 << 18, 1 << 12  # lines that are known one by one
EVERY = 1 << 10
_LINE = re.compile(rb"[^\r\n]*(?:\r*\n|\r+(?=[^\r\n]))")  # a redraw is a line, too


class Replays:
    """`begin` where the command starts; `feed` what it prints, which gives what is new."""

    def __init__(self) -> None:
        self._marks: Ints = np.zeros(0, dtype=np.int64)  # of the last lines
        self._fresh: list[int] = []  # of those that are to be put behind them
        self._first: list[int] = []
        self._chain: list[int] = []  # a checksum of all lines up to every thousandth
        self._sum = self._lines = 0
        self._line = b""  # what was handed on of a line that has no end yet
        self._places: Ints | None = (
            None  # where among the last lines this start may have begun; below 0: before
        )
        self._held: list[bytes] = []
        self._sure = 0  # how many of those held back are old whatever comes
        self._part = b""  # of the line after them
        self._compared = self._compared_sum = 0

    def begin(self) -> None:
        """Whatever was held back of the start before was old, or cannot be told from it."""
        self._marks = np.concatenate([self._marks, np.array(self._fresh, dtype=np.int64)])[-LAST:]
        self._fresh, self._held, self._part = [], [], b""
        self._sure = self._compared = self._compared_sum = 0
        before = self._lines - len(self._marks)
        places = np.arange(len(self._marks), dtype=np.int64)
        self._places = np.concatenate([[-before], places]) if before else places

    def as_json(self) -> dict[str, Any]:
        """Returns what is known of the lines that were handed on, for `from_json`; a line without an end is not."""
        marks = np.concatenate([self._marks, np.array(self._fresh, dtype=np.int64)])[-LAST:]
        return {
            "last": base64.b64encode(marks.astype("<i8").tobytes()).decode(),
            "first": self._first,
            "chain": self._chain,
            "sum": self._sum,
            "lines": self._lines,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Replays:
        """Raises ValueError, TypeError or KeyError for anything that `as_json` did not write."""
        known = cls()
        known._marks = np.frombuffer(base64.b64decode(found["last"], validate=True), "<i8").astype(np.int64)
        known._first, known._chain = ([int(mark) for mark in found[name]] for name in ("first", "chain"))
        known._sum, known._lines = int(found["sum"]), int(found["lines"])
        expected = (min(known._lines, LAST), min(known._lines, FIRST), known._lines // EVERY)
        if (len(known._marks), len(known._first), len(known._chain)) != expected:
            raise ValueError(f"marks of {known._lines} lines are not complete")
        return known

    def feed(self, data: bytes) -> bytes:
        data = self._part + data
        lines = _LINE.findall(data)
        self._part = data[sum(map(len, lines)) :]
        for at, line in enumerate(lines):
            if self._is_told_apart:
                return self._hand_on(lines[at:])
            self._compare(line)
        return self._hand_on([]) if self._is_told_apart else b""

    @property
    def _is_told_apart(self) -> bool:
        return self._places is None or not len(self._places)

    def _compare(self, line: bytes) -> None:
        """Which places does another line of this start speak against, and which have come to the last one?"""
        assert self._places is not None
        mark = _mark(line)
        at = self._places + self._compared
        known = np.where(at >= 0, self._marks[np.clip(at, 0, None)], mark)
        self._held.append(line)
        self._compared += 1
        if at[0] < 0 and not self._is_the_whole_log(line, mark):
            known[0] = ~mark
        self._places = self._places[known == mark]
        come = self._places + self._compared == len(self._marks)
        if come.any():
            self._sure = len(self._held)
            self._places = self._places[~come]

    def _is_the_whole_log(self, line: bytes, mark: int) -> bool:
        """Whether this start can have begun with the first line that there ever was."""
        count = self._compared
        self._compared_sum = zlib.crc32(line, self._compared_sum)
        if count <= len(self._first):
            return self._first[count - 1] == mark
        if count % EVERY:
            return True
        if self._chain[count // EVERY - 1] != self._compared_sum:
            return False
        self._held, self._sure = [], 0  # old whatever comes, and not to be kept by the million
        return True

    def _hand_on(self, lines: list[bytes]) -> bytes:
        """What is held back and not old, then these lines, then the one that has only begun."""
        if self._places is not None:
            lines = [*self._held[self._sure :], *lines]
            self._places, self._held, self._sure = None, [], 0
        whole = b"".join([*lines, self._part])
        if not lines and self._line.startswith(whole):
            return b""  # no more yet than was handed on before
        begun = self._line if whole.startswith(self._line) else b""
        torn = b"\n" if self._line and not begun else b""
        if torn:
            self._remember(self._line + torn)
        for line in lines:
            self._remember(line)
        self._line = self._part
        return torn + whole[len(begun) :]

    def _remember(self, line: bytes) -> None:
        mark = _mark(line)
        self._fresh.append(mark)
        if len(self._fresh) == LAST:
            self._marks, self._fresh = np.array(self._fresh, dtype=np.int64), []
        self._lines += 1
        self._sum = zlib.crc32(line, self._sum)
        if len(self._first) < FIRST:
            self._first.append(mark)
        if self._lines % EVERY == 0:
            self._chain.append(self._sum)


def _mark(line: bytes) -> int:
    return zlib.crc32(line) | (len(line) & 0x7FFFFFFF) << 32
