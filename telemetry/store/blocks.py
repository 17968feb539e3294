"""One block of a journal: one second of a tier's ticks, encoded to bytes and decoded again.

Columns are stored as differences from tick to tick, each in the fewest bytes that hold all its differences, so a
reading that does not change costs nothing. Bytes of the same rank are stored together, because the high ones are
nearly all zero; the result is deflated. Each block can be read without any other; docs/run-folder.md has the
format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gputel.telemetry.clock import Stamp

MAGIC = b"GTB1"
VERSION = 1
HEADER = struct.Struct("<4sBBHIIIIqqqI")
CRC = struct.Struct("<I")
DEFLATED, SCHEMA, SEAL, NULLS = 1, 2, 4, 8
WIDTHS = (1, 2, 4, 8)
LEVEL = 1  # level 6 saves 4 % of the bytes for twice the time

Integers: TypeAlias = npt.NDArray[np.int64]
Unsigned: TypeAlias = npt.NDArray[np.uint64]
Bits: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Ticks:
    """Decoded ticks: `anchor` is the first deadline on three clocks; `values` has a row per tick; `valid` is None
    without nulls."""

    anchor: Stamp
    deadlines: Integers
    late_us: Integers
    values: Integers
    valid: Bits | None


@dataclass(frozen=True)
class JournalBlock:
    """One block as it is in the file, its payload still encoded."""

    offset: int
    flags: int
    tier: int
    sequence: int
    schema: int
    rows: int
    anchor: Stamp
    payload: bytes


@dataclass(frozen=True)
class Fault:
    """Damaged bytes in the middle of a file: skipped and reported."""

    offset: int
    length: int


def pack(
    payload: bytes, *, flags: int = 0, tier: int, sequence: int, schema: int, rows: int = 0, anchor: Stamp
) -> bytes:
    """A block's header and payload."""
    clocks = (anchor.monotonic, anchor.wall, anchor.boot)
    head = HEADER.pack(MAGIC, VERSION, flags, tier, len(payload), sequence, schema, rows, *clocks, 0)
    head = head[: -CRC.size]
    return head + CRC.pack(zlib.crc32(payload, zlib.crc32(head))) + payload


def scan(data: bytes) -> Iterator[JournalBlock | Fault]:
    """Every complete block in order. A half-written block at the end is not a fault: a crash left it."""
    offset, damaged_from = 0, -1
    while offset >= 0:
        block = _block_at(data, offset)
        if block is None:
            damaged_from = offset if damaged_from < 0 else damaged_from
            offset = data.find(MAGIC, offset + 1)
            continue
        if damaged_from >= 0:
            yield Fault(damaged_from, offset - damaged_from)
            damaged_from = -1
        yield block
        offset += HEADER.size + _length_at(data, offset)


def encode(ticks: Ticks, period_ns: int) -> tuple[bytes, int]:
    """The payload and flags for a block of ticks; deflated if that makes it shorter."""
    rows, columns = ticks.values.shape
    table = np.empty((rows, columns + 2), np.int64)
    table[:, 0] = ticks.deadlines - ticks.anchor.monotonic - np.arange(rows) * period_ns
    table[:, 1] = ticks.late_us
    table[:, 2:] = ticks.values if ticks.valid is None else _fill_nulls(ticks.values, ticks.valid)
    first, changes = zigzag(table[0]), zigzag(table[1:] - table[:-1])
    widths = _widths(changes)
    parts = [widths.tobytes(), _ranks(first.astype("<u8"), 8)]
    parts += [_ranks(changes[:, widths == width].T.astype(f"<u{width}"), width) for width in WIDTHS]
    if ticks.valid is None:
        return deflated(b"".join(parts))
    return deflated(b"".join([*parts, np.packbits(ticks.valid, bitorder="little").tobytes()]), NULLS)


def deflated(payload: bytes, flags: int = 0) -> tuple[bytes, int]:
    """The payload and its flags, deflated if that makes it shorter."""
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    smaller = deflate.compress(payload) + deflate.flush()
    return (smaller, flags | DEFLATED) if len(smaller) < len(payload) else (payload, flags)


