"""A page of memory that the sampler writes and the viewer reads: its heartbeat and what it saw last.

Made before the fork, so it outlives either process, and needs no disk. A checksum stands in for a lock: a reader
that meets half a message takes none.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib

HEAD = struct.Struct("<QII")  # heartbeat (monotonic ns), length and crc32 of the JSON that follows


class Board:
    def __init__(self, size: int = 256 * 1024) -> None:
        self._memory = mmap.mmap(-1, size)

    def beat(self, monotonic: int) -> None:
        struct.pack_into("<Q", self._memory, 0, monotonic)

    @property
    def heartbeat(self) -> int:
        """When the sampler last showed a sign of life; 0 before its first."""
        return int(struct.unpack_from("<Q", self._memory, 0)[0])

    def publish(self, news: dict[str, object]) -> None:
        text = json.dumps(news).encode()
        if HEAD.size + len(text) > len(self._memory):
            return
        self._memory[HEAD.size : HEAD.size + len(text)] = text
        struct.pack_into("<II", self._memory, 8, len(text), zlib.crc32(text))

    def read(self) -> dict[str, object] | None:
        _, length, crc = HEAD.unpack_from(self._memory, 0)
        text = self._memory[HEAD.size : HEAD.size + length]
        if not length or zlib.crc32(text) != crc:
            return None
        news: dict[str, object] = json.loads(text)
        return news
