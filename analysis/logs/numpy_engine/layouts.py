"""Layouts: lines of many shapes that have the same fields -> the columns of these fields.

Every shape is a column of one table of small integers. What all shapes at hand have in common is found in that
table; a line costs one look into it for what differs, and one gather for all the bytes of a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import regex_engine, values
from gputel.analysis.logs.numpy_engine.numbers import (
    CERTAIN_DIGITS,
    HIGHEST_POWER,
    MOST_PIECES,
    POWERS,
    DigitWindow,
    Floats,
    Ints,
    Number,
    Words,
    divided,
    values_of,
)
from gputel.analysis.logs.patterns import Field, Hits, Pattern, Texts, Values

# from where to where its text stands in the line, and how to read it
Cell = tuple[Field, int, int, Number | None]

Fact = TypeVar("Fact", np.int64, np.float64, np.bool_)

_CERTAIN = 2**53
_HEAVY = 10**10  # weight with which eight digits still are an int64
_TOO_LARGE = 2**62
_NONE: Ints = np.empty(0, dtype=np.int64)
_NO_PIECE = DigitWindow(0, 0, 0, 0)
_PIECE_ROWS = 4  # end, after, before and weight
_EXPONENT = 2 + _PIECE_ROWS * MOST_PIECES  # row of a number in the table, behind its begin, end and pieces
_REST = _EXPONENT + _PIECE_ROWS
_WIDTH = _REST + 4


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
        self._table[:, self.shapes] = [begin, *(entry for cell in cells for entry in _entries(cell))]
        self.shapes += 1
        return self.shapes - 1

    def read(self, places: Ints, data: bytes, starts: Ints, shapes: Ints) -> Hits:
        """The hits of these lines; `places` are their numbers in the data."""
        lines = _Lines(data, starts, shapes, self._table)
        begins = starts + lines.entries(0)
        numbers: dict[Field, Values] = {}
        texts: dict[Field, Texts] = {}
        row = 1
        for what, bulk in self.fields:
            if what.kind == "text":
                texts[what] = _texts(lines, row, what)
            elif bulk:
                numbers[what] = Values(_numbers(lines, row, what), np.ones(len(starts), dtype=np.bool_))
            else:
                numbers[what] = regex_engine.as_values(_one_by_one(lines.texts(row), what))
            row += _WIDTH if bulk else 2
        return Hits(self.pattern, places, starts, begins, numbers, texts)


def _entries(cell: Cell) -> list[int]:
    """The rows of the table for a cell."""
    _, start, end, number = cell
    if not number:
        return [start, end]
    none = [_NO_PIECE] * (MOST_PIECES - len(number.pieces))
    entries = [start, end]
    for piece in [*number.pieces, *none, number.exponent or _NO_PIECE]:
        at = start + piece.end if piece.weight else 0
        entries += [at, _signed(piece.after), _signed(piece.before), piece.weight]
    return [*entries, number.power, number.sign, number.exponent_sign, number.digits]


def _signed(mask: int) -> int:
    return mask - 2**64 if mask >= 2**63 else mask


def words(data: bytes, starts: Ints, ends: Ints, count: int = 1) -> Words:
    """The words of eight bytes of each line before `ends`, the first of them last.

    They are gathered as raw bytes, at half the cost of unaligned integers; several cost as much as one.
    """
    size = 8 * count
    every: npt.NDArray[Any] = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
    gathered: Words = every[starts + (ends - size)].view("<u8")
    return gathered


class _Lines:
    """Lines of one layout, and what the table says of their shapes."""

    def __init__(self, data: bytes, starts: Ints, shapes: Ints, table: Ints) -> None:
        self.data, self.starts = data, starts
        counts = np.bincount(shapes, minlength=table.shape[1])
        self.table = table.compress(counts > 0, axis=1)  # a column for each shape that is present
        self.shapes = (np.cumsum(counts > 0) - 1)[shapes]

    def entries(self, row: int) -> Ints:
        return self.each(self.table[row])

    def each(self, facts: npt.NDArray[Fact]) -> npt.NDArray[Fact]:
        """What is known of each shape, for each line; a single value where all have the same."""
        if (facts == facts[0]).all():
            return facts[:1]
        found: npt.NDArray[Fact] = facts[
            self.shapes
        ]  # half the time of `take`, which checks all bounds first
        return found

    def texts(self, row: int, some: Ints | slice = slice(None)) -> list[bytes]:
        begins, ends = ((self.starts + self.entries(at))[some].tolist() for at in (row, row + 1))
        return [self.data[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _texts(lines: _Lines, row: int, what: Field) -> Texts:
    begins, ends = (lines.starts + lines.entries(at) for at in (row, row + 1))
    as_long_as_nulls = np.isin(lines.table[row + 1] - lines.table[row], [len(null) for null in what.nulls])
    for at in np.flatnonzero(lines.each(as_long_as_nulls)).tolist() if as_long_as_nulls.any() else ():
        if lines.data[begins[at] : ends[at]] in what.nulls:
            begins[at] = -1
    return Texts(lines.data, begins, ends)


def _numbers(lines: _Lines, row: int, what: Field) -> Floats:
    total: Ints = reduce(np.add, _pieces(lines, row + 2, MOST_PIECES))
    powers, signs, exponent_signs, digits = lines.table[row + _REST : row + _WIDTH]
    exponents = _pieces(lines, row + _EXPONENT, 1)
    if exponents:
        power = lines.each(powers) + lines.each(exponent_signs) * exponents[0]
        read = _scaled(total, power)
    else:
        power = lines.each(powers)
        read = _scaled(total, powers, lines.each)
    doubtful = _NONE
    if exponents or digits.max() > CERTAIN_DIGITS:
        read, doubtful = _divide(read, total, power)
    if (signs < 0).any():
        read = read * lines.each(signs)
    if what.times != what.over:
        read = read * what.times / what.over
    if len(doubtful):
        read[doubtful] = _one_by_one(lines.texts(row, doubtful), what)
    return read if len(read) == len(lines.starts) else np.full(len(lines.starts), read[0])


def _pieces(lines: _Lines, row: int, most: int) -> list[Ints]:
    """The value of each piece times its weight; a single value where all are equal, none where no line has one."""
    ends, _, _, weights = (
        lines.table[row : row + _PIECE_ROWS * most].reshape(most, _PIECE_ROWS, -1).swapaxes(0, 1)
    )
    count = int((weights > 0).any(axis=1).sum())
    behind = ends[:1] - 8 * np.arange(count)[:, None]
    together = (ends[:count] == behind) | (weights[:count] == 0)
    if count > 1 and together.all() and lines.starts[0] + ends[0].min() >= 8 * count:
        gathered = words(lines.data, lines.starts, lines.entries(row), count).reshape(-1, count).T[::-1]
    else:
        gathered = [
            words(lines.data, lines.starts, lines.entries(row + _PIECE_ROWS * at)) for at in range(count)
        ]
    return [_piece(lines, row + _PIECE_ROWS * at, word) for at, word in enumerate(gathered)]


def _piece(lines: _Lines, row: int, word: Words) -> Ints:
    digits: Words = word & lines.entries(row + 1).view(np.uint64)
    if lines.table[row + 2].any():
        before = word & lines.entries(row + 2).view(np.uint64)
        before <<= np.uint64(8)
        digits |= before
    if digits[0] == digits[-1] and (digits == digits[0]).all():  # as many steps, epochs and rates are
        digits = digits[:1].copy()
    whole = values_of(digits)
    weights = lines.table[row + 3]
    if weights.max() > _HEAVY:  # too many digits, unless the first are zeros
        whole = np.minimum(whole, lines.each(_TOO_LARGE // np.maximum(weights, 1)))
    return whole if (weights == 1).all() else whole * lines.entries(row + 3)


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


def _scaled(total: Ints, power: Ints, each: Callable[[Floats], Floats] = lambda factors: factors) -> Floats:
    """total * 10**power; the power is each line's, or each shape's, and `each` gives the lines theirs."""
    read: Floats = total.astype(np.float64)
    if (power > 0).any():
        read = read * each(POWERS[np.clip(power, 0, HIGHEST_POWER)])
    if (power < 0).any():
        read = read / each(POWERS[np.clip(-power, 0, HIGHEST_POWER)])
    return read