def decode(block: JournalBlock, columns: int, period_ns: int) -> Ticks:
    """The ticks of a block. Raises ValueError if the payload cannot be decoded despite a good checksum."""
    payload, rows, wide = inflate(block), block.rows, columns + 2
    widths = np.frombuffer(payload, np.uint8, wide)
    first = _unranked(payload[wide:], 8, wide)
    changes = np.zeros((rows, wide), np.uint64)
    changes[0] = first
    offset = wide * 9
    for width in WIDTHS:
        chosen = widths == width
        count = int(chosen.sum()) * (rows - 1)
        changes[1:, chosen] = (
            _unranked(payload[offset:], width, count).reshape(-1, rows - 1).T if count else 0
        )
        offset += count * width
    table = np.cumsum(unzigzag(changes), axis=0)
    valid = None
    if block.flags & NULLS:
        bits = np.frombuffer(payload, np.uint8, (rows * columns + 7) // 8, offset)
        valid = (
            np.unpackbits(bits, count=rows * columns, bitorder="little").reshape(rows, columns).astype(bool)
        )
    deadlines = table[:, 0] + block.anchor.monotonic + np.arange(rows) * period_ns
    return Ticks(block.anchor, deadlines, table[:, 1], table[:, 2:], valid)


def inflate(block: JournalBlock) -> bytes:
    """The payload, inflated if it was deflated."""
    if not block.flags & DEFLATED:
        return block.payload
    try:
        return zlib.decompress(block.payload, -zlib.MAX_WBITS)
    except zlib.error as error:
        raise ValueError(f"does not inflate: {error}") from None


def zigzag(values: Integers) -> Unsigned:
    """Maps small numbers of either sign to small unsigned ones: 0, -1, 1, -2 -> 0, 1, 2, 3."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def unzigzag(values: Unsigned) -> Integers:
    numbers: Integers = (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)
    return numbers


def _block_at(data: bytes, at: int) -> JournalBlock | None:
    if len(data) - at < HEADER.size or not data.startswith(MAGIC, at):
        return None
    _, version, flags, tier, length, sequence, schema, rows, *clocks, crc = HEADER.unpack_from(data, at)
    end = at + HEADER.size + length
    if version != VERSION or end > len(data):
        return None
    payload = data[at + HEADER.size : end]
    if zlib.crc32(payload, zlib.crc32(data[at : at + HEADER.size - CRC.size])) != crc:
        return None
    monotonic, wall, boot = clocks
    return JournalBlock(at, flags, tier, sequence, schema, rows, Stamp(wall, monotonic, boot), payload)


def _length_at(data: bytes, at: int) -> int:
    return int(CRC.unpack_from(data, at + 8)[0])


def _fill_nulls(values: Integers, valid: Bits) -> Integers:
    """Repeats the value before each null, which makes a difference of zero."""
    filled: Integers = values.copy()
    holes = ~valid.all(axis=0)
    there = valid[:, holes]
    last = np.maximum.accumulate(np.where(there, np.arange(len(values))[:, None], 0), axis=0)
    filled[:, holes] = np.take_along_axis(np.where(there, values[:, holes], 0), last, axis=0)
    return filled


def _widths(changes: Unsigned) -> npt.NDArray[np.uint8]:
    largest = changes.max(axis=0, initial=0)
    widths = np.zeros(len(largest), np.uint8)
    for width, below in ((1, 1), (2, 1 << 8), (4, 1 << 16), (8, 1 << 32)):
        widths[largest >= np.uint64(below)] = width
    return widths


def _ranks(numbers: npt.NDArray[Any], width: int) -> bytes:
    """The bytes of all numbers, ordered by rank from the lowest to the highest."""
    ranks: npt.NDArray[np.uint8] = np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, width)
    return bytes(ranks.T.tobytes())


def _unranked(data: bytes, width: int, count: int) -> Unsigned:
    ranks = np.frombuffer(data, np.uint8, count * width).reshape(width, count)
    return np.ascontiguousarray(ranks.T).view(f"<u{width}").reshape(count).astype(np.uint64)
