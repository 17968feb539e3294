"""Fields of a protobuf message, read without its schema: number, kind, and where the value lies."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
DOUBLE, FLOAT = struct.Struct("<d"), struct.Struct("<f")
LONGEST = 10  # bytes of a varint
LATEST_S = 9 * 10**9


class WireError(ValueError):
    """Bytes that are no protobuf message."""


class WireField(NamedTuple):
    """One field. `number` is its tag, `value` a varint; a value of bytes lies in `data[start:end]`."""

    number: int
    kind: int
    start: int
    end: int
    value: int


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[WireField]:
    """Yields the fields of the message in `data[start:end]`; raises WireError where a length leads out of it."""
    at, last = start, len(data) if end is None else end
    while at < last:
        key, at = varint(data, at, last)
        kind, value = key & 7, 0
        if kind == VARINT:
            begin = at
            value, at = varint(data, at, last)
        elif kind == BYTES:
            size, at = varint(data, at, last)
            begin, at = at, at + size
        elif kind in (FIXED32, FIXED64):
            begin, at = at, at + (4 if kind == FIXED32 else 8)
        else:
            raise WireError(f"a field of kind {kind}")
        if at > last:
            raise WireError("a field is longer than its message")
        yield WireField(key >> 3, kind, begin, at, value)


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Returns the number at a position, and the position after it."""
    value = 0
    for shift in range(LONGEST):
        if at >= end:
            raise WireError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, at
    raise WireError("a number has more than ten bytes")


def signed(value: int) -> int:
    """A varint as an int64."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def text(data: bytes, field: WireField) -> str:
    return data[field.start : field.end].decode(errors="replace")


def moment_ns(data: bytes, field: WireField) -> int:
    """A timestamp in ns since 1970; 0 of one that no run has."""
    parts = {part.number: part for part in fields(data, field.start, field.end) if part.kind == VARINT}
    seconds, rest = (signed(parts[number].value) if number in parts else 0 for number in (1, 2))
    return seconds * 10**9 + rest if 0 < seconds < LATEST_S else 0
