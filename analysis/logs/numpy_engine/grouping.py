"""Lines -> the number of each line's shape.

Lines of about one length are copied side by side and blanked together. Each is then compared with the known line
whose words have the same sum. Only lines that equal none are looked up by their text: a log mostly prints lines of
shapes that it printed before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs.numpy_engine.known_lines import LONGEST, ROOM
from gputel.analysis.logs.numpy_engine.numbers import BLANK, Ints, Words, blank, blank_in_place
from gputel.analysis.logs.numpy_engine.shapes import Shapes

FEW = 16  # lines for which that pays
AT_ONCE = 1 << 18  # bytes of such lines: what the processor's cache holds
_PADDING = 255


def group_by_shape(data: bytes, starts: Ints, ends: Ints, shapes: Shapes) -> Ints:
    """The number of each line's shape."""
    numbers = np.empty(len(starts), dtype=np.int64)
    lengths = ends - starts
    rooms = lengths // ROOM + 1
    rooms[lengths > LONGEST] = 0
    last = slice(int(np.searchsorted(starts, len(data) - LONGEST - ROOM)), None)
    rooms[last][ends[last] + ROOM > len(data)] = 0  # the data ends within their room
    counts = np.bincount(rooms)
    for room in np.flatnonzero(counts).tolist():
        rows = np.flatnonzero(rooms == room)
        if room == 0 or counts[room] < FEW:
            spans = zip(starts[rows].tolist(), lengths[rows].tolist(), strict=True)
            numbers[rows] = shapes.numbers_of([blank(data[start : start + size]) for start, size in spans])
            continue
        block = _Block(data, room * ROOM, shapes)
        for first in range(0, len(rows), block.most):
            some = rows[first : first + block.most]
            numbers[some] = block.numbers(starts[some], lengths[some])
    return shapes.tried(numbers)


class _Block:
    """Lines that each fill a room of this size, but for at most ROOM bytes."""

    def __init__(self, data: bytes, room: int, shapes: Shapes) -> None:
        self._room, self._shapes, self._known = room, shapes, shapes.known_lines(room)
        self._windows: npt.NDArray[Any] = np.ndarray((len(data) - room + 1,), f"V{room}", data, 0, (1,))
        self.most = max(FEW, AT_ONCE // room)
        lowest = np.full((ROOM + 1, room), BLANK, dtype=np.uint8)  # by the bytes that a line leaves free
        for free in range(ROOM + 1):
            lowest[free, room - free :] = _PADDING
        self._lowest = lowest.view(f"V{room}").ravel()

    def numbers(self, starts: Ints, lengths: Ints) -> Ints:
        """The number of each line's shape."""
        text = self._windows[starts].view(np.uint8)
        blank_in_place(text, self._lowest[self._room - lengths].view(np.uint8))
        lines: Words = text.view(np.uint64).reshape(len(starts), -1)
        numbers, others = self._known.find(lines, lengths)
        if len(others):
            lines, lengths = lines.take(others, axis=0), lengths[others]
            numbers[others] = self._shapes.numbers_of(self._texts(lines, lengths))
            self._known.add(lines, lengths, numbers[others])
        return numbers

    def _texts(self, lines: Words, lengths: Ints) -> list[bytes]:
        texts = lines.view(f"V{self._room}").ravel().tolist()
        return [text[:length] for text, length in zip(texts, lengths.tolist(), strict=True)]
