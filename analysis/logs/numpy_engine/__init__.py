"""The fast engine: the same cells as `exact.read`, an order of magnitude sooner.

Training prints millions of lines that differ in their digits only. So every digit is made a 0, in all lines at
once; lines that are then equal have one shape, and one of them is read by the plain engine. For the others it is
known where each number stands, and numpy reads them column by column. Lines of no common shape, and numbers that do
not come out exactly this way, go to the plain engine: that is what makes the two agree, cell by cell.

Hits of one pattern, found in several ways -> the hits in the order of their lines; and of many logs, by log.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from threading import get_ident

import numpy as np

from gputel.analysis.logs import lines, regex_engine
from gputel.analysis.logs.numpy_engine.numbers import Ints
from gputel.analysis.logs.numpy_engine.shapes import LOOKED_AT, UNKNOWN, WORTH_IT, Shapes, numbered
from gputel.analysis.logs.patterns import EngineResult, Field, Hits, Pattern, Reject, Texts, Values

SMALL = 4096  # bytes below which the plain engine is as fast


def read(data: bytes, patterns: tuple[Pattern, ...], starts: Ints | None = None, /) -> EngineResult:
    if len(data) < SMALL:
        return regex_engine.read(data, patterns)
    starts = lines.starts(data) if starts is None else starts
    parts, rejects = _parts(data, patterns, starts)
    return EngineResult(len(starts), merged(parts, patterns), rejects)


def read_together(pieces: list[tuple[bytes, Ints]], patterns: tuple[Pattern, ...]) -> Iterator[EngineResult]:
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
    numbers = numbered(data, starts, shapes)
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
    held: dict[tuple[Pattern, tuple[Field, ...]], list[regex_engine.Row]] = {}
    for row, start in zip(rows.tolist(), starts[rows].tolist(), strict=True):
        line = _line(data, start)
        found = regex_engine.match(line, patterns)
        if isinstance(found, regex_engine.Match):
            cells = regex_engine.cells(line, start, found)
            held.setdefault((found.pattern, tuple(cells)), []).append(
                (row, start, start + found.begin, cells)
            )
        elif found:
            rejects.append(Reject(row, *found))
    parts += [regex_engine.hits(data, pattern, some) for (pattern, _), some in held.items()]
    return rejects


def _line(data: bytes, start: int) -> bytes:
    end = data.find(b"\n", start)
    return data[start:] if end < 0 else data[start:end]


def merged(parts: list[Hits], patterns: tuple[Pattern, ...]) -> list[Hits]:
    """One of each pattern that was found; every field of a part was met in the part's first line."""
    held: dict[Pattern, list[Hits]] = {pattern: [] for pattern in patterns}
    for part in parts:
        held[part.pattern].append(part)
    return [_merge(some) if len(some) > 1 else some[0] for some in held.values() if some]


def parted(
    parts: list[Hits], whole: list[Hits], rejects: list[Reject], counts: Ints, offsets: Ints
) -> Iterator[EngineResult]:
    """A reading for each log; it begins at this one of the `counts` of lines and `offsets` of bytes."""
    cuts = [
        (hits, _cuts(hits, counts), [(p, _cuts(p, counts)) for p in parts if p.pattern is hits.pattern])
        for hits in whole
    ]
    refused = np.searchsorted([reject.line for reject in rejects], counts).tolist()
    for log, (line, at) in enumerate(zip(counts[:-1].tolist(), offsets.tolist(), strict=False)):
        found = [
            _part(hits, slice(*bounds[log : log + 2]), _fields(some, log), line, at)
            for hits, bounds, some in cuts
            if bounds[log] < bounds[log + 1]
        ]
        own = [Reject(r.line - line, r.pattern, r.reason) for r in rejects[refused[log] : refused[log + 1]]]
        yield EngineResult(int(counts[log + 1]) - line, found, own)


def _cuts(hits: Hits, counts: Ints) -> list[int]:
    found: list[int] = np.searchsorted(hits.lines, counts).tolist()
    return found


def _fields(parts: list[tuple[Hits, list[int]]], log: int) -> list[Field]:
    """The fields of one log in the order in which it printed them first."""
    here = [(int(part.lines[cuts[log]]), part) for part, cuts in parts if cuts[log] < cuts[log + 1]]
    here.sort(key=lambda one: one[0])
    return list(dict.fromkeys(what for _, part in here for what in (*part.values, *part.texts)))


def _part(hits: Hits, rows: slice, fields: list[Field], line: int, at: int) -> Hits:
    return Hits(
        hits.pattern,
        hits.lines[rows] - line,
        hits.starts[rows] - at,
        hits.begins[rows] - at,
        {
            what: Values(hits.values[what].numbers[rows], hits.values[what].present[rows])
            for what in fields
            if what in hits.values
        },
        {what: hits.texts[what].take(rows) for what in fields if what in hits.texts},
    )


def _merge(parts: list[Hits]) -> Hits:
    parts = sorted(parts, key=lambda part: int(part.lines[0]))
    order = np.argsort(np.concatenate([part.lines for part in parts]), kind="stable")
    return Hits(
        parts[0].pattern,
        np.concatenate([part.lines for part in parts])[order],
        np.concatenate([part.starts for part in parts])[order],
        np.concatenate([part.begins for part in parts])[order],
        {
            what: _values(what, parts, order)
            for what in dict.fromkeys(w for part in parts for w in part.values)
        },
        {what: _texts(what, parts, order) for what in dict.fromkeys(w for part in parts for w in part.texts)},
    )


def _values(what: Field, parts: list[Hits], order: Ints) -> Values:
    columns = [part.values.get(what) or _nothing(len(part.lines)) for part in parts]
    found = np.concatenate([column.numbers for column in columns])
    present = np.concatenate([column.present for column in columns])
    return Values(found.take(order), present.take(order))


def _nothing(count: int) -> Values:
    return Values(np.zeros(count), np.zeros(count, dtype=np.bool_))


def _texts(what: Field, parts: list[Hits], order: Ints) -> Texts:
    columns = [part.texts.get(what) or _no_texts(len(part.lines)) for part in parts]
    data = next(column.data for column in columns if column.data)
    begins, ends = (np.concatenate([getattr(c, name) for c in columns]) for name in ("begins", "ends"))
    return Texts(data, begins.take(order), ends.take(order))


def _no_texts(count: int) -> Texts:
    nowhere = np.full(count, -1)
    return Texts(b"", nowhere, nowhere)
