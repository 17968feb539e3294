"""Recognizes lines that a restarted command prints again, and lets only new ones through.

`kubectl logs -f` starts again with the whole log, or with the part that its node still has; `ssh b tail -F log`
starts with the last ten lines. Lines are held back as long as they match a run of earlier lines; the lines after
the last old one are new. As soon as a line does not match, the output is another container's, and all of it is
new.

A line is recognized by checksum and length: the most recent lines and the first ones each, those in between by a
checksum of the whole log up to every 1024th line. A second run that prints exactly the same lines as the first
looks like a replay.
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

LAST, FIRST = 1 << 18, 1 << 12  # lines that are recognized one by one
EVERY = 1 << 10
_LINE = re.compile(rb"[^\r\n]*(?:\r*\n|\r+(?=[^\r\n]))")  # each redraw of a progress bar counts as a line


class Replays:
    """Call `begin` when the command starts; `feed` takes its output and returns the new part."""

    def __init__(self) -> None:
        self._marks: Ints = np.zeros(0, dtype=np.int64)  # of the last lines
        self._fresh: list[int] = []  # marks to append to them
        self._first: list[int] = []
        self._chain: list[int] = []  # checksums of the whole log up to every 1024th line
        self._sum = self._lines = 0
        self._line = b""  # the returned part of a line that has no end yet
        self._places: Ints | None = None  # lines at which this output may start; negative: before `_marks`
        self._pending: list[bytes] = []
        self._sure = 0  # how many pending lines are certainly old
        self._part = b""  # start of the line after them
        self._compared = self._compared_sum = 0

    def begin(self) -> None:
        """Starts a new output. Pending lines of the one before were old, or look exactly like old ones."""
        self._marks = np.concatenate([self._marks, np.array(self._fresh, dtype=np.int64)])[-LAST:]
        self._fresh, self._pending, self._part = [], [], b""
        self._sure = self._compared = self._compared_sum = 0
        before = self._lines - len(self._marks)
        places = np.arange(len(self._marks), dtype=np.int64)
        self._places = np.concatenate([[-before], places]) if before else places

    def as_json(self) -> dict[str, Any]:
        """Returns the marks of all complete lines, for `from_json`."""
        marks = np.concatenate([self._marks, np.array(self._fresh, dtype=np.int64)])[-LAST:]
        return {
            "last": base64.b64encode(marks.astype("<i8").tobytes()).decode(),
            "first": self._first,
            "chain": self._chain,
            "sum": self._sum,
            "lines": self._lines,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Replays:
        """Raises ValueError, TypeError or KeyError for anything that `as_json` did not write."""
        replays = cls()
        replays._marks = np.frombuffer(base64.b64decode(saved["last"], validate=True), "<i8").astype(np.int64)
        replays._first, replays._chain = ([int(mark) for mark in saved[name]] for name in ("first", "chain"))
        replays._sum, replays._lines = int(saved["sum"]), int(saved["lines"])
        expected = (min(replays._lines, LAST), min(replays._lines, FIRST), replays._lines // EVERY)
        if (len(replays._marks), len(replays._first), len(replays._chain)) != expected:
            raise ValueError(f"marks of {replays._lines} lines are not complete")
        return replays

    def feed(self, data: bytes) -> bytes:
        data = self._part + data
        lines = _LINE.findall(data)
        self._part = data[sum(map(len, lines)) :]
        for i, line in enumerate(lines):
            if self._is_new_output:
                return self._release(lines[i:])
            self._compare(line)
        return self._release([]) if self._is_new_output else b""

    @property
    def _is_new_output(self) -> bool:
        """Whether the output no longer matches earlier lines anywhere."""
        return self._places is None or not len(self._places)

    def _compare(self, line: bytes) -> None:
        """Drops the places that this line contradicts, and those where the last old line is reached."""
        assert self._places is not None
        mark = _mark(line)
        positions = self._places + self._compared
        expected = np.where(positions >= 0, self._marks[np.clip(positions, 0, None)], mark)
        self._pending.append(line)
        self._compared += 1
        if positions[0] < 0 and not self._may_be_whole_log(line, mark):
            expected[0] = ~mark
        self._places = self._places[expected == mark]
        is_at_end = self._places + self._compared == len(self._marks)
        if is_at_end.any():
            self._sure = len(self._pending)
            self._places = self._places[~is_at_end]

    def _may_be_whole_log(self, line: bytes, mark: int) -> bool:
        """Whether this output may have started with the very first line of the log."""
        count = self._compared
        self._compared_sum = zlib.crc32(line, self._compared_sum)
        if count <= len(self._first):
            return self._first[count - 1] == mark
        if count % EVERY:
            return True
        if self._chain[count // EVERY - 1] != self._compared_sum:
            return False
        self._pending, self._sure = [], 0  # certainly old; keeping millions would cost memory
        return True

    def _release(self, lines: list[bytes]) -> bytes:
        """Returns pending new lines, then `lines`, then the start of the next one."""
        if self._places is not None:
            lines = [*self._pending[self._sure :], *lines]
            self._places, self._pending, self._sure = None, [], 0
        whole = b"".join([*lines, self._part])
        if not lines and self._line.startswith(whole):
            return b""  # all of it was returned before
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
