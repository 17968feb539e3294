"""What was printed right behind a bar or an object -> a line of its own: `9.8it/s]Epoch 3 loss 2.5`.

A bar ends without a line feed, so the next print of the training goes on behind it. Where that says no place, the
count of a bar that goes on is the place of the text behind it. Objects of JSON may have nothing between them, or a
line feed that was escaped, `{"step": 1}\\n{"step": 2}`.
"""

from __future__ import annotations

import numpy as np

from gputel.analysis.logs import lines
from gputel.analysis.logs.lines import Chunk
from gputel.analysis.logs.patterns import lazy_regex

_PLACE = rb"(?<![A-Za-z])(?i:epoch|step|iter|iteration)\b"
# `<00:05, 9.8it/s, loss=2.5]`, and what is printed behind it
_BEHIND = lazy_regex(
    rb"<[\d:?]{1,11}(?:,[^\]\n]*)?\]"
    rb"(?=\[?\d{2,4}[-/:]\d\d|(?:DEBUG|INFO|WARNING|ERROR)[: ]"
    rb"|%b|[^\s\])},.:;|\d][^\d\n|%%]{0,40}%b)" % (_PLACE, _PLACE)
)
_COUNTED = lazy_regex(rb"\d/(?:\d+|\?) \[[\d:]{1,11}$")  # `50/100 [00:10`
_OBJECT_ENDS = lazy_regex(rb'\}(?:\\n)?(?=\{")')
_SHOWN = 1000  # lines of a file that show whether it has several objects on a line
_LONGEST = 40  # bytes of a count and a time


class GluedLines:
    """Parts the lines of one log, which must be given in the order of the file.

    Objects on one line are sought from where one of the first lines has some: to seek them in all lines of a long
    log takes a tenth of the time to read it.
    """

    def __init__(self) -> None:
        self._has_objects = False

    def parted(self, chunk: Chunk) -> Chunk:
        """The chunk with each such text below its bar or object; `number` still gives lines of the file."""
        bars = _BEHIND.finditer(chunk.data) if b"<" in chunk.data else ()
        ends = [bar.end() for bar in bars if _is_counted(chunk.data, bar.start())]
        self._has_objects = self._has_objects or (chunk.first <= _SHOWN and _begins_with_objects(chunk))
        if self._has_objects:
            ends = sorted([*ends, *(end.end() for end in _OBJECT_ENDS.finditer(chunk.data))])
        if not ends:
            return chunk
        begun, _ = lines.positions(chunk)
        rows = np.searchsorted(begun, ends, side="right") - 1
        copies = 1 + np.bincount(rows, minlength=len(begun))
        pieces = [chunk.data[begin:end] for begin, end in zip([0, *ends], [*ends, None], strict=True)]
        return Chunk(b"\n".join(pieces), chunk.first, chunk.number(np.repeat(np.arange(len(begun)), copies)))


def _begins_with_objects(chunk: Chunk) -> bool:
    """Whether one of the first lines of the file has several objects."""
    begun, _ = lines.positions(chunk)
    end = int(np.searchsorted(chunk.number(np.arange(len(begun))), _SHOWN, side="right"))
    head = chunk.data[: begun[end]] if end < len(begun) else chunk.data
    return _OBJECT_ENDS.search(head) is not None


def _is_counted(data: bytes, time_left: int) -> bool:
    """Whether a bar's count and time stand before the time that is left."""
    return _COUNTED.search(data[max(0, time_left - _LONGEST) : time_left]) is not None
