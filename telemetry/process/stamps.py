"""output.idx: when each line of output.log was written.

One record of 16 bytes per read of the command's output, little-endian: wall clock in nanoseconds since 1970 (0: not
known), and where output.log ended after that read. A line has the stamp of the read that brought its last byte; no
stamp is interpolated. A torn record at the end is "not yet".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

RECORD = struct.Struct("<QQ")
UNKNOWN = 0


def pack(wall_ns: int | None, end: int) -> bytes:
    return RECORD.pack(UNKNOWN if wall_ns is None else wall_ns, end)


def read(index: Path) -> list[tuple[int | None, int]]:
    """(wall ns, end) of every read, oldest first; empty where there is no index."""
    try:
        data = index.read_bytes()
    except FileNotFoundError:
        return []
    whole = memoryview(data)[: len(data) // RECORD.size * RECORD.size]
    return [(wall or None, end) for wall, end in RECORD.iter_unpack(whole)]


def lines(log: Path, index: Path) -> Iterator[tuple[int | None, bytes]]:
    """Every line of a log with its stamp; the last one perhaps without a newline."""
    records = iter(read(index))
    wall, covered = next(records, (None, None))
    end = 0
    with log.open("rb") as texts:
        for text in texts:
            end += len(text)
            while covered is not None and covered < end:
                wall, covered = next(records, (None, None))
            yield wall, text
