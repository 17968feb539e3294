"""The framing of `.wandb` files: bytes -> records, each checked by its checksum.

Seven bytes say what the file is; then come blocks of 32 KiB as LevelDB writes them. A record that does not fit into
the rest of a block goes on in the next one. A damaged record costs itself, if the one behind it is whole; else the
rest of its block.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from gputel.analysis.logs.patterns import Reject

START = 7  # bytes before the first record
BLOCK, HEADER = 1 << 15, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
FORMAT = "wandb"
FRAME = struct.Struct("<IHB")
SEEDS = {kind: zlib.crc32(bytes([kind])) for kind in (FULL, FIRST, MIDDLE, LAST)}


@dataclass
class RecordReader:
    """Takes the bytes of one file in any pieces and gives its records."""

    rejects: list[Reject] = field(default_factory=list)
    records: int = 0
    is_stuck: bool = False  # whether damage lies in a block that is not full yet

    def __post_init__(self) -> None:
        self._rest = b""
        self._position = 0  # of the rest, within the file
        self._parts: list[bytes] = []
        self._has_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields every record that is whole by now; call it to its end before the next piece."""
        buffer = self._rest + data if self._rest else data
        at = 0
        if not self._has_begun:
            if len(buffer) < START:
                self._rest = buffer
                return
            self._has_begun, at = True, START
        while (found := self._next(buffer, at)) is not None:
            at, record = found
            if record is not None:
                self.records += 1
                yield record
        self._rest = buffer[at:]
        self._position += at

    def _next(self, buffer: bytes, at: int) -> tuple[int, bytes | None] | None:
        """Returns where to go on, and the record that ended there; None where more must be written first."""
        left = BLOCK - (self._position + at) % BLOCK
        if left < HEADER:
            return (at + left, None) if len(buffer) >= at + left else None
        if len(buffer) - at < HEADER:
            return None
        checksum, length, kind = FRAME.unpack_from(buffer, at)
        if not (checksum or length or kind):  # a block that was filled up early
            return (at + left, None) if len(buffer) >= at + left else None
        end = at + HEADER + length
        fits = HEADER + length <= left
        if fits and end > len(buffer):
            return None
        payload = buffer[at + HEADER : end]
        if not fits or kind not in SEEDS or zlib.crc32(payload, SEEDS[kind]) != checksum:
            self.is_stuck = len(buffer) < at + left
            if self.is_stuck:
                return None  # what follows decides
            return self._after_damage(buffer, at, left, end if fits else None), None
        return end, self._joined(kind, payload)

    def _after_damage(self, buffer: bytes, at: int, left: int, end: int | None) -> int:
        """Returns where to go on: at the next record if that is whole, else at the next block."""
        self.records += 1
        self.rejects.append(Reject(self.records, FORMAT, "the checksum of a record does not fit"))
        self._parts.clear()
        block_end = at + left
        if end is not None and end + HEADER <= block_end:
            checksum, length, kind = FRAME.unpack_from(buffer, end)
            payload = buffer[end + HEADER : end + HEADER + length]
            fits = HEADER + length <= block_end - end and kind in SEEDS
            if fits and zlib.crc32(payload, SEEDS[kind]) == checksum:
                return end
        return block_end

    def finish(self) -> Iterator[bytes]:
        """Yields what lies behind damage in a last block that is not full."""
        if len(self._rest) >= HEADER:
            missing = BLOCK - (self._position + len(self._rest)) % BLOCK
            yield from self.feed(bytes(missing))

    def _joined(self, kind: int, payload: bytes) -> bytes | None:
        """Joins the parts of a record; None until its last one."""
        if kind in (FULL, FIRST):
            self._parts.clear()
        if kind == FULL:
            return payload
        if kind != FIRST and not self._parts:
            return None  # its beginning was damaged, and that was reported
        self._parts.append(payload)
        if kind != LAST:
            return None
        record = b"".join(self._parts)
        self._parts.clear()
        return record
