"""Lines of one layout -> columns: the same fields, cut into the same pieces, wherever in the line they stand.

Every shape of the layout is a column of one table of small integers; a piece of a number is then one gather of
eight bytes per line and a few multiplications. Numbers that do not come out exactly so are read one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gputel.analysis.parse import exact, numbers
from gputel.analysis.parse.fast.digits import CERTAIN_DIGITS, MOST_PIECES, Number, Piece
from gputel.analysis.parse.fast.division import HIGHEST_POWER, POWERS, divided
from gputel.analysis.parse.patterns import Field, Hits, Pattern, Texts, Values

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Cell = tuple[
    Field, int, int, Number | None
]  # from where to where its text stands in the line, and how to read it

_CERTAIN = 2**53
_HEAVY = 10**10  # weight with which eight digits still are an int64
_TOO_LARGE = 2**62
_NONE: Ints = np.empty(0, dtype=np.int64)
# Neighbouring digits are added up, the left one times ten; then neighbouring pairs, then fours. The last of each
# says which bits hold the sums; None: all of them.
_STEPS = [
    (np.uint64(10 * 2**8 + 1), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100 * 2**16 + 1), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10_000 * 2**32 + 1), np.uint64(32), None),
]


def words(data: bytes, starts: Ints, ends: Ints) -> Words:
    """The eight bytes of each line that end there; as raw bytes, at half the cost of unaligned integers."""
    every: npt.NDArray[Any] = np.ndarray((len(data) - 7,), "V8", data, 0, (1,))
    found: Words = every[starts + (ends - 8)].view("<u8")
    return found


@dataclass
class Layout:
    """The shapes that have these fields, each read in bulk (True) or one by one."""

    pattern: Pattern
    fields: tuple[tuple[Field, bool], ...]
    shapes: int = 0

    def __post_init__(self) -> None:
        rows = 1 + sum(_WIDTH if bulk else 2 for _, bulk in self.fields)
        self._table = np.zeros((rows, 4), dtype=np.int64)

    def add(self, begin: int, cells: tuple[Cell, ...]) -> int:
        """A new shape; its number within the layout."""
        if self.shapes == self._table.shape[1]:
            self._table = np.concatenate([self._table, np.zeros_like(self._table)], axis=1)
        self._table[:, self.shapes] = [begin, *(entry for cell in cells for entry in _entries(cell))]
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
                values[what] = exact.as_values(_one_by_one(lines.texts(spans), what))
        return Hits(self.pattern, places, starts, begins, values, texts)


_NO_PIECE = Piece(0, 0, 0, 0)
_WIDTH = 2 + 4 * (MOST_PIECES + 1) + 4


def _entries(cell: Cell) -> list[int]:
    """What the table says of a cell, in the order in which `Layout.read` and `_numbers` ask for it."""
    _, start, end, number = cell
    if not number:
        return [start, end]
    none = [_NO_PIECE] * (MOST_PIECES - len(number.pieces))
    pieces = [*number.pieces, *none, number.exponent or _NO_PIECE]
    masks = [
        entry
        for piece in pieces
        for entry in (piece.end, _signed(piece.after), _signed(piece.before), piece.weight)
    ]
    return [start, end, *masks, number.power, number.sign, number.exponent_sign, number.digits]


def _signed(mask: int) -> int:
    return mask - 2**64 if mask >= 2**63 else mask


class _Lines:
    """Lines of one layout, and the rows of its table, one after the other."""

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
        """The next row's entry for each line; one for all where it is the same."""
        self._row += 1
        if self._same[self._row]:
            return self._first[self._row : self._row + 1]
        entries: Ints = self._table[self._row].take(self._shapes)
        return entries

    def piece(self) -> Ints | None:
        """The digits of one piece, times their weight; one where all are alike, None where there are none."""
        if self._nothing[self._row + 4]:  # its weight
            self._row += 4
            return None
        ends, after, before, weight = (self.next() for _ in range(4))
        found = words(self.data, self.starts, ends)
        value: Words = found & after.view(np.uint64)
        if before.any():
            found &= before.view(np.uint64)
            found <<= np.uint64(8)
            value |= found
        if value[0] == value[-1] and (value == value[0]).all():  # of steps, epochs and rates there are many
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
    """Corrects those that one division does not read exactly, and says which of them are still in doubt.

    Of the total and of the power there may be one for all lines.
    """
    long = np.flatnonzero((total > _CERTAIN) | (np.abs(power) > HIGHEST_POWER))
    if not long.size:
        return read, long
    total, power = np.broadcast_arrays(total, power)
    read = np.broadcast_to(read, total.shape).copy()
    read[long], certain = divided(total[long], -power[long])
    return read, long[~certain]


def _one_by_one(texts: list[bytes], what: Field) -> list[float | None]:
    """As `numbers.read` does it, without asking of each text what hardly any is: not measured, or with a comma."""
    plain = what.kind == "number" and not what.shift and what.times == what.over
    if plain and not any(numbers.NUMBER.fullmatch(null) for null in what.nulls):
        try:
            return list(map(float, texts))
        except ValueError:
            pass
    return [numbers.read(text, what) for text in texts]


def _scaled(total: Ints, power: Ints) -> Floats:
    read = total.astype(np.float64)
    if (power > 0).any():
        read = read * POWERS[np.clip(power, 0, HIGHEST_POWER)]
    if (power < 0).any():
        read = read / POWERS[np.clip(-power, 0, HIGHEST_POWER)]
    return read
