"""Rich's bars whose figures do not fit the width -> each bar as one line, with the number of its first one.

Rich sets the rest below the column where the figures begin; where the output is no terminal it has 80 columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gputel.analysis.logs.lines import BAR, INDENT, Chunk
from gputel.analysis.logs.patterns import lazy_regex

_PART_OF_WORD = lazy_regex(r"(?<!\bnan)(?<!\binf)(?<=[A-Za-z_])$")


def joined(chunk: Chunk) -> Chunk:
    """The chunk with the lines of each bar as one; `number` still gives lines of the file."""
    bars = list(_bars(chunk.data)) if BAR[:1] in chunk.data else []  # ten times as fast as for all of it
    if not bars:
        return chunk
    data, at = [], 0
    follows = np.zeros(chunk.data.count(b"\n") + 1, dtype=np.bool_)
    for bar in bars:
        data += [chunk.data[at : bar.start], bar.text]
        at = bar.end
        first = chunk.data.count(b"\n", 0, bar.start)
        follows[first + 1 : first + 1 + bar.rests - bar.text.count(b"\n")] = True
    places = np.flatnonzero(~follows)
    return Chunk(b"".join([*data, chunk.data[at:]]), chunk.first, chunk.number(places))


class _Bar(NamedTuple):
    start: int
    end: int  # before the line feed
    text: bytes
    rests: int  # lines below the first


def _bars(data: bytes) -> Iterator[_Bar]:
    """The bars that go on below their first line."""
    start = data.find(BAR)
    while start >= 0:
        start = data.rfind(b"\n", 0, start) + 1
        end = _end(data, start)
        lines = [data[start:end]]
        column = -1
        while end < len(data) and (rest := INDENT.match(data, end + 1)):
            column = len(rest[1]) if column < 0 and _is_behind(lines[0], len(rest[1])) else column
            if len(rest[1]) != column:
                break
            start_of_rest, end = end + 1, _end(data, end + 1)
            lines.append(data[start_of_rest:end])
        if len(lines) > 1:
            yield _Bar(start, end, _one(lines), len(lines) - 1)
        start = data.find(BAR, end)


def _end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _is_behind(bar: bytes, column: int) -> bool:
    """Whether the column is of the text behind what is drawn."""
    text = bar.decode(errors="replace")
    return text.rfind(BAR.decode()) < column < len(text)


def _one(lines: list[bytes]) -> bytes:
    """The lines of a bar as one, and below it what was printed right behind the last of them.

    A word that is longer than its column goes on below without a blank.
    """
    texts = [line.decode(errors="surrogateescape") for line in lines]
    width = max(map(len, texts[:-1]))
    texts[-1], glued = texts[-1][:width], texts[-1][width:]
    whole = texts[0]
    for before, text in pairwise(texts):
        is_broken = len(before) == width and _PART_OF_WORD.search(before)
        whole = whole.rstrip() + ("" if is_broken else " ") + text.strip()
    return "\n".join([whole, glued] if glued.strip() else [whole]).encode(errors="surrogateescape")
