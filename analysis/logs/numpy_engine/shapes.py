"""Lines that are equal but for their digits have one shape: the plain engine reads one of them, all others follow.

This is exact wherever the regexes are blind to digits (`blind.py`), and where the digits that are part of a name
(`bf16_mfu`) are the same: those a shape checks. Whatever is not so is LOOKED_AT, line by line, by the plain engine.

Lines -> numbers, the same for those that are equal but for their digits.

In a log those stand in long runs, so lines of one length are blanked together and compared with one of them, eight
bytes at a time; only where hardly any is equal to another is each looked up by itself.

Which regexes cannot tell one digit from another: for them a line reads as it does with every digit made a 0.

`\\d+`, `[\\d.]+` and `\\w` are blind to digits; `[1-5]`, `\\1` and a literal `8` are not. A literal digit right
after a literal letter (`bf16_mfu`, `rank0`) is the case between: blind but for digits that follow a letter.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import regex_engine, values
from gputel.analysis.logs.numpy_engine import numbers
from gputel.analysis.logs.numpy_engine.numbers import (
    BLANK,
    Cell,
    FieldLayout,
    Ints,
    Words,
    blank,
    blank_in_place,
    words,
)
from gputel.analysis.logs.patterns import Field, Names, Pattern

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
            self._needles.setdefault(numbers.blank(pattern.needle), []).append(number)
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
        self.layouts: list[FieldLayout] = []
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
        blanked = numbers.blank(line)
        number = self[blanked + b"\0" + b" ".join(_NAMED_DIGITS.findall(line))]
        if self.checks[number]:
            self[blanked] = number
        return number

    def learn(self, number: int, line: bytes) -> None:
        """Works the shape out from one of its lines."""
        self.layout[number] = LOOKED_AT
        blanked = numbers.blank(line)
        near = sorted(
            number for needle, some in self._needles.items() if needle in blanked for number in some
        )
        seen = worst(_sight(self._patterns[number]) for number in near)
        if seen == "sees":
            return
        self._ear.forget()
        found = regex_engine.match(line, tuple(self._listening[number] for number in near))
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

    def _place(self, found: regex_engine.Match, cells: tuple[Cell, ...]) -> tuple[int, int]:
        pattern = self._spoken[found.pattern]
        fields = tuple((what, number is not None) for what, _, _, number in cells)
        if (pattern, fields) not in self._places:
            self._places[pattern, fields] = len(self.layouts)
            self.layouts.append(FieldLayout(pattern, fields))
        place = self._places[pattern, fields]
        return place, self.layouts[place].add(found.begin, cells)


def _cells(found: regex_engine.Match, line: bytes) -> tuple[Cell, ...]:
    return tuple(
        (what, start, end, numbers.plan(line[start:end], start, what))
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
            words = (null for null in what.nulls if not values.NUMBER.fullmatch(null))
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
def _sight(pattern: Pattern) -> Sight:
    regexes = [pattern.regex, re.compile(re.escape(pattern.needle))]
    if pattern.looks:
        regexes.append(pattern.looks)
    if pattern.pairs:
        regexes.append(pattern.pairs.regex)
    return sight(*regexes)


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


LONGEST = 4000  # bytes of a line that is blanked together with others
FEW = 16  # lines of one length for which that pays
AT_ONCE = 1 << 18  # bytes of such lines: what the processor's cache holds
ROOM = 64  # bytes that are compared to eight bytes of answers; a line takes up a multiple of it
WORTH_COMPARING = 3  # of how many lines one must be equal to the one in their midst


def numbered(data: bytes, starts: Ints, shapes: Shapes) -> Ints:
    """The number of each line's shape."""
    numbers = np.empty(len(starts), dtype=np.int64)
    lengths = np.empty(len(starts), dtype=np.int64)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = len(data) + (not data.endswith(b"\n")) - starts[-1:]
    lengths -= 1
    kinds = np.minimum(lengths, LONGEST + 1)
    kinds[starts + (kinds + ROOM) > len(data)] = 0  # behind them is nothing to fill up the room with
    order = np.argsort(kinds.astype(np.uint16), kind="stable")
    counts = np.bincount(kinds, minlength=LONGEST + 2)
    ends = np.cumsum(counts)
    counts[0] = counts[-1] = 0
    for length in np.flatnonzero(counts >= FEW).tolist():
        rows = order[ends[length] - counts[length] : ends[length]]
        together = _Together(data, length, len(rows), shapes)
        for first in range(0, len(rows), together.most):
            some = rows[first : first + together.most]
            numbers[some] = together.numbered(starts[some])
    rest = np.flatnonzero(counts[kinds] < FEW)
    spans = zip(starts[rest].tolist(), lengths[rest].tolist(), strict=True)
    numbers[rest] = [shapes[blank(data[start : start + length])] for start, length in spans]
    return numbers


