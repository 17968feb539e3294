"""Lines that are equal but for their digits have one shape: the plain engine reads one of them, all others follow.

This is exact wherever the regexes are blind to digits (`blind.py`), and where the digits that are part of a name
(`bf16_mfu`) are the same: those a shape checks. Whatever is not so is LOOKED_AT, line by line, by the plain engine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gputel.analysis.parse import exact, numbers
from gputel.analysis.parse.fast import blind, digits
from gputel.analysis.parse.fast.columns import Cell, Ints, Layout, words
from gputel.analysis.parse.patterns import Field, Names, Pattern

NOTHING, LOOKED_AT, UNKNOWN = -1, -2, -3  # in place of the number of a layout
WORTH_IT = 2  # lines of one shape, from which on working it out pays
MOST_SHAPES = 8192  # remembered, and
MOST_CHECKS = 6
MOST_BYTES = 16 << 20  # of them
_NAMED_DIGITS = re.compile(rb"(?<=[A-Za-z_])\d+")
_DIGIT = re.compile(rb"\d")


Check = tuple[int, int, int]  # the eight bytes that end here must be, under this mask, this word


class Shapes(dict[bytes, int]):
    """Blanked line -> number of its shape; `layout` and `column`: where its cells go; `checks`: what must hold."""

    def __init__(self, patterns: tuple[Pattern, ...]) -> None:
        super().__init__()
        self._patterns = patterns
        self._needles: dict[bytes, list[int]] = {}  # the numbers of the patterns that look for each
        for number, pattern in enumerate(patterns):
            self._needles.setdefault(digits.blank(pattern.needle), []).append(number)
        self._ear = _Ear()
        self._listening = [self._ear.behind(pattern) for pattern in patterns]
        self._spoken = dict(zip(self._listening, patterns, strict=True))
        self.forget()

    @property
    def full(self) -> bool:
        return self.bytes > MOST_BYTES or len(self.layout) > MOST_SHAPES

    def forget(self) -> None:
        self.clear()
        self.bytes = 0
        self.seen: list[int] = []
        self.layouts: list[Layout] = []
        self.layout: list[int] = []
        self.column: list[int] = []
        self.reach: list[int] = []  # how near to the start of its lines eight bytes end that are gathered
        self.checks: list[tuple[Check, ...]] = []
        self._places: dict[tuple[Pattern, tuple[tuple[Field, bool], ...]], int] = {}

    def __missing__(self, key: bytes) -> int:
        self[key] = number = len(self.layout)
        self.layout.append(UNKNOWN)
        self.seen.append(0)
        self.column.append(0)
        self.reach.append(0)
        self.checks.append(())
        self.bytes += len(key)
        return number

    def variant(self, line: bytes) -> int:
        """The shape of a line in whose names stand other digits; once known it is what is expected first."""
        blanked = digits.blank(line)
        number = self[blanked + b"\0" + b" ".join(_NAMED_DIGITS.findall(line))]
        if self.checks[number]:
            self[blanked] = number
        return number

    def learn(self, number: int, line: bytes) -> None:
        """Works the shape out from one of its lines."""
        self.layout[number] = LOOKED_AT
        blanked = digits.blank(line)
        near = sorted(
            number for needle, some in self._needles.items() if needle in blanked for number in some
        )
        seen = blind.worst(_sight(self._patterns[number]) for number in near)
        if seen == "sees":
            return
        self._ear.forget()
        found = exact.match(line, tuple(self._listening[number] for number in near))
        checks = _checks(line) if seen == "after letters" or self._ear.names else ()
        if isinstance(found, tuple) or self._ear.unclear or len(checks) > MOST_CHECKS:
            return
        self.checks[number], self.layout[number] = checks, NOTHING
        cells = _cells(found, line) if found else ()
        if found:
            self.layout[number], self.column[number] = self._place(found, cells)
        self.reach[number] = min([end for end, *_ in checks] + [n.reach for *_, n in cells if n], default=8)

    def failing(self, numbers: Ints, data: bytes, starts: Ints) -> npt.NDArray[np.bool_]:
        """Which of the lines, all of shapes with checks, do not hold what their shape checks."""
        failed = np.zeros(len(starts), dtype=np.bool_)
        present = np.flatnonzero(np.bincount(numbers))
        table = np.zeros((3, present[-1] + 1), dtype=np.uint64)
        for place in range(max(len(self.checks[number]) for number in present)):
            table[:] = 0
            for number in present:
                if place < len(self.checks[number]):
                    table[:, number] = self.checks[number][place]
            ends, masks, expected = table.take(numbers, axis=1)
            failed |= (words(data, starts, ends.view(np.int64)) & masks) != expected
        return failed

    def _place(self, found: exact.Match, cells: tuple[Cell, ...]) -> tuple[int, int]:
        pattern = self._spoken[found.pattern]
        fields = tuple((what, number is not None) for what, _, _, number in cells)
        if (pattern, fields) not in self._places:
            self._places[pattern, fields] = len(self.layouts)
            self.layouts.append(Layout(pattern, fields))
        place = self._places[pattern, fields]
        return place, self.layouts[place].add(found.begin, cells)


def _cells(found: exact.Match, line: bytes) -> tuple[Cell, ...]:
    return tuple(
        (what, start, end, digits.plan(line[start:end], start, what))
        for what, (start, end) in found.cells.items()
    )


class _Ear:
    """Stands before the names and listens whether what they are asked depends on a digit."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.names = False  # a name holds digits, all after a letter
        self.unclear = False  # it depends on others too

    def behind(self, pattern: Pattern) -> Pattern:
        if not pattern.pairs:
            return replace(pattern)
        return replace(pattern, pairs=replace(pattern.pairs, names=_Listened(pattern.pairs.names, self)))

    def hear(self, key: bytes, what: Field | None) -> None:
        if _DIGIT.search(key):
            self.names = True
            self.unclear |= _DIGIT.search(_NAMED_DIGITS.sub(b"", key)) is not None
        if what:
            words = (null for null in what.nulls if not numbers.NUMBER.fullmatch(null))
            self.unclear |= any(_DIGIT.search(word) for word in words)


@dataclass(frozen=True)
class _Listened:
    """Names, with an ear before them."""

    names: Names
    ear: _Ear

    def field(self, key: bytes, unit: bytes) -> Field | None:
        what = self.names.field(key, unit)
        self.ear.hear(key, what)
        return what


@lru_cache(maxsize=1024)
def _sight(pattern: Pattern) -> blind.Sight:
    regexes = [pattern.regex, re.compile(re.escape(pattern.needle))]
    if pattern.looks:
        regexes.append(pattern.looks)
    if pattern.pairs:
        regexes.append(pattern.pairs.regex)
    return blind.sight(*regexes)


def _checks(line: bytes) -> tuple[Check, ...]:
    """The digits of the line that are part of a name."""
    checks = []
    for found in _NAMED_DIGITS.finditer(line):
        for end in range(found.end(), found.start(), -8):
            count = min(8, end - found.start())
            mask = ((1 << 8 * count) - 1) << 8 * (8 - count)
            word = int.from_bytes(line[max(0, end - 8) : end].rjust(8, b"\0"), "little")
            checks.append((end, mask, word & mask))
    return tuple(checks)
