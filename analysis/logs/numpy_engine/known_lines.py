"""Blanked lines of about one length -> the numbers of their shapes, found by the sum of their words.

That costs a third of looking up the text of each, also where a log has hundreds of shapes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs.numpy_engine.numbers import Ints, Words

LONGEST = 4000  # bytes of a line that is found so
ROOM = 32  # bytes that are compared to eight bytes of answers; a line takes up a multiple of it
_BITS = 15  # of the number of a slot
_FACTORS = np.cumprod(np.full(LONGEST // 8 + ROOM, 0x9E3779B97F4A7C15, dtype=np.uint64))  # all are odd


class KnownLines:
    """A row of words for each known line; a slot belongs to the last line whose sum leads there."""

    def __init__(self, room: int) -> None:
        self._lines: Words = np.zeros((1, room // 8), dtype=np.uint64)  # the first is that of a free slot
        self._lengths: Ints = np.zeros(1, dtype=np.int64)
        self._numbers: Ints = np.zeros(1, dtype=np.int64)
        self._rows: Ints = np.zeros(1 << _BITS, dtype=np.int64)  # by slot

    def find(self, lines: Words, lengths: Ints) -> tuple[Ints, Ints]:
        """The numbers of these lines, and the indices of the lines that are not known."""
        rows = self._rows[_slots(lines)]
        different = _different(lines, self._lines.take(rows, axis=0))
        different |= self._lengths[rows] != lengths
        return self._numbers[rows], np.flatnonzero(different)

    def add(self, lines: Words, lengths: Ints, numbers: Ints) -> None:
        if len(self._lines) > len(self._rows):  # most of them have lost their slots
            self._rows[:] = 0
            self._lines, self._lengths, self._numbers = self._lines[:1], self._lengths[:1], self._numbers[:1]
        slots, first = np.unique(_slots(lines), return_index=True)
        self._rows[slots] = np.arange(len(first)) + len(self._lines)
        self._lines = np.concatenate([self._lines, lines[first]])
        self._lengths = np.concatenate([self._lengths, lengths[first]])
        self._numbers = np.concatenate([self._numbers, numbers[first]])


def _slots(lines: Words) -> Ints:
    sums = lines @ _FACTORS[: lines.shape[1]]
    slots: Ints = (sums >> np.uint64(64 - _BITS)).view(np.int64)
    return slots


def _different(lines: Words, others: Words) -> npt.NDArray[np.bool_]:
    """Whether each line is not equal to its counterpart."""
    unequal = lines.ravel().view(np.uint32) != others.ravel().view(np.uint32)
    by_room = unequal.view(np.uint64).reshape(len(lines), -1)
    different: Words = by_room[:, 0]
    for answers in by_room.T[1:]:
        different = different | answers
    found: npt.NDArray[np.bool_] = different != 0
    return found
