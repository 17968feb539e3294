"""Shapes: lines that are equal but for their digits. The plain engine reads one line of a shape; the others follow.

This is exact where the regexes are blind to digits (`sight`), and where the digits that are part of a name
(`bf16_mfu`) are the same: a shape checks those. Every other line is ONE_BY_ONE: the plain engine reads it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import regex_engine, values
from gputel.analysis.logs.numpy_engine import numbers
from gputel.analysis.logs.numpy_engine.known_lines import KnownLines
from gputel.analysis.logs.numpy_engine.layouts import Cell, FieldLayout, words
from gputel.analysis.logs.numpy_engine.numbers import BLANK, Ints
from gputel.analysis.logs.numpy_engine.regex_digits import Sight, relaxed, sight, worst
from gputel.analysis.logs.patterns import Field, Names, Pattern

NOTHING, ONE_BY_ONE, UNKNOWN = -1, -2, -3  # in place of the number of a layout
WORTH_LEARNING = 2  # lines of a shape from which on it is worth learning
MOST_SHAPES = 8192  # that are remembered
MOST_BYTES = 16 << 20  # of their texts
MOST_CHECKS = 6
MOST_FAMILIES = 4096  # of lines whose near patterns are remembered
_NAMED_DIGITS = re.compile(rb"(?<=[A-Za-z_@])\d+")  # bf16, Acc@1
_DIGIT = re.compile(rb"\d")
_ONE_DIGIT = chr(BLANK)
_DIGITS = re.compile(_ONE_DIGIT + "+")

_FACTS = ("layout", "column", "reach", "seen", "tried")  # of DigitShape

Check = tuple[int, int, int]  # the eight bytes that end here must be, under this mask, this word


class DigitShape(NamedTuple):
    """How the lines of one shape are read."""

    layout: int = UNKNOWN  # number of the layout that reads them, or NOTHING, ONE_BY_ONE, UNKNOWN
    column: int = 0  # the shape's column in the table of that layout
    reach: int = 0  # the earliest end of eight bytes that are gathered, counted from the start of a line
    seen: int = 0  # lines so far, while it is UNKNOWN
    tried: int = 0  # the number of the variant that is tried first, or its own
    checks: tuple[Check, ...] = ()  # the digits of names that a line must have


class Shapes:
    """All shapes met so far, by number, and the layouts that read them."""

    def __init__(self, patterns: tuple[Pattern, ...]) -> None:
        self._patterns = patterns
        needles = [(_text(pattern.needle), at) for at, pattern in enumerate(patterns)]
        self._needles_with_digits = [each for each in needles if _ONE_DIGIT in each[0]]
        self._needles = [each for each in needles if _ONE_DIGIT not in each[0]]
        self._spy = DigitSpy()
        self._spied = [self._spy.wrap(pattern) for pattern in patterns]
        self._originals = dict(zip(self._spied, patterns, strict=True))
        self.forget()

    def __getitem__(self, number: int) -> DigitShape:
        layout, column, reach, seen, tried = self._facts[:, number].tolist()
        return DigitShape(layout, column, reach, seen, tried, self._checks.get(number, ()))

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        return self._bytes > MOST_BYTES or len(self) > MOST_SHAPES

    def forget(self) -> None:
        """Starts again without any shape."""
        self._count = 0
        self._facts = np.empty((len(_FACTS), 64), dtype=np.int64)  # a column for each shape, and free ones
        self._checks: dict[int, tuple[Check, ...]] = {}
        self._numbers: dict[bytes, int] = {}  # by blanked line
        self._known: dict[int, KnownLines] = {}  # the same, by the room that a line takes up
        self._bytes = 0
        self._families: dict[str, list[int]] = {}  # patterns that are near, by line with one digit a number
        self.layouts: list[FieldLayout] = []
        self._places: dict[tuple[Pattern, tuple[tuple[Field, bool], ...]], int] = {}

    def numbers_of(self, blanked: list[bytes]) -> list[int]:
        """The number of the shape of each blanked line; a line that is new adds a shape."""
        known = self._numbers
        try:
            return [known[text] for text in blanked]
        except KeyError:
            return [known[text] if text in known else self._add(text) for text in blanked]

    def known_lines(self, room: int) -> KnownLines:
        """The lines of known shapes that take up so much room."""
        if room not in self._known:
            self._known[room] = KnownLines(room)
        return self._known[room]

    def tried(self, numbers: Ints) -> Ints:
        """The numbers of the shapes that are tried first for lines of these shapes."""
        return self.values_of("tried")[numbers] if self._checks else numbers

    def values_of(self, name: str) -> Ints:
        """One field of all shapes, by the number of the shape; writing into it changes them."""
        return self._facts[_FACTS.index(name), : self._count]

    def has_checks(self) -> npt.NDArray[np.bool_]:
        """Whether each shape has checks, by its number."""
        found = np.zeros(len(self), dtype=np.bool_)
        found[np.fromiter(self._checks, np.int64)] = True
        return found

    def see(self, numbers: Ints, counts: Ints) -> Ints:
        """Counts lines of unknown shapes, and returns the shapes that are worth learning."""
        seen = self.values_of("seen")
        seen[numbers] += counts
        return numbers[seen[numbers] >= WORTH_LEARNING]

    def variant(self, line: bytes) -> int:
        """The shape of a line whose names hold other digits; once learned, it is the shape that is tried first."""
        blanked = numbers.blank(line)
        base, number = self.numbers_of([blanked, blanked + b"\0" + b" ".join(_NAMED_DIGITS.findall(line))])
        if number in self._checks:
            self.values_of("tried")[base] = number
        return number

    def learn(self, number: int, line: bytes) -> None:
        """Finds out how to read a shape from one of its lines; a line that does not allow it leaves ONE_BY_ONE."""
        self.values_of("layout")[number] = ONE_BY_ONE
        near = self.near(line)
        self._spy.forget()
        match = regex_engine.match(line, tuple(self._spied[number] for number in near))
        if isinstance(match, tuple) or self._spy.others or (match and match.several):
            return
        tried = [self._patterns[number] for number in near]
        if match:  # the patterns behind it are not asked
            tried = tried[: tried.index(self._originals[match.pattern]) + 1]
        sight = worst(seen for p in tried if (seen := _sight(p)) != "blind" and _may_match(p, line))
        checks = _checks(line) if sight == "after letters" or self._spy.names else ()
        if sight == "sees" or len(checks) > MOST_CHECKS:
            return
        cells = _cells(match, line) if match else ()
        place = self._place(match, cells) if match else (NOTHING, 0)
        ends = [end for end, *_ in checks] + [start + plan.reach for _, start, _, plan in cells if plan]
        self._facts[:3, number] = *place, min(ends, default=8)
        if checks:
            self._checks[number] = checks

    def near(self, line: bytes) -> list[int]:
        """The numbers of the patterns whose needle the line may hold.

        Most needles hold no digit: lines that differ in the lengths of their numbers have the same of those.
        """
        text = _text(line)
        family = _DIGITS.sub(_ONE_DIGIT, text)
        plain = self._families.get(family)
        if plain is None:
            plain = [at for needle, at in self._needles if needle in family]
            if len(self._families) < MOST_FAMILIES:
                self._families[family] = plain
        others = [at for needle, at in self._needles_with_digits if needle in text]
        return sorted([*plain, *others]) if others else plain

    def match(self, line: bytes) -> regex_engine.Match | tuple[str, str] | None:
        """What the plain engine makes of a line."""
        return regex_engine.match(line, tuple(self._patterns[at] for at in self.near(line)))

    def failing(self, shapes: Ints, data: bytes, starts: Ints) -> npt.NDArray[np.bool_]:
        """Which of the lines do not pass the checks of their shape; each of the shapes has some."""
        failed = np.zeros(len(starts), dtype=np.bool_)
        present = np.flatnonzero(np.bincount(shapes)).tolist()
        table = np.zeros((3, present[-1] + 1), dtype=np.uint64)
        for place in range(max(len(self._checks[number]) for number in present)):
            table[:] = 0
            for number in present:
                if place < len(self._checks[number]):
                    table[:, number] = self._checks[number][place]
            ends, masks, expected = table.take(shapes, axis=1)
            failed |= (words(data, starts, ends.view(np.int64)) & masks) != expected
        return failed

    def _add(self, blanked: bytes) -> int:
        number = self._numbers[blanked] = self._count
        if number == self._facts.shape[1]:
            self._facts = np.concatenate([self._facts, self._facts], axis=1)
        self._facts[:, number] = DigitShape(tried=number)[:-1]
        self._count += 1
        self._bytes += len(blanked)
        return number

    def _place(self, match: regex_engine.Match, cells: tuple[Cell, ...]) -> tuple[int, int]:
        """The layout for these cells, and the column of a new shape in it."""
        pattern = self._originals[match.pattern]
        fields = tuple((what, number is not None) for what, _, _, number in cells)
        if (pattern, fields) not in self._places:
            self._places[pattern, fields] = len(self.layouts)
            self.layouts.append(FieldLayout(pattern, fields))
        place = self._places[pattern, fields]
        return place, self.layouts[place].add(match.begin, cells)


def _text(line: bytes) -> str:
    """The blanked line, a character a byte: text is searched nine times as fast as bytes."""
    return numbers.blank(line).decode("latin-1")


def _cells(match: regex_engine.Match, line: bytes) -> tuple[Cell, ...]:
    return tuple(
        (what, start, end, numbers.plan(line[start:end], what)) for what, (start, end) in match.cells.items()
    )


class DigitSpy:
    """Wraps the vocabulary of patterns and records whether a name that was looked up contained digits."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.names = False  # a name held digits
        self.others = False  # not all of them followed a letter, or a null of the field holds some

    def wrap(self, pattern: Pattern) -> Pattern:
        if not pattern.pairs:
            return replace(pattern)
        return replace(pattern, pairs=replace(pattern.pairs, names=_SpiedNames(pattern.pairs.names, self)))

    def record(self, key: bytes, what: Field | None) -> None:
        if _DIGIT.search(key):
            self.names = True
            self.others |= _DIGIT.search(_NAMED_DIGITS.sub(b"", key)) is not None
        if what:
            self.others |= _hold_digits(what.nulls)


