"""Figures that a log prints twice, in full and rounded: whether two of them are one, and which has more digits."""

from __future__ import annotations

import math

_NEAR = 0.05  # how far a loss may be from its rounded form, by its share
_ROUNDED = 0.001  # how far apart, by its share, one loss may be printed twice


def finer(loss: float, again: float) -> float:
    """The one with more digits of a loss that two lines print: 2.5 and 2.5013."""
    return in_full(loss, again) if abs(again - loss) <= _ROUNDED * abs(loss) else loss


def in_full(loss: float, again: float) -> float:
    return again if is_of(again, loss) else loss


def is_of(loss: float, rounded: float) -> bool:
    """Whether the other is this loss, rounded: 1.0 is 0.97 rounded, but not 0.75, which is too far from it.

    The loss may have been rounded itself: 2.8145 is 2.814548, of which 2.81455 was printed.
    """
    if loss == rounded:
        return True
    fine, coarse = decimals(loss), decimals(rounded)
    near = math.isfinite(loss) and abs(loss - rounded) <= _NEAR * abs(rounded)
    return near and coarse < fine and abs(loss - rounded) <= 0.5000001 * (10.0**-coarse + 10.0**-fine)


def decimals(value: float) -> int:
    """The digits behind the point of a printed figure: 5 of 2.81455, and 7 of 2.5e-06."""
    digits, _, exponent = repr(value).partition("e")
    return max(0, len(digits.partition(".")[2].rstrip("0")) - int(exponent or 0))


def is_same(value: float, other: float) -> bool:
    """Whether one of the two is the other, rounded."""
    return is_of(value, other) or is_of(other, value)
