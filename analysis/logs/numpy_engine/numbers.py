"""Columns of digits -> floats, exactly as `float` reads them.

`plan` looks at the text of a number once and says where its digits stand; that holds for every line with digits in
the same places. A number is cut into pieces of at most eight bytes, each ending at a digit, with at most one byte
between the digits (a point, a comma) that two masks leave out: so eight bytes, read as one integer, become a value
in a few multiplications.

`FieldLayout` reads lines of many shapes that have the same fields. Every shape is a column of one table of small
integers; a piece of a number is then one gather of eight bytes a line.

`divided` gives the float nearest to a whole number over a power of ten. Below 2**53 a single division is exact.
Above, the remainder is found without error (Dekker's product: a float is cut into halves whose products are exact)
and divided once more. The sum of both quotients is in doubt only where the true one lies next to the middle
between two floats. Numbers in doubt are read one by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import regex_engine, values
from gputel.analysis.logs.patterns import Field, Hits, Pattern, Texts, Values

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

HIGHEST_POWER = 22  # of ten that a float holds
POWERS: Floats = np.array([float(10**power) for power in range(HIGHEST_POWER + 1)])
LARGEST = 4 * 10**18  # whole number that is divided

_SPLIT = 2.0**27 + 1
_DOUBT = 2.0**-45  # share of the second quotient; its errors are below 2**-50


def divided(wholes: Ints, power: Ints) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Returns whole / 10**power, and where that is certain: nowhere if a float cannot hold the power."""
    possible = (wholes <= LARGEST) & (power >= 0) & (power <= HIGHEST_POWER)
    wholes = np.where(possible, wholes, 0)
    by, whole = POWERS[np.where(possible, power, 0)], wholes.astype(np.float64)
    rounded = (wholes - whole.astype(np.int64)).astype(np.float64)
    first = whole / by
    second = (_left_over(whole, first, by) + rounded) / by
    quotient: Floats = first + second
    certain = first + second * (1 - _DOUBT) == first + second * (1 + _DOUBT)
    return quotient, certain & possible


def _left_over(whole: Floats, quotient: Floats, by: Floats) -> Floats:
    """whole - quotient * by, without any error."""
    product = quotient * by
    (q, q_low), (b, b_low) = _halves(quotient), _halves(by)
    error = ((q * b - product) + q * b_low + q_low * b) + q_low * b_low
    left: Floats = (whole - product) - error
    return left


def _halves(number: Floats) -> tuple[Floats, Floats]:
    large = number * _SPLIT
    high = large - (large - number)
    return high, number - high


MOST_PIECES = 3
MOST_DIGITS = 22  # of which an int64 holds 18, and more if the first are zeros
CERTAIN_DIGITS = 15  # that a float holds for certain
_DECIMAL = re.compile(rb"([+-]?)([\d,]*\.?[\d,]*)(?:[eE]([+-]?)(\d{1,8}))?")
_PIECE = 8
BLANK = 9  # the byte that stands for every digit


@dataclass(frozen=True)
class DigitWindow:
    """Eight bytes; masks for the digits after the separator and for those before it.

    They end at `end`, counted from where the text of the number begins.
    """

    end: int
    after: int
    before: int
    weight: int


@dataclass(frozen=True)
class Number:
    """sign * sum(weight * piece) * 10**power, the power moved by a printed exponent."""

    pieces: tuple[DigitWindow, ...]
    sign: int
    power: int
    digits: int
    exponent: DigitWindow | None = None
    exponent_sign: int = 1

    @property
    def reach(self) -> int:
        return min(piece.end for piece in self.pieces)

    @cached_property
    def entries(self) -> tuple[int, ...]:
        """Its rows of a layout's table, in the order in which `_numbers` takes them."""
        none = [_NO_PIECE] * (MOST_PIECES - len(self.pieces))
        pieces = [*self.pieces, *none, self.exponent or _NO_PIECE]
        windows = [
            entry
            for piece in pieces
            for entry in (piece.end, _signed(piece.after), _signed(piece.before), piece.weight)
        ]
        return (*windows, self.power, self.sign, self.exponent_sign, self.digits)


