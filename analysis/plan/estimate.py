"""A figure of a plan: its value, its range, and its origin.

All figures are positive. A figure computed from several others has the origin of the least certain of them, and
names their sources.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Origin = Literal["computed", "measured", "assumed"]
ASKED = "the question"
DOUBT: tuple[Origin, ...] = ("computed", "measured", "assumed")


@dataclass(frozen=True)
class Estimate:
    """A value with its range; `low` and `high` equal the value if it follows from the question alone."""

    value: float
    low: float
    high: float
    origin: Origin
    sources: tuple[str, ...]

    def __mul__(self, other: Estimate | float) -> Estimate:
        by = as_estimate(other)
        return _joined((self, by), self.value * by.value, self.low * by.low, self.high * by.high)

    def __truediv__(self, other: Estimate | float) -> Estimate:
        by = as_estimate(other)
        return _joined((self, by), self.value / by.value, self.low / by.high, self.high / by.low)

    def __rtruediv__(self, other: float) -> Estimate:
        return as_estimate(other) / self

    def __add__(self, other: Estimate | float) -> Estimate:
        by = as_estimate(other)
        return _joined((self, by), self.value + by.value, self.low + by.low, self.high + by.high)

    __rmul__, __radd__ = __mul__, __add__

    @property
    def is_range(self) -> bool:
        return self.low != self.value or self.high != self.value

    def by(self, other: Estimate) -> Estimate:
        """Returns the same figure with the origin and sources of `other`."""
        return replace(self, origin=other.origin, sources=other.sources)

    def as_(self, source: str) -> Estimate:
        """Returns the same figure with one source."""
        return replace(self, sources=(source,))


Figures = dict[str, Estimate]
"""Figures by column name."""


def computed(value: float, source: str = ASKED) -> Estimate:
    return Estimate(value, value, value, "computed", (source,))


def measured(value: float, source: str, *, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(
        value, value if low is None else low, value if high is None else high, "measured", (source,)
    )


def assumed(value: float, low: float, high: float, source: str) -> Estimate:
    return Estimate(value, low, high, "assumed", (source,))


def as_estimate(value: Estimate | float) -> Estimate:
    return value if isinstance(value, Estimate) else computed(value)


def sum_of_independent(parts: Iterable[Estimate]) -> Estimate:
    """Sums parts whose errors are independent, so ranges add in quadrature."""
    summands = tuple(parts)
    value = sum(part.value for part in summands)
    below = math.hypot(*(part.value - part.low for part in summands))
    above = math.hypot(*(part.high - part.value for part in summands))
    return _joined(summands, value, value - below, value + above)


def _joined(parts: tuple[Estimate, ...], value: float, low: float, high: float) -> Estimate:
    origin = max((part.origin for part in parts), key=DOUBT.index)
    sources = dict.fromkeys(source for part in parts if part.origin == origin for source in part.sources)
    telling = tuple(source for source in sources if source != ASKED)
    return Estimate(value, low, high, origin, telling or (ASKED,))
