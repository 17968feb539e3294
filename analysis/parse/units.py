"""Printed units -> the unit that a column is kept in: exponent shift, factor and divisor."""

from __future__ import annotations

from typing import NamedTuple


class Scale(NamedTuple):
    """value = (number with its exponent moved by `shift`) * times / over"""

    shift: int = 0
    times: int = 1
    over: int = 1


KEPT = Scale()
_MILLISECONDS = {
    "ns": Scale(-6),
    "us": Scale(-3),
    "ms": KEPT,
    "s": Scale(3),
    "min": Scale(4, 6),
    "h": Scale(5, 36),
    "d": Scale(5, 864),
}
_MINUTES = {
    "ns": Scale(-9, 1, 60),
    "us": Scale(-6, 1, 60),
    "ms": Scale(-3, 1, 60),
    "s": Scale(0, 1, 60),
    "min": KEPT,
    "h": Scale(0, 60),
    "d": Scale(0, 1440),
}
COUNTS = {"k": Scale(3), "M": Scale(6), "B": Scale(9), "G": Scale(9), "T": Scale(12)}
CANONICAL = {"ms": _MILLISECONDS, "min": _MINUTES, "count": COUNTS}  # by the ending of the column

_SPELLINGS = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
    "ms": ("ms", "msec", "msecs", "millisecond", "milliseconds"),
    "us": ("us", "µs"),
    "ns": ("ns",),
    "k": ("k", "K"),
    "s/it": ("s/it", "s/step", "s/iter"),
    "ms/it": ("ms/it", "ms/step", "ms/iter"),
}
_SPELLED = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}
_ENDINGS = {"%": "pct", "s/it": "s", "ms/it": "ms"}


def plain(printed: str) -> str:
    """`seconds` -> `s`; a unit that has one spelling only is itself."""
    return _SPELLED.get(printed, printed)


def ending(unit: str) -> str:
    """What a unit adds to a column's name: `gib`, `ms`, `pct`, `tok_per_s`."""
    known = _ENDINGS.get(unit, unit)
    return "".join(c if c.isalnum() else "_" for c in known.replace("/", "_per_").lower()).strip("_")
