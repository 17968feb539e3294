"""The fast engine: the same cells as the regex engine, an order of magnitude sooner.

Training prints millions of lines that differ in their digits only. `shapes` groups lines that are equal once every
digit is made a 0, and the regex engine reads one line of each group. That tells where each number stands in the
others, and `layouts` reads them column by column. Lines of no common shape, and numbers that do not come out
exactly this way, go to the regex engine: that is what makes the two agree, cell by cell.

`read` takes a piece of one log; `read_together` takes pieces of many logs at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from threading import get_ident

import numpy as np

from gputel.analysis.logs import lines, regex_engine
from gputel.analysis.logs.lines import Chunk
from gputel.analysis.logs.numpy_engine.grouping import group_by_shape
from gputel.analysis.logs.numpy_engine.numbers import Ints
from gputel.analysis.logs.numpy_engine.shapes import ONE_BY_ONE, UNKNOWN, Shapes
from gputel.analysis.logs.patterns import EngineResult, Field, Hits, Pattern, Reject, Texts, Values

SMALL = 4096  # bytes below which the regex engine is as fast


def read(
    data: bytes,
    patterns: tuple[Pattern, ...],
    starts: Ints | None = None,
    begins: Ints | None = None,
    /,
) -> EngineResult:
    if len(data) < SMALL:
        return regex_engine.read(data, patterns, starts, begins)
    starts = lines.starts(data) if starts is None else starts
    ends = lines.ends(data, starts)
    parts, rejects = _parts(data, patterns, starts if begins is None else begins, ends)
    return EngineResult(len(starts), merged(parts, patterns), rejects)


def read_together(chunks: list[Chunk], patterns: tuple[Pattern, ...]) -> Iterator[EngineResult]:
    """Reads chunks of many logs in one go; each is whole lines."""
    data = b"".join([chunk.data for chunk in chunks])
    offsets = np.cumsum([0, *(len(chunk.data) for chunk in chunks)])
    positions = [lines.positions(chunk) for chunk in chunks]
    counts = np.cumsum([0, *(len(starts) for starts, _ in positions)])
    starts, begins = (
        np.concatenate([some + offset for some, offset in zip(column, offsets, strict=False)])
        for column in zip(*positions, strict=True)
    )
    parts, rejects = _parts(data, patterns, begins, lines.ends(data, starts))
    return split_by_log(parts, merged(parts, patterns), rejects, counts, offsets)


def _parts(
    data: bytes, patterns: tuple[Pattern, ...], starts: Ints, ends: Ints
) -> tuple[list[Hits], list[Reject]]:
    """Hits of one layout each, so that all lines of a part have the same fields; and the rejects."""
    shapes = _shapes(patterns, get_ident())
    numbers = group_by_shape(data, starts, ends, shapes)
    _learn(shapes, numbers, starts, data)
    _check(shapes, numbers, starts, data)
    layouts = shapes.values_of("layout")[numbers]
    first = np.flatnonzero(starts[:8] < 8)
    early = starts[first] + shapes.values_of("reach")[numbers[first]] < 8
    layouts[first[early]] = ONE_BY_ONE
    columns = shapes.values_of("column")
    hits = []
    for place in np.flatnonzero(np.bincount(layouts - UNKNOWN)[-UNKNOWN:]):
        rows = np.flatnonzero(layouts == place)
        hits.append(shapes.layouts[place].read(rows, data, starts[rows], columns[numbers[rows]]))
    rejects = _look(data, starts, np.flatnonzero(layouts <= ONE_BY_ONE), shapes, hits)
    if shapes.is_full:
        shapes.forget()
    return hits, rejects


@lru_cache(maxsize=8)
def _shapes(patterns: tuple[Pattern, ...], _thread: int) -> Shapes:
    """Remembers shapes, so that the next chunk of a log finds what this one learned; each thread has its own."""
    return Shapes(patterns)


def _learn(shapes: Shapes, numbers: Ints, starts: Ints, data: bytes) -> None:
    """Learns the shapes that enough lines have."""
    counts = np.bincount(numbers, minlength=len(shapes))
    unknown = np.flatnonzero((shapes.values_of("layout") == UNKNOWN) & (counts > 0))
    if unknown.size:
        example = np.zeros(len(counts), dtype=np.int64)
        example[numbers] = starts
        for number in shapes.see(unknown, counts[unknown]).tolist():
            shapes.learn(number, lines.line_at(data, int(example[number])))


def _check(shapes: Shapes, numbers: Ints, starts: Ints, data: bytes) -> None:
    """Gives a line whose names hold other digits than its shape's a shape of its own; writes into `numbers`."""
    has_checks = shapes.has_checks()
    if not has_checks.any():
        return
    rows = np.flatnonzero(has_checks[numbers])
    rows = rows[starts[rows] + shapes.values_of("reach")[numbers[rows]] >= 8]
    if not rows.size:
        return
    wrong = rows[shapes.failing(numbers[rows], data, starts[rows])]
    for row in wrong.tolist():
        numbers[row] = shapes.variant(lines.line_at(data, int(starts[row])))
    if wrong.size:
        _learn(shapes, numbers, starts, data)