def plan(text: bytes, what: Field) -> Number | None:
    """How to read the field from every line like this one; None where each line must be read by itself."""
    return _plan(text.translate(_ZEROS), what)


@lru_cache(maxsize=4096)
def _plan(text: bytes, what: Field) -> Number | None:
    """The plan of `plan`, which texts that differ in digits only share; its digits are zeros."""
    if blank(text) in _blanked(what.nulls):
        return None
    if what.kind == "clock" and b":" in text:
        return _clock(text)
    decimal = _DECIMAL.fullmatch(text)
    if not decimal or what.kind == "text" or (what.kind == "clock" and b"," in text):
        return None
    sign, mantissa, exponent_sign, exponent = decimal.groups()
    digits = sum(char not in b".," for char in mantissa)
    power = what.shift - len(mantissa.partition(b".")[2].replace(b",", b""))
    if not 0 < digits <= MOST_DIGITS or abs(power) > HIGHEST_POWER:
        return None
    pieces = _pieces(mantissa, decimal.start(2))
    if len(pieces) > MOST_PIECES:
        return None
    return Number(
        pieces,
        -1 if sign == b"-" else 1,
        power,
        digits,
        _pieces(exponent, decimal.start(4))[0] if exponent else None,
        -1 if exponent_sign == b"-" else 1,
    )


def blank(text: bytes) -> bytes:
    """Replaces every digit by the same byte; bytes that differed and are no digits still differ."""
    return text.translate(_BLANK)


@lru_cache(maxsize=64)
def _blanked(nulls: frozenset[bytes]) -> frozenset[bytes]:
    return frozenset(map(blank, nulls))


def blank_in_place(text: npt.NDArray[np.uint8], lowest: npt.NDArray[np.uint8]) -> None:
    """Blanks many texts at once. `lowest` is BLANK for bytes of text, and 255 for padding."""
    text -= np.uint8(ord("0"))
    np.maximum(text, lowest[: len(text)], out=text)


_BLANK = bytes(max(byte - ord("0") & 0xFF, BLANK) for byte in range(256))
_ZEROS = bytes.maketrans(b"123456789", b"000000000")


def _clock(text: bytes) -> Number | None:
    clock = values.CLOCK.fullmatch(text)
    if not clock or b"." in text:
        return None
    pieces: tuple[DigitWindow, ...] = ()
    for group, weight in enumerate((86_400, 3_600, 60, 1), start=1):
        if clock[group] is not None:
            pieces += _pieces(clock[group], clock.start(group), weight)
    if len(pieces) > MOST_PIECES or len(text) > CERTAIN_DIGITS:
        return None
    return Number(pieces, 1, 0, CERTAIN_DIGITS)


def _pieces(text: bytes, start: int, weight: int = 1) -> tuple[DigitWindow, ...]:
    places = [i for i, char in enumerate(text) if char in b"0123456789"]
    pieces = []
    while places:
        last = places[-1]
        masks, separators = [0, 0], 0
        taken = 0
        while places and places[-1] > last - _PIECE:
            gap = last - places[-1] - taken
            if gap != separators:
                if gap > 1:
                    break
                separators = gap
            masks[separators] |= 0x0F << 8 * (_PIECE - 1 - (last - places.pop()))
            taken += 1
        pieces.append(DigitWindow(start + last + 1, masks[0], masks[1], weight))
        weight *= 10**taken
    return tuple(pieces)


Words = npt.NDArray[np.uint64]
# from where to where its text stands in the line, and how to read it
Cell = tuple[Field, int, int, Number | None]

