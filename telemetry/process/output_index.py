"""output.idx: when each line of output.log came.

It has one record of 16 bytes per read of the output, little-endian: wall clock in nanoseconds since 1970
(0: unknown), and the size of output.log after that read. A line's timestamp is that of the read that brought its
last byte; none is interpolated. A torn record at the end is ignored: it is still being written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from gputel.telemetry.own_files import is_foreign

RECORD = struct.Struct("<QQ")
UNKNOWN = 0


def pack(wall_ns: int | None, end: int) -> bytes:
    """One record of output.idx."""
    return RECORD.pack(UNKNOWN if wall_ns is None else wall_ns, end)


def read(index: Path) -> list[tuple[int | None, int]]:
    """(wall ns, end) of every read, oldest first; empty if there is no index."""
    if is_foreign(index):
        return []
    try:
        data = index.read_bytes()
    except FileNotFoundError:
        return []
    whole = memoryview(data)[: len(data) // RECORD.size * RECORD.size]
    return [(wall or None, end) for wall, end in RECORD.iter_unpack(whole)]


def covered(index: Path) -> int | None:
    """The bytes of the output that have times; None if there is no index."""
    if is_foreign(index):
        return None
    try:
        with index.open("rb") as file:
            size = file.seek(0, 2) // RECORD.size * RECORD.size
            file.seek(max(0, size - RECORD.size))
            last = file.read(RECORD.size)
    except OSError:
        return None
    return int(RECORD.unpack(last)[1]) if len(last) == RECORD.size else 0


def lines(log: Path, index: Path) -> Iterator[tuple[int | None, bytes]]:
    """Every line of a log with its timestamp; the last line may lack a newline."""
    records = iter(read(index))
    wall, covered = next(records, (None, None))
    end = 0
    with log.open("rb") as texts:
        for text in texts:
            end += len(text)
            while covered is not None and covered < end:
                wall, covered = next(records, (None, None))
            yield wall, text
