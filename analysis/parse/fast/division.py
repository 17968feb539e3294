"""A whole number over a power of ten -> the float nearest to it, where that is certain.

Below 2**53 a single division is exact. Above, what it leaves over is found without error (Dekker's product: a float
is cut into halves whose products are exact) and divided once more. The sum of both quotients is off by so little
that it is in doubt only where the true one lies next to the middle between two floats.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

HIGHEST_POWER = 22  # of ten that a float holds
POWERS: Floats = np.array([float(10**power) for power in range(HIGHEST_POWER + 1)])
LARGEST = 4 * 10**18  # whole number that is divided

_SPLIT = 2.0**27 + 1
_DOUBT = 2.0**-45  # of the second quotient; its errors are below 2**-50


def divided(wholes: Ints, power: Ints) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """whole / 10**power, and where it is certain; of powers that no float holds, nothing is."""
    possible = (wholes <= LARGEST) & (power >= 0) & (power <= HIGHEST_POWER)
    wholes = np.where(possible, wholes, 0)
    by, whole = POWERS[np.where(possible, power, 0)], wholes.astype(np.float64)
    rounded = (wholes - whole.astype(np.int64)).astype(np.float64)
    first = whole / by
    second = (_left_over(whole, first, by) + rounded) / by
    found: Floats = first + second
    certain = first + second * (1 - _DOUBT) == first + second * (1 + _DOUBT)
    return found, certain & possible


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
