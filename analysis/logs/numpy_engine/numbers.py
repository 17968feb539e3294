"""Columns of digits -> floats, exactly as `float` reads them.

`plan` looks at the text of a number once and says where its digits stand; that holds for every line with digits in
the same places. A number is cut into pieces of eight bytes, with at most one byte between the digits (a point, a
comma) that two masks leave out: so eight bytes, read as one integer, become a value in a few multiplications, which
`values_of` makes. `layouts` finds the pieces in the lines.

`divided` gives the float nearest to a whole number over a power of ten. Below 2**53 a single division is exact.
Above, the remainder is found without error (Dekker's product: a float is cut into halves whose products are exact)
and divided once more. The sum of both quotients is in doubt only where the true one lies next to the middle
between two floats. Numbers in doubt are read one by one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import values
from gputel.analysis.logs.patterns import Field

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

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


class DigitWindow(NamedTuple):
    """Eight bytes; masks for the digits after the separator and for those before it.

    They end at `end`, counted from where the text of the number begins.
    """

    end: int
    after: int
    before: int
    weight: int


class Number(NamedTuple):
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
    """The windows of the digits, from the last on, without a gap between them unless one has two separators."""
    places = [i for i, char in enumerate(text) if char in b"0123456789"]
    pieces = []
    end = places[-1] + 1
    while places:
        masks, taken = [0, 0], 0
        for place in reversed(places):
            separators = end - 1 - place - taken
            if place < end - _PIECE or separators > 1:
                break
            masks[separators] |= 0x0F << 8 * (_PIECE - end + place)
            taken += 1
        if taken:
            pieces.append(DigitWindow(start + end, masks[0], masks[1], weight))
            weight *= 10**taken
            del places[-taken:]
        end = places[-1] + 1 if places and places[-1] >= end - _PIECE else end - _PIECE
    return tuple(pieces)


# Neighboring digits are added up, the left one times ten; then neighboring pairs, then fours. The last of each
# says which bits hold the sums; None: all of them.
_STEPS = [
    (np.uint64(10 * 2**8 + 1), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100 * 2**16 + 1), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10_000 * 2**32 + 1), np.uint64(32), None),
]


def values_of(digits: Words) -> Ints:
    """The numbers that eight digits each stand for, one a byte and the last in the highest; overwrites them."""
    for factor, shift, sums in _STEPS:
        digits *= factor
        digits >>= shift
        if sums is not None:
            digits &= sums
    return digits.view(np.int64)