_CERTAIN = 2**53
_HEAVY = 10**10  # weight with which eight digits still are an int64
_TOO_LARGE = 2**62
_NONE: Ints = np.empty(0, dtype=np.int64)
# Neighboring digits are added up, the left one times ten; then neighboring pairs, then fours. The last of each
# says which bits hold the sums; None: all of them.
_STEPS = [
    (np.uint64(10 * 2**8 + 1), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100 * 2**16 + 1), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10_000 * 2**32 + 1), np.uint64(32), None),
]


def words(data: bytes, starts: Ints, ends: Ints) -> Words:
    """The eight bytes of each line before `ends`; gathered as raw bytes, at half the cost of unaligned integers."""
    every: npt.NDArray[Any] = np.ndarray((len(data) - 7,), "V8", data, 0, (1,))
    gathered: Words = every[starts + (ends - 8)].view("<u8")
    return gathered


@dataclass
class FieldLayout:
    """The shapes that have these fields, each read in bulk (True) or one by one."""

    pattern: Pattern
    fields: tuple[tuple[Field, bool], ...]
    shapes: int = 0

    def __post_init__(self) -> None:
        rows = 1 + sum(_WIDTH if bulk else 2 for _, bulk in self.fields)
        self._table = np.zeros((rows, 4), dtype=np.int64)

    def add(self, begin: int, cells: tuple[Cell, ...]) -> int:
        """Adds a shape and returns its column in the table."""
        if self.shapes == self._table.shape[1]:
            self._table = np.concatenate([self._table, np.zeros_like(self._table)], axis=1)
        self._table[:, self.shapes] = [begin, *chain.from_iterable(map(_entries, cells))]
        self.shapes += 1
        return self.shapes - 1

    def read(self, places: Ints, data: bytes, starts: Ints, shapes: Ints) -> Hits:
        """The hits of these lines; `places` are their numbers in the data."""
        lines = _Lines(data, starts, shapes, self._table)
        begins = starts + lines.next()
        values: dict[Field, Values] = {}
        texts: dict[Field, Texts] = {}
        for what, bulk in self.fields:
            spans = lines.next(), lines.next()
            if what.kind == "text":
                texts[what] = _texts(lines, spans, what)
            elif bulk:
                values[what] = Values(_numbers(lines, spans, what), np.ones(len(starts), dtype=np.bool_))
            else:
                values[what] = regex_engine.as_values(_one_by_one(lines.texts(spans), what))
        return Hits(self.pattern, places, starts, begins, values, texts)


_NO_PIECE = DigitWindow(0, 0, 0, 0)
_WIDTH = 2 + 4 * (MOST_PIECES + 1) + 4


def _entries(cell: Cell) -> list[int]:
    """The rows of the table for a cell, in the order in which `FieldLayout.read` takes them."""
    _, start, end, number = cell
    if not number:
        return [start, end]
    entries = [start, end, *number.entries]
    for at in range(2, 2 + 4 * (MOST_PIECES + 1), 4):
        entries[at] += start if entries[at + 3] else 0  # without a weight there is no piece
    return entries


def _signed(mask: int) -> int:
    return mask - 2**64 if mask >= 2**63 else mask


