"""The plain engine: every line, every pattern, one `re` search after the other.

The numpy engine is tested against it, and hands it the lines that it cannot read itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import values
from gputel.analysis.logs.patterns import EngineResult, Field, Hits, Pairs, Pattern, Reject, Texts, Values

Span = tuple[int, int]
Cells = dict[Field, "float | Span | None"]  # a number, or where in the data a text stands
Row = tuple[int, int, int, Cells]  # number, start, begin and cells of a line


@dataclass(frozen=True)
class Match:
    """A pattern that matches a line: where the match begins, and where the text of each field stands."""

    pattern: Pattern
    begin: int
    cells: dict[Field, tuple[int, int]]
    several: bool = False  # whether bars follow on the line, so that its numbers say which of them counts


class UnreadableError(Exception):
    """A value that must be a number and is not."""


def read(
    data: bytes,
    patterns: tuple[Pattern, ...],
    _starts: npt.NDArray[np.int64] | None = None,
    begins: npt.NDArray[np.int64] | None = None,
    /,
) -> EngineResult:
    by_pattern: dict[Pattern, list[Row]] = {pattern: [] for pattern in patterns}
    rejects: list[Reject] = []
    needles = {pattern.needle for pattern in patterns}
    begun = [] if begins is None else begins.tolist()
    count = end = 0
    for count, whole in enumerate(_lines(data), start=1):
        start = begun[count - 1] if begun else end
        line = whole[start - end :]
        end += len(whole) + 1
        if any(needle in line for needle in needles):
            found = match(line, patterns)
            if isinstance(found, Match):
                by_pattern[found.pattern].append(
                    (count - 1, start, start + found.begin, cells(line, start, found))
                )
            elif found:
                rejects.append(Reject(count - 1, *found))
    return EngineResult(
        count, [hits(data, pattern, rows) for pattern, rows in by_pattern.items() if rows], rejects
    )


def match(line: bytes, patterns: tuple[Pattern, ...]) -> Match | tuple[str, str] | None:
    """A match, a reject as (pattern, reason), or None for a line of no interest."""
    for pattern in patterns:
        if pattern.needle in line:
            try:
                found = _fit(line, pattern)
            except UnreadableError as error:
                return pattern.name, str(error)
            if found:
                return found
    for pattern in patterns:
        if pattern.looks and pattern.needle in line and pattern.looks.search(line):
            return pattern.name, f"looks like {pattern.name}, but the rest of the line does not match"
    return None


def last_digits(line: bytes, pattern: Pattern) -> dict[Field, float]:
    """What the last printed digit of each number of a line stands for, in the unit of its column."""
    found = _fit(line, pattern)
    spans = found.cells.items() if found else ()
    return {
        what: values.last_digit(text, what)
        for what, span in spans
        if what.kind in ("number", "clock") and (text := line[slice(*span)]) not in what.nulls
    }


def cells(line: bytes, start: int, found: Match) -> Cells:
    return {what: _cell(line, start, span, what) for what, span in found.cells.items()}


def _cell(line: bytes, start: int, span: Span, what: Field) -> float | Span | None:
    text = line[slice(*span)]
    if what.kind == "text":
        return None if text in what.nulls else (start + span[0], start + span[1])
    return values.read(text, what)


def hits(data: bytes, pattern: Pattern, rows: list[Row]) -> Hits:
    places = np.array([row[:3] for row in rows], dtype=np.int64)
    values: dict[Field, Values] = {}
    texts: dict[Field, Texts] = {}
    for what in dict.fromkeys(what for *_, found in rows for what in found):
        column = [found.get(what) for *_, found in rows]
        if what.kind == "text":
            spans = [cell if isinstance(cell, tuple) else (-1, -1) for cell in column]
            texts[what] = Texts(data, *np.array(spans, dtype=np.int64).T)
        else:
            values[what] = as_values([cell if isinstance(cell, float) else None for cell in column])
    return Hits(pattern, places[:, 0], places[:, 1], places[:, 2], values, texts)


def as_values(column: list[float | None]) -> Values:
    present = np.array([cell is not None for cell in column], dtype=np.bool_)
    return Values(np.array([0.0 if cell is None else cell for cell in column], dtype=np.float64), present)


def _lines(data: bytes) -> Iterator[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return iter(lines)


def _fit(line: bytes, pattern: Pattern) -> Match | None:
    first = pattern.regex.search(line)
    if not first or (pattern.unless and pattern.unless.search(line)):
        return None
    bars = list(pattern.regex.finditer(line, first.end())) if pattern.role == "bar" else []
    found = _last_redraw(line, pattern, [first, *bars])
    cells = {what: found.span(group) for group, what in pattern.fields.items() if found[group] is not None}
    for group, what in _unsure(pattern):
        if found[group] is not None and not values.is_readable(found[group], what):
            text = found[group].decode(errors="replace")
            raise UnreadableError(f"{what.source} is {text!r}, expected a number")
    if pattern.pairs and not _scan(line, found.end(), pattern.pairs, cells, redrawn=pattern.role == "bar"):
        return None
    return Match(pattern, first.start(), cells, several=bool(bars))


def _last_redraw(line: bytes, pattern: Pattern, bars: list[re.Match[bytes]]) -> re.Match[bytes]:
    """Of redraws of a bar that stand on one line the last; another bar has another total, or gives no figure."""
    last, totals = bars[0], [group for group, what in pattern.fields.items() if what.column == "total"]
    for again in bars[1:]:
        gives = not pattern.pairs or _scan(line, again.end(), pattern.pairs, {}, redrawn=True)
        if gives and all(again[group] == last[group] for group in totals):
            last = again
    return last


@lru_cache(maxsize=4096)
def _unsure(pattern: Pattern) -> tuple[tuple[str, Field], ...]:
    """Number groups whose regex also matches other text."""
    regex = pattern.regex.pattern
    return tuple(
        (group, what)
        for group, what in pattern.fields.items()
        if what.kind != "text"
        and not any(b"(?P<%b>%b)" % (group.encode(), sure) in regex for sure in values.SURE)
    )


def _scan(line: bytes, start: int, pairs: Pairs, cells: dict[Field, Span], *, redrawn: bool) -> bool:
    """Adds the cells of pairs; returns False if none that the pattern needs is among them.

    Of two pairs with one name the first counts, but in a bar that was `redrawn` the last.
    """
    named: dict[Field, Span] = {}
    for pair in pairs.regex.finditer(line, start):
        begin = pair.start("value")
        what, size = _pair(pair["key"], pair["value"], pair.end() == len(line), pairs)
        if what and (redrawn or what not in named):
            named[what] = (begin, begin + size)
        if "also" in pairs.regex.groupindex and pair["also"]:
            what, size = _pair(pair["key"] + b"()", pair["also"], False, pairs)
            if what and (redrawn or what not in named):
                named[what] = (pair.start("also"), pair.start("also") + size)
    cells.update({what: span for what, span in named.items() if what not in cells})
    return not pairs.need or any(what.column in pairs.need for what in cells)


def _pair(key: bytes, text: bytes, last: bool, pairs: Pairs) -> tuple[Field | None, int]:
    parts = values.split(text, last)
    if parts:
        what = pairs.names.field(key, parts[1])
        return what, len(text if what and what.kind == "text" else parts[0])
    what = pairs.names.field(key, b"")
    word = text.strip()
    if what and what.kind != "number":
        return what, len(text)
    if what and word in what.nulls:
        return what, len(word)
    if what and what.column in pairs.must and not word.startswith(b"`"):  # a name in a sentence
        raise UnreadableError(f"{what.source} is {word.decode(errors='replace')!r}, expected a number")
    return None, 0
