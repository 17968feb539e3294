"""The fast engine: the same cells as `exact.read`, an order of magnitude sooner.

Training prints millions of lines that differ in their digits only. So every digit is made a 0, in all lines at
once; lines that are then equal have one shape, and one of them is read by the plain engine. For the others it is
known where each number stands, and numpy reads them column by column. Lines of no common shape, and numbers that do
not come out exactly this way, go to the plain engine: that is what makes the two agree, cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from threading import get_ident

import numpy as np

from gputel.analysis.parse import exact, lines
from gputel.analysis.parse.fast import alike
from gputel.analysis.parse.fast.columns import Ints
from gputel.analysis.parse.fast.merge import merged, parted
from gputel.analysis.parse.fast.shapes import LOOKED_AT, UNKNOWN, WORTH_IT, Shapes
from gputel.analysis.parse.patterns import Field, Hits, Pattern, Reading, Reject

SMALL = 4096  # bytes below which the plain engine is as fast


def read(data: bytes, patterns: tuple[Pattern, ...], starts: Ints | None = None, /) -> Reading:
    if len(data) < SMALL:
        return exact.read(data, patterns)
    starts = lines.starts(data) if starts is None else starts
    parts, rejects = _parts(data, patterns, starts)
    return Reading(len(starts), merged(parts, patterns), rejects)


def read_together(pieces: list[tuple[bytes, Ints]], patterns: tuple[Pattern, ...]) -> Iterator[Reading]:
    """The same for pieces of many logs, each of whole lines and with the starts of these."""
    data = b"".join([data for data, _ in pieces])
    offsets = np.cumsum([0, *(len(data) for data, _ in pieces)])
    counts = np.cumsum([0, *(len(starts) for _, starts in pieces)])
    starts = np.concatenate([starts + at for (_, starts), at in zip(pieces, offsets, strict=False)])
    parts, rejects = _parts(data, patterns, starts)
    return parted(parts, merged(parts, patterns), rejects, counts, offsets)


def _parts(data: bytes, patterns: tuple[Pattern, ...], starts: Ints) -> tuple[list[Hits], list[Reject]]:
    """Hits by layout, so that all lines of one have the same fields; and the rejects."""
    shapes = _shapes(patterns, get_ident())
    numbers = alike.numbered(data, starts, shapes)
    _learn(shapes, numbers, starts, data)
    _check(shapes, numbers, starts, data)
    layouts = np.array(shapes.layout)[numbers]
    first = np.flatnonzero(starts[:8] < 8)
    early = starts[first] + np.array(shapes.reach)[numbers[first]] < 8
    layouts[first[early]] = LOOKED_AT
    columns = np.array(shapes.column)
    hits = []
    for place in np.flatnonzero(np.bincount(layouts[layouts >= 0])):
        rows = np.flatnonzero(layouts == place)
        hits.append(shapes.layouts[place].read(rows, data, starts[rows], columns[numbers[rows]]))
    rejects = _look(data, starts, np.flatnonzero(layouts <= LOOKED_AT), patterns, hits)
    if shapes.full:
        shapes.forget()
    return hits, rejects


@lru_cache(maxsize=8)
def _shapes(patterns: tuple[Pattern, ...], _thread: int) -> Shapes:
    """Remembered, so that the next chunk of the log finds what this one learnt; a thread has its own."""
    return Shapes(patterns)


def _learn(shapes: Shapes, numbers: Ints, starts: Ints, data: bytes) -> None:
    """Has those shapes worked out that enough lines have."""
    counts = np.bincount(numbers, minlength=len(shapes.layout))
    unknown = np.flatnonzero((np.array(shapes.layout) == UNKNOWN) & (counts > 0))
    if unknown.size:
        example = np.zeros(len(counts), dtype=np.int64)
        example[numbers] = starts
        for number in unknown.tolist():
            shapes.seen[number] += int(counts[number])
            if shapes.seen[number] >= WORTH_IT:
                shapes.learn(number, _line(data, int(example[number])))


def _check(shapes: Shapes, numbers: Ints, starts: Ints, data: bytes) -> None:
    """Gives lines whose names hold other digits than their shape's the shape that they do have."""
    checked = np.array([len(checks) > 0 for checks in shapes.checks])
    rows = np.flatnonzero(checked[numbers])
    rows = rows[starts[rows] + np.array(shapes.reach)[numbers[rows]] >= 8]
    if not rows.size:
        return
    wrong = rows[shapes.failing(numbers[rows], data, starts[rows])]
    for row in wrong.tolist():
        numbers[row] = shapes.variant(_line(data, int(starts[row])))
    if wrong.size:
        _learn(shapes, numbers, starts, data)


def _look(
    data: bytes, starts: Ints, rows: Ints, patterns: tuple[Pattern, ...], parts: list[Hits]
) -> list[Reject]:
    """Reads these lines with the plain engine; their hits are added to the parts."""
    rejects = []
    held: dict[tuple[Pattern, tuple[Field, ...]], list[exact.Row]] = {}
    for row, start in zip(rows.tolist(), starts[rows].tolist(), strict=True):
        line = _line(data, start)
        found = exact.match(line, patterns)
        if isinstance(found, exact.Match):
            cells = exact.cells(line, start, found)
            held.setdefault((found.pattern, tuple(cells)), []).append(
                (row, start, start + found.begin, cells)
            )
        elif found:
            rejects.append(Reject(row, *found))
    parts += [exact.hits(data, pattern, some) for (pattern, _), some in held.items()]
    return rejects


def _line(data: bytes, start: int) -> bytes:
    end = data.find(b"\n", start)
    return data[start:] if end < 0 else data[start:end]