class _Lines:
    """Lines of one layout; `next` goes through the rows of its table."""

    def __init__(self, data: bytes, starts: Ints, shapes: Ints, table: Ints) -> None:
        self.data, self.starts = data, starts
        self._shapes, self._table = shapes, table
        present = np.flatnonzero(np.bincount(shapes, minlength=table.shape[1]))
        self._first = table[:, present[0]]
        same = (table[:, present] == self._first[:, None]).all(axis=1)
        self._same: list[bool] = same.tolist()
        self._nothing: list[bool] = (same & (self._first == 0)).tolist()
        self._row = -1

    def next(self) -> Ints:
        """The entry of the next row for each line; a single one where all lines have the same."""
        self._row += 1
        if self._same[self._row]:
            return self._first[self._row : self._row + 1]
        entries: Ints = self._table[self._row].take(self._shapes)
        return entries

    def piece(self) -> Ints | None:
        """One piece times its weight; a single value where all are equal, None where no line has it."""
        if self._nothing[self._row + 4]:  # its weight
            self._row += 4
            return None
        ends, after, before, weight = (self.next() for _ in range(4))
        word = words(self.data, self.starts, ends)
        value: Words = word & after.view(np.uint64)
        if before.any():
            word &= before.view(np.uint64)
            word <<= np.uint64(8)
            value |= word
        if value[0] == value[-1] and (value == value[0]).all():  # as many steps, epochs and rates are
            value = value[:1].copy()
        for factor, shift, sums in _STEPS:
            value *= factor
            value >>= shift
            if sums is not None:
                value &= sums
        whole: Ints = value.view(np.int64)
        if weight.max() > _HEAVY:  # too many digits, unless the first are zeros
            whole = np.minimum(whole, _TOO_LARGE // np.maximum(weight, 1))
        return whole if (weight == 1).all() else whole * weight

    def texts(self, spans: tuple[Ints, Ints], rows: Ints | slice = slice(None)) -> list[bytes]:
        begins, ends = ((self.starts + span)[rows].tolist() for span in spans)
        return [self.data[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _texts(lines: _Lines, spans: tuple[Ints, Ints], what: Field) -> Texts:
    begins, ends = (lines.starts + span for span in spans)
    as_long_as_nulls = np.isin(ends - begins, [len(null) for null in what.nulls])
    for row in np.flatnonzero(as_long_as_nulls).tolist():
        if lines.data[begins[row] : ends[row]] in what.nulls:
            begins[row] = -1
    return Texts(lines.data, begins, ends)


def _numbers(lines: _Lines, spans: tuple[Ints, Ints], what: Field) -> Floats:
    pieces = [lines.piece() for _ in range(MOST_PIECES)]
    total: Ints = sum(piece for piece in pieces if piece is not None)  # type: ignore[assignment]
    exponent = lines.piece()
    power, sign, exponent_sign, digits = (lines.next() for _ in range(4))
    if exponent is not None:
        power = power + exponent_sign * exponent
    read = _scaled(total, power)
    doubtful = _NONE
    if exponent is not None or digits.max() > CERTAIN_DIGITS:
        read, doubtful = _divide(read, total, power)
    if (sign < 0).any():
        read = read * sign
    if what.times != what.over:
        read = read * what.times / what.over
    if len(doubtful):
        read[doubtful] = _one_by_one(lines.texts(spans, doubtful), what)
    return read if len(read) == len(lines.starts) else np.full(len(lines.starts), read[0])


def _divide(read: Floats, total: Ints, power: Ints) -> tuple[Floats, Ints]:
    """Corrects numbers that one division does not read exactly; returns which of them are still in doubt.

    `total` and `power` may have one entry for all lines.
    """
    long = np.flatnonzero((total > _CERTAIN) | (np.abs(power) > HIGHEST_POWER))
    if not long.size:
        return read, long
    total, power = np.broadcast_arrays(total, power)
    read = np.broadcast_to(read, total.shape).copy()
    read[long], certain = divided(total[long], -power[long])
    return read, long[~certain]


def _one_by_one(texts: list[bytes], what: Field) -> list[float | None]:
    """Reads each text as `values.read` does; first tries `float` on all, since few are null or have a comma."""
    plain = what.kind == "number" and not what.shift and what.times == what.over
    if plain and not any(values.NUMBER.fullmatch(null) for null in what.nulls):
        try:
            return list(map(float, texts))
        except ValueError:
            pass
    return [values.read(text, what) for text in texts]


def _scaled(total: Ints, power: Ints) -> Floats:
    read = total.astype(np.float64)
    if (power > 0).any():
        read = read * POWERS[np.clip(power, 0, HIGHEST_POWER)]
    if (power < 0).any():
        read = read / POWERS[np.clip(-power, 0, HIGHEST_POWER)]
    return read