class _Together:
    """Lines of one length; what stands behind each of them in its room is made the same for all."""

    def __init__(self, data: bytes, length: int, count: int, shapes: Shapes) -> None:
        self._length, self._shapes = length, shapes
        room = -(-length // ROOM) * ROOM
        self._windows: npt.NDArray[Any] = np.ndarray((len(data) - room + 1,), f"V{room}", data, 0, (1,))
        self.most = min(count, max(FEW, AT_ONCE // room))
        lowest = np.full((self.most, room), BLANK, dtype=np.uint8)
        lowest[:, length:] = 255
        self._lowest = lowest.ravel()  # of arrays numpy takes the larger ten times as fast as of a number

    def numbered(self, starts: Ints) -> Ints:
        numbers = np.empty(len(starts), dtype=np.int64)
        lines, left = self._blanked(starts), np.arange(len(starts))
        while len(left) >= FEW:
            one = lines[len(lines) // 2]
            others = _different(lines, one)
            numbers[left] = self._shapes[self._texts(one)[0]]
            lines, before, left = lines[others], len(left), left[others]
            if (before - len(left)) * WORTH_COMPARING < before:
                break
        numbers[left] = list(map(self._shapes.__getitem__, self._texts(lines)))
        return numbers

    def _blanked(self, starts: Ints) -> npt.NDArray[np.uint64]:
        """A row of words for each line."""
        text = self._windows[starts].view(np.uint8)
        blank_in_place(text, self._lowest)
        return text.view(np.uint64).reshape(len(starts), -1)

    def _texts(self, lines: Words) -> list[bytes]:
        text = lines.view(np.uint8).reshape(-1, len(self._lowest) // self.most)[:, : self._length]
        found: list[bytes] = np.ascontiguousarray(text).view(f"S{self._length}").ravel().tolist()
        return found


def _different(lines: Words, one: Words) -> Ints:
    """Those that are not equal to this one."""
    unequal = lines.ravel() != np.tile(one, len(lines))
    by_room = unequal.view(np.uint64).reshape(len(lines), -1)
    different = by_room[:, 0]
    for answers in by_room.T[1:]:
        different = different | answers
    found: Ints = np.flatnonzero(different)
    return found


Sight = Literal["blind", "after letters", "sees"]

_ORDER: list[Sight] = ["blind", "after letters", "sees"]
_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_COUNT = re.compile(rb"\{\d*,?\d*\}|\(\?P<\w+>")
_REFERENCE = re.compile(rb"\(\?(?:P=|\()")
_BRACE = re.compile(rb"\\\{|\[[^\]]*\{")
_DIGITS = frozenset(b"0123456789")
_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_CLASSES = {"CATEGORY_DIGIT": _DIGITS, "CATEGORY_WORD": _DIGITS, "CATEGORY_NOT_SPACE": _DIGITS}
_NO_DIGITS = frozenset({"CATEGORY_NOT_DIGIT", "CATEGORY_NOT_WORD", "CATEGORY_SPACE"})


def sight(*regexes: re.Pattern[bytes]) -> Sight:
    """How much the regexes see of digits, all together."""
    return worst(sight_of(r.pattern, r.flags) for r in regexes if not names_no_digit(r.pattern))


def sight_of(source: bytes, flags: int = 0) -> Sight:
    return _sequence(_parser.parse(source, flags))


def names_no_digit(source: bytes) -> bool:
    """Whether no digit stands in it but in the names of groups and in `{1,3}`: it is blind, and need not be parsed.

    What refers back to a group or may be a brace that counts nothing is left to the parser.
    """
    if _REFERENCE.search(source) or _BRACE.search(source):
        return False
    return not _DIGIT.search(_COUNT.sub(b"", source))


def worst(seen: Iterable[Sight]) -> Sight:
    return max(seen, key=_ORDER.index, default="blind")


def _sequence(items: Sequence[tuple[Any, Any]]) -> Sight:
    so_far: Sight = "blind"
    named = False  # the item before is a literal letter, or a digit of a literal name
    for op, argument in items:
        found = _item(str(op), argument)
        if found == "sees" and named and str(op) in ("LITERAL", "IN"):
            found = "after letters"
        named = str(op) == "LITERAL" and (argument in _LETTERS or (named and argument in _DIGITS))
        so_far = worst((so_far, found))
    return so_far


def _item(op: str, argument: Any) -> Sight:
    match op:
        case "LITERAL" | "NOT_LITERAL":
            return "sees" if argument in _DIGITS else "blind"
        case "ANY" | "AT" | "FAILURE":
            return "blind"
        case "IN":
            return "blind" if len(_members(argument)) in (0, 10) else "sees"
        case "BRANCH":
            return worst(_sequence(branch) for branch in argument[1])
        case "SUBPATTERN" | "ASSERT" | "ASSERT_NOT":
            return _sequence(argument[-1])
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _sequence(argument[2])
        case "GROUPREF_EXISTS":
            return worst(_sequence(branch or ()) for branch in argument[1:])
        case "ATOMIC_GROUP":
            return _sequence(argument)
        case _:
            return "sees"  # back references and what a later Python may add


def _members(items: Sequence[tuple[Any, Any]]) -> frozenset[int]:
    """The digits that a set in brackets holds."""
    members: frozenset[int] = frozenset()
    for op, argument in items:
        if str(op) == "LITERAL":
            members |= {argument} & _DIGITS
        elif str(op) == "RANGE":
            members |= _DIGITS & frozenset(range(argument[0], argument[1] + 1))
        elif str(op) == "CATEGORY":
            members |= _category(str(argument))
    return _DIGITS - members if items and str(items[0][0]) == "NEGATE" else members


def _category(name: str) -> frozenset[int]:
    if name in _NO_DIGITS:
        return frozenset()
    return _CLASSES.get(name, frozenset(b"0"))  # one digit of ten: a class that is not known here sees
