"""Text of a value -> number and unit: the only place that knows how numbers look in a log.

Printed unit -> the scale to the unit of a column: exponent shift, factor and divisor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from gputel.analysis.logs import patterns
from gputel.analysis.logs.patterns import Field

GRAMMAR = (
    rb"[+-]?(?:(?:\d{1,3}(?:,\d{3})+(?!,?\d)|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
    rb"|[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"
)
NUMBER = patterns.lazy_regex(GRAMMAR)
CLOCK_GRAMMAR = rb"(?:(\d+) days?, )?(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)"
CLOCK = patterns.lazy_regex(CLOCK_GRAMMAR)
_SPELT = rb"(?:d(?:ays?)?|h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)"
_NEXT = rb",? {0,3}(?:and )?"
_THOUSANDTHS = rb"%b\d+ ?(?:ms|milliseconds?)" % _NEXT
DURATION_GRAMMAR = (  # `1h 2m 3s`, and `0h  2min 3s 456ms` with its parts padded
    rb"\d+ ?(?:(?!s)%b(?:%b\d+(?:\.\d+)? ?%b)+(?:%b)?|%b%b)(?!\w)"
    % (_SPELT, _NEXT, _SPELT, _THOUSANDTHS, _SPELT, _THOUSANDTHS)
)
DURATION = patterns.lazy_regex(DURATION_GRAMMAR)
_PART = patterns.lazy_regex(rb"(\d+(?:\.\d+)?) ?(ms\b|mil|[dhms])")
_IN_SECONDS = {b"d": 86_400, b"h": 3_600, b"m": 60, b"s": 1, b"ms": 0.001, b"mil": 0.001}
# A duration of either kind, without groups
TIME_GRAMMAR = b"(?:%b|%b)" % (CLOCK_GRAMMAR.replace(b"(\\d", b"(?:\\d"), DURATION_GRAMMAR)
# grammars that match nothing but numbers
SURE = (
    b"(?:%b)" % GRAMMAR,
    rb"\d+(?:,\d{3})*",
    TIME_GRAMMAR,
)
UNIT = patterns.lazy_regex(
    rb"(?P<gap> ?)(?P<unit>(?:ms|us|\xc2\xb5s|ns|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|%"
    rb"|[KkMGTB]i?B|[KkMGBT]|[Tt]ok(?:en)?s?/s(?:ec)?|(?:it|step|sample|img|image)s?/s(?:ec)?|(?:s|ms)/(?:it|step|iter)"
    rb"|[TPG]FLOP/?S|[TPG]FLOPs?(?:/s)?|W|J|z))(?![\w/.?])"
)
STUCK = patterns.lazy_regex(rb"[\w.?:]")  # a number directly before such a character is part of a word


def split(value: bytes, last: bool) -> tuple[bytes, bytes] | None:
    """`658.60ms` -> (`658.60`, `ms`); `0:09:32` and `1m 12s` are a `clock`. None if the value is not a number.

    `last` says that nothing of the record follows, so that letters right after the number were printed into the
    line by another process.
    """
    if len(value) > _SHORT:
        return _split(value, last)
    parts = _split_alike(value.translate(_ZEROS), last)
    return parts and (value[: len(parts[0])], parts[1])


def _split(value: bytes, last: bool) -> tuple[bytes, bytes] | None:
    if b":" in value:
        clock = CLOCK.match(value)
        if clock and not STUCK.match(value, clock.end()):
            return clock.group(), b"clock"
    if spelt := DURATION.match(value):
        return spelt.group(), b"clock"
    number = NUMBER.match(value)
    if not number:
        return None
    unit = UNIT.match(value, number.end())
    if unit:
        return number.group(), unit["unit"]
    rest = value[number.end() :]
    stuck = STUCK.match(rest) is not None
    if stuck and not (last and rest[:1].isalpha() and number.group()[-1:].isdigit()):
        return None
    return number.group(), b""


_SHORT = 32  # bytes of a value that may be remembered
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_split_alike = lru_cache(maxsize=4096)(_split)  # values that differ in digits only are split alike


def read(text: bytes, what: Field) -> float | None:
    """The number that a text stands for; None for a placeholder."""
    if text in what.nulls:
        return None
    if what.kind == "clock":
        value = seconds(text)
    else:
        plain = text.replace(b",", b"")
        value = _shifted(plain, what.shift) if what.shift else float(plain)
    return value * what.times / what.over if what.times != what.over else value


def last_digit(text: bytes, what: Field) -> float:
    """What the last digit of a number stands for, in the unit of its column: 10 ms of `5.20` seconds."""
    if what.kind == "clock":
        decimals = text.rpartition(b".")[2].rstrip(b" second") if b"." in text else b""
        return float(10.0 ** -len(decimals) * what.times / what.over)
    mantissa, _, exponent = text.replace(b",", b"").lower().partition(b"e")
    power = int(exponent or 0) - len(mantissa.partition(b".")[2]) + what.shift
    return float(f"1e{power}") * what.times / what.over  # infinite where a power would raise


def is_readable(text: bytes, what: Field) -> bool:
    try:
        read(text, what)
    except ValueError:
        return False
    return True


def _shifted(plain: bytes, by: int) -> float:
    if plain[-1:].isalpha():
        return float(plain)  # nan, inf
    mantissa, _, exponent = plain.lower().partition(b"e")
    return float(b"%be%d" % (mantissa, by + int(exponent or 0)))


def seconds(text: bytes) -> float:
    """`1 day, 0:09:32`, `44:31` and `1h 42m 3s`; a plain number is seconds already."""
    found = CLOCK.fullmatch(text)
    if not found:
        spelt = DURATION.fullmatch(text)
        return sum(float(n) * _IN_SECONDS[unit] for n, unit in _PART.findall(text)) if spelt else float(text)
    days, hours, minutes, rest = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


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
    "s/it": ("s/it", "s/step", "s/iter", "s/update"),
    "ms/it": ("ms/it", "ms/step", "ms/iter", "ms/update"),
}
_SPELLED = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}
_ENDINGS = {"%": "pct", "s/it": "s", "ms/it": "ms"}


def plain(printed: str) -> str:
    """The short spelling of a unit: `seconds` -> `s`."""
    return _SPELLED.get(printed, printed)


def ending(unit: str) -> str:
    """The ending that a unit adds to a column's name: `gib`, `ms`, `pct`, `tok_per_s`."""
    known = _ENDINGS.get(unit, unit)
    return "".join(c if c.isalnum() else "_" for c in known.replace("/", "_per_").lower()).strip("_")
