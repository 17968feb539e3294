"""Hits of one pattern, found in several ways -> the hits in the order of their lines; and of many logs, by log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gputel.analysis.parse.fast.columns import Ints
from gputel.analysis.parse.patterns import Field, Hits, Pattern, Reading, Reject, Texts, Values


def merged(parts: list[Hits], patterns: tuple[Pattern, ...]) -> list[Hits]:
    """One of each pattern that was found; every field of a part was met in the part's first line."""
    held: dict[Pattern, list[Hits]] = {pattern: [] for pattern in patterns}
    for part in parts:
        held[part.pattern].append(part)
    return [_merge(some) if len(some) > 1 else some[0] for some in held.values() if some]


def parted(
    parts: list[Hits], whole: list[Hits], rejects: list[Reject], counts: Ints, offsets: Ints
) -> Iterator[Reading]:
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
        yield Reading(int(counts[log + 1]) - line, found, own)


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