def _look(data: bytes, starts: Ints, rows: Ints, shapes: Shapes, parts: list[Hits]) -> list[Reject]:
    """Reads these lines with the regex engine, adds their hits to `parts`, and returns the rejects."""
    rejects = []
    by_fields: dict[tuple[Pattern, tuple[Field, ...]], list[regex_engine.Row]] = {}
    for row, start in zip(rows.tolist(), starts[rows].tolist(), strict=True):
        line = lines.line_at(data, start)
        match = shapes.match(line)
        if isinstance(match, regex_engine.Match):
            cells = regex_engine.cells(line, start, match)
            by_fields.setdefault((match.pattern, tuple(cells)), []).append(
                (row, start, start + match.begin, cells)
            )
        elif match:
            rejects.append(Reject(row, *match))
    parts += [regex_engine.hits(data, pattern, some) for (pattern, _), some in by_fields.items()]
    return rejects


def merged(parts: list[Hits], patterns: tuple[Pattern, ...]) -> list[Hits]:
    """The hits of each pattern in one, in the order of lines; all lines of a part must have the same fields."""
    by_pattern: dict[Pattern, list[Hits]] = {pattern: [] for pattern in patterns}
    for part in parts:
        by_pattern[part.pattern].append(part)
    return [_merge(some) if len(some) > 1 else some[0] for some in by_pattern.values() if some]


def split_by_log(
    parts: list[Hits], whole: list[Hits], rejects: list[Reject], counts: Ints, offsets: Ints
) -> Iterator[EngineResult]:
    """Splits the hits of many logs; log i begins at line `counts[i]` and byte `offsets[i]`."""
    cuts = [
        (hits, _cuts(hits, counts), [(p, _cuts(p, counts)) for p in parts if p.pattern is hits.pattern])
        for hits in whole
    ]
    refused = np.searchsorted([reject.line for reject in rejects], counts).tolist()
    for log, (line, offset) in enumerate(zip(counts[:-1].tolist(), offsets.tolist(), strict=False)):
        own_hits = [
            _part(hits, slice(*bounds[log : log + 2]), _fields(some, log), line, offset)
            for hits, bounds, some in cuts
            if bounds[log] < bounds[log + 1]
        ]
        own_rejects = rejects[refused[log] : refused[log + 1]]
        own_rejects = [Reject(r.line - line, r.pattern, r.reason) for r in own_rejects]
        yield EngineResult(int(counts[log + 1]) - line, own_hits, own_rejects)


def _cuts(hits: Hits, counts: Ints) -> list[int]:
    rows: list[int] = np.searchsorted(hits.lines, counts).tolist()
    return rows


def _fields(parts: list[tuple[Hits, list[int]]], log: int) -> list[Field]:
    """The fields of one log, in the order in which it first printed them."""
    here = [(int(part.lines[cuts[log]]), part) for part, cuts in parts if cuts[log] < cuts[log + 1]]
    here.sort(key=lambda pair: pair[0])
    return list(dict.fromkeys(what for _, part in here for what in (*part.values, *part.texts)))


def _part(hits: Hits, rows: slice, fields: list[Field], line: int, offset: int) -> Hits:
    return Hits(
        hits.pattern,
        hits.lines[rows] - line,
        hits.starts[rows] - offset,
        hits.begins[rows] - offset,
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
    numbers = np.concatenate([column.numbers for column in columns])
    present = np.concatenate([column.present for column in columns])
    return Values(numbers[order], present[order])


def _nothing(count: int) -> Values:
    return Values(np.zeros(count), np.zeros(count, dtype=np.bool_))


def _texts(what: Field, parts: list[Hits], order: Ints) -> Texts:
    columns = [part.texts.get(what) or _no_texts(len(part.lines)) for part in parts]
    data = next(column.data for column in columns if column.data)
    begins, ends = (np.concatenate([getattr(c, name) for c in columns]) for name in ("begins", "ends"))
    return Texts(data, begins[order], ends[order])


def _no_texts(count: int) -> Texts:
    nowhere = np.full(count, -1)
    return Texts(b"", nowhere, nowhere)
