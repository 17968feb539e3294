"""Rows of series -> the body of a Prometheus remote write request (version 1): protobuf in a snappy block.

Only fixed places of a request depend on its values. So its bytes are laid out once, and later requests with as
many samples of each series get their values and times written into a copy by numpy. Labels that repeat those of the
series before are snappy copies, which take three bytes each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

STALE = 0x7FF0000000000002
"""The bits by which Prometheus says that a series has ended; here, that a row has no value of it."""
ABSENT: float = struct.unpack("<d", struct.pack("<Q", STALE))[0]
NAME = "__name__"
SAMPLE = 18  # bytes of one: a tag and a length, a tag and a double, a tag and six bytes of milliseconds
VALUE_AT, TIME_AT, TIME_BYTES = 3, 12, 6
LAST_MS = 1 << (7 * TIME_BYTES)
SERIES, LABEL, SAMPLE_HEAD = 0x0A, 0x0A, b"\x12\x10\x09"
FEWEST_COPIED, MOST_COPIED, FARTHEST = 4, 64, 65535
SHORT_LITERAL, BYTE_LITERAL = 60, 256
SHAPES = 16


class RequestShape(NamedTuple):
    """The bytes of a request whose values and times are zero, and where each of its samples begins."""

    stream: npt.NDArray[np.uint8]
    samples: Integers


def labels(name: str, others: Mapping[str, str]) -> bytes:
    """A series' name and labels as the protocol wants them: ordered by name."""
    pairs = sorted({NAME: name, **others}.items())
    return b"".join(_field(LABEL, _field(0x0A, k.encode()) + _field(0x12, v.encode())) for k, v in pairs)


def request(series: Sequence[bytes], times_ms: Sequence[int], rows: Floats) -> bytes:
    """The body of a request: `rows` has a row for each time, a column for each series, ABSENT without a value."""
    there = rows.view(np.uint64) != STALE
    counts = there.sum(axis=0)
    chosen: list[int] = np.flatnonzero(counts).tolist()
    shape = _shape(tuple(series[i] for i in chosen), tuple(counts[chosen].tolist()))
    stream = shape.stream.copy()
    if chosen:
        of_series = there.T
        values = np.ascontiguousarray(rows.T[of_series]).view(np.uint8).reshape(-1, 8)
        times = np.broadcast_to(np.asarray(times_ms, np.int64), of_series.shape)[of_series]
        stream[shape.samples[:, None] + (VALUE_AT + np.arange(8))] = values
        stream[shape.samples[:, None] + (TIME_AT + np.arange(TIME_BYTES))] = _varints(times)
    return bytes(stream)


def _varints(times_ms: Integers) -> npt.NDArray[np.uint8]:
    """Six bytes for each time, also where fewer would do: so every sample has the same length."""
    if len(times_ms) and (times_ms.min() < 0 or times_ms.max() >= LAST_MS):
        raise ValueError("a time is before 1970 or after 2109")
    sevens = (times_ms[:, None] >> (7 * np.arange(TIME_BYTES))) & 0x7F
    sevens[:, :-1] |= 0x80
    return sevens.astype(np.uint8)


@lru_cache(maxsize=SHAPES)
def _shape(series: tuple[bytes, ...], counts: tuple[int, ...]) -> RequestShape:
    heads = [
        bytes([SERIES]) + _varint(len(each) + SAMPLE * n) + each
        for each, n in zip(series, counts, strict=True)
    ]
    stream = bytearray(_varint(sum(map(len, heads)) + SAMPLE * sum(counts)))
    places: list[int] = []
    before, distance = b"", 0
    for head, count in zip(heads, counts, strict=True):
        same, same_at_end = _in_common(before, head) if distance <= FARTHEST - len(head) else (0, 0)
        stream += b"".join(_copies(same, distance))
        samples = (SAMPLE_HEAD + bytes(8) + b"\x10" + bytes(TIME_BYTES)) * count
        middle = head[same : len(head) - same_at_end]
        if same_at_end:
            stream += _literal(middle)
            stream += b"".join(_copies(same_at_end, distance + len(head) - len(before)))
            middle = b""
        stream += _literal(middle + samples)
        places += range(len(stream) - len(samples), len(stream), SAMPLE)
        before, distance = head, len(head) + len(samples)
    return RequestShape(np.frombuffer(bytes(stream), np.uint8), np.array(places, np.int64))


def _in_common(before: bytes, head: bytes) -> tuple[int, int]:
    """How many bytes two heads share at their beginnings, and at their ends; too few to be copied count as none."""
    shorter = min(len(before), len(head))
    same = next((i for i in range(shorter) if before[i] != head[i]), shorter)
    left = shorter - same
    at_end = next((i for i in range(left) if before[-1 - i] != head[-1 - i]), left)
    return (same if same >= FEWEST_COPIED else 0), (at_end if at_end >= FEWEST_COPIED else 0)


def _copies(length: int, distance: int) -> Iterator[bytes]:
    """Snappy's elements that repeat what was written so many bytes before."""
    for start in range(0, length, MOST_COPIED):
        piece = min(MOST_COPIED, length - start)
        yield bytes([(piece - 1) << 2 | 2]) + distance.to_bytes(2, "little")


def _literal(content: bytes) -> bytes:
    """Snappy's element for bytes as they are, at most 64 KiB."""
    last = len(content) - 1
    if last < 0:
        return b""
    if last < SHORT_LITERAL:
        return bytes([last << 2]) + content
    if last < BYTE_LITERAL:
        return bytes([60 << 2, last]) + content
    return bytes([61 << 2]) + last.to_bytes(2, "little") + content


def _field(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