@lru_cache(maxsize=64)
def _hold_digits(nulls: frozenset[bytes]) -> bool:
    """Whether a digit stands in one of these texts that is not a number."""
    return any(_DIGIT.search(null) for null in nulls if not values.NUMBER.fullmatch(null))


class _SpiedNames(NamedTuple):
    """A vocabulary that tells its spy about every lookup."""

    names: Names
    spy: DigitSpy

    def field(self, key: bytes, unit: bytes) -> Field | None:
        what = self.names.field(key, unit)
        self.spy.record(key, what)
        return what


@lru_cache(maxsize=1024)
def _sight(pattern: Pattern) -> Sight:
    regexes = [pattern.regex, re.compile(re.escape(pattern.needle))]
    regexes += [regex for regex in (pattern.looks, pattern.unless) if regex]
    if pattern.pairs:
        regexes.append(pattern.pairs.regex)
    return sight(*regexes)


def _may_match(pattern: Pattern, line: bytes) -> bool:
    """Whether the pattern may match or reject a line that differs from this one in digits only."""
    blind = [relaxed(regex) for regex in (pattern.regex, pattern.looks) if regex]
    return any(regex is None or regex.search(line) for regex in blind)


def _checks(line: bytes) -> tuple[Check, ...]:
    """Checks for the digits of the line that are part of a name."""
    checks = []
    for found in _NAMED_DIGITS.finditer(line):
        for end in range(found.end(), found.start(), -8):
            count = min(8, end - found.start())
            mask = ((1 << 8 * count) - 1) << 8 * (8 - count)
            word = int.from_bytes(line[max(0, end - 8) : end].rjust(8, b"\0"), "little")
            checks.append((end, mask, word & mask))
    return tuple(checks)
