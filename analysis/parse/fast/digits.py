"""The text of a number, once -> where its digits stand, for all lines that have digits in the same places.

A number is cut into pieces of at most eight bytes, each ending at a digit, with at most one byte between the
digits (a point, a comma) that two masks leave out: so eight bytes, read as one integer, become a value in a few
multiplications. What comes out is exact: an integer below 2**53 times or over a power of ten that a float holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gputel.analysis.parse import numbers
from gputel.analysis.parse.fast.division import HIGHEST_POWER
from gputel.analysis.parse.patterns import Field

MOST_PIECES = 3
MOST_DIGITS = 22  # of which an int64 holds 18, and more if the first are zeros
CERTAIN_DIGITS = 15  # that a float holds for certain
_DECIMAL = re.compile(rb"([+-]?)([\d,]*\.?[\d,]*)(?:[eE]([+-]?)(\d{1,8}))?")
_PIECE = 8
BLANK = 9  # what every digit is, where digits do not count


@dataclass(frozen=True)
class Piece:
    """Eight bytes that end at `end`; masks for the digits after the separator and for those before it."""

    end: int
    after: int
    before: int
    weight: int


@dataclass(frozen=True)
class Number:
    """sign * sum(weight * piece) * 10**power, the power moved by a printed exponent."""

    pieces: tuple[Piece, ...]
    sign: int
    power: int
    digits: int
    exponent: Piece | None = None
    exponent_sign: int = 1

    @property
    def reach(self) -> int:
        return min(piece.end for piece in self.pieces)


def plan(text: bytes, start: int, what: Field) -> Number | None:
    """How to read the field from every line like this one; None where each needs a look of its own."""
    if blank(text) in _blanked(what.nulls):
        return None
    if what.kind == "clock" and b":" in text:
        return _clock(text, start)
    found = _DECIMAL.fullmatch(text)
    if not found or what.kind == "text" or (what.kind == "clock" and b"," in text):
        return None
    sign, mantissa, exponent_sign, exponent = found.groups()
    digits = sum(char not in b".," for char in mantissa)
    power = what.shift - len(mantissa.partition(b".")[2].replace(b",", b""))
    if not 0 < digits <= MOST_DIGITS or abs(power) > HIGHEST_POWER:
        return None
    pieces = _pieces(mantissa, start + found.start(2))
    if len(pieces) > MOST_PIECES:
        return None
    return Number(
        pieces,
        -1 if sign == b"-" else 1,
        power,
        digits,
        _pieces(exponent, start + found.start(4))[0] if exponent else None,
        -1 if exponent_sign == b"-" else 1,
    )


def blank(text: bytes) -> bytes:
    """The text as its shape has it: every digit is one and the same byte, and all others differ as they did."""
    return text.translate(_BLANK)


@lru_cache(maxsize=64)
def _blanked(nulls: frozenset[bytes]) -> frozenset[bytes]:
    return frozenset(map(blank, nulls))


def blank_in_place(text: npt.NDArray[np.uint8], lowest: npt.NDArray[np.uint8]) -> None:
    """The same for many texts; `lowest` is BLANK at least, wherever they are to be as they were."""
    text -= np.uint8(ord("0"))
    np.maximum(text, lowest[: len(text)], out=text)


_BLANK = bytes(max(byte - ord("0") & 0xFF, BLANK) for byte in range(256))


def _clock(text: bytes, start: int) -> Number | None:
    found = numbers.CLOCK.fullmatch(text)
    if not found or b"." in text:
        return None
    pieces: tuple[Piece, ...] = ()
    for group, weight in enumerate((86_400, 3_600, 60, 1), start=1):
        if found[group] is not None:
            pieces += _pieces(found[group], start + found.start(group), weight)
    if len(pieces) > MOST_PIECES or len(text) > CERTAIN_DIGITS:
        return None
    return Number(pieces, 1, 0, CERTAIN_DIGITS)


def _pieces(text: bytes, start: int, weight: int = 1) -> tuple[Piece, ...]:
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
        pieces.append(Piece(start + last + 1, masks[0], masks[1], weight))
        weight *= 10**taken
    return tuple(pieces)
