"""Hits of one pattern, found in several ways -> the hits in the order of their lines."""

from __future__ import annotations

import numpy as np

from gputel.analysis.parse.fast.columns import Ints
from gputel.analysis.parse.patterns import Field, Hits, Pattern, Values


def merged(parts: list[Hits], patterns: tuple[Pattern, ...]) -> list[Hits]:
    """One of each pattern that was found; every field of a part was met in the part's first line."""
    held: dict[Pattern, list[Hits]] = {pattern: [] for pattern in patterns}
    for part in parts:
        held[part.pattern].append(part)
    return [_merge(some) if len(some) > 1 else some[0] for some in held.values() if some]


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


def _texts(what: Field, parts: list[Hits], order: Ints) -> list[bytes | None]:
    found = [text for part in parts for text in part.texts.get(what, [None] * len(part.lines))]
    return [found[row] for row in order.tolist()]
