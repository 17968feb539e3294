"""Lines -> numbers, the same for those that are equal but for their digits.

In a log those stand in long runs, so lines of one length are blanked together and compared with one of them, eight
bytes at a time; only where hardly any is equal to another is each looked up by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gputel.analysis.parse.fast import digits
from gputel.analysis.parse.fast.columns import Ints, Words
from gputel.analysis.parse.fast.shapes import Shapes

LONGEST = 4000  # bytes of a line that is blanked together with others
FEW = 16  # lines of one length for which that pays
AT_ONCE = 1 << 18  # bytes of such lines: what the processor's cache holds
ROOM = 64  # bytes that are compared to eight bytes of answers; a line takes up a multiple of it
WORTH_IT = 3  # of how many lines one must be equal to the one in their midst


def numbered(data: bytes, starts: Ints, shapes: Shapes) -> Ints:
    """The number of each line's shape."""
    numbers = np.empty(len(starts), dtype=np.int64)
    lengths = np.empty(len(starts), dtype=np.int64)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = len(data) + (not data.endswith(b"\n")) - starts[-1:]
    lengths -= 1
    kinds = np.minimum(lengths, LONGEST + 1)
    kinds[starts + (kinds + ROOM) > len(data)] = 0  # behind them is nothing to fill up the room with
    order = np.argsort(kinds.astype(np.uint16), kind="stable")
    counts = np.bincount(kinds, minlength=LONGEST + 2)
    ends = np.cumsum(counts)
    counts[0] = counts[-1] = 0
    for length in np.flatnonzero(counts >= FEW).tolist():
        rows = order[ends[length] - counts[length] : ends[length]]
        together = _Together(data, length, len(rows), shapes)
        for first in range(0, len(rows), together.most):
            some = rows[first : first + together.most]
            numbers[some] = together.numbered(starts[some])
    rest = np.flatnonzero(counts[kinds] < FEW)
    spans = zip(starts[rest].tolist(), lengths[rest].tolist(), strict=True)
    numbers[rest] = [shapes[digits.blank(data[start : start + length])] for start, length in spans]
    return numbers


class _Together:
    """Lines of one length; what stands behind each of them in its room is made the same for all."""

    def __init__(self, data: bytes, length: int, count: int, shapes: Shapes) -> None:
        self._length, self._shapes = length, shapes
        room = -(-length // ROOM) * ROOM
        self._windows: npt.NDArray[Any] = np.ndarray((len(data) - room + 1,), f"V{room}", data, 0, (1,))
        self.most = min(count, max(FEW, AT_ONCE // room))
        lowest = np.full((self.most, room), digits.BLANK, dtype=np.uint8)
        lowest[:, length:] = 255
        self._lowest = lowest.ravel()  # of arrays numpy takes the larger ten times as fast as of a number

    def numbered(self, starts: Ints) -> Ints:
        numbers = np.empty(len(starts), dtype=np.int64)
        lines, left = self._blanked(starts), np.arange(len(starts))
        while len(left) >= FEW:
            one = lines[len(lines) // 2]
            others = _different(lines, one)
            numbers[left] = self._shapes[self._texts(one)[0]]
            lines, before, left = lines[others], len(left), left[others]
            if (before - len(left)) * WORTH_IT < before:
                break
        numbers[left] = list(map(self._shapes.__getitem__, self._texts(lines)))
        return numbers

    def _blanked(self, starts: Ints) -> npt.NDArray[np.uint64]:
        """A row of words for each line."""
        text = self._windows[starts].view(np.uint8)
        digits.blank_in_place(text, self._lowest)
        return text.view(np.uint64).reshape(len(starts), -1)

    def _texts(self, lines: Words) -> list[bytes]:
        text = lines.view(np.uint8).reshape(-1, len(self._lowest) // self.most)[:, : self._length]
        found: list[bytes] = np.ascontiguousarray(text).view(f"S{self._length}").ravel().tolist()
        return found


def _different(lines: Words, one: Words) -> Ints:
    """Those that are not equal to this one."""
    unequal = lines.ravel() != np.tile(one, len(lines))
    by_room = unequal.view(np.uint64).reshape(len(lines), -1)
    different = by_room[:, 0]
    for answers in by_room.T[1:]:
        different = different | answers
    found: Ints = np.flatnonzero(different)
    return found
