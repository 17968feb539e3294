"""Whatever holds a log -> its bytes, piece by piece; what its first bytes say is compressed is unpacked."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import IO, Any

PIECE = 4 << 20
HEAD = 64 << 10
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def unpacked(raw: Any) -> Iterator[bytes]:
    """The bytes of a compressed log, piece by piece; of any other as they are."""
    yield from with_head(*plain(raw))


def plain(raw: Any) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, decompressed, and the pieces that follow them."""
    start = _exactly(raw, 4)
    source: Any = _Joined(start, raw)
    size = HEAD
    if start.startswith(GZIP):
        import gzip

        source = gzip.GzipFile(fileobj=source, mode="rb")
    elif start == ZSTD:
        source = _zstd(source)
    elif isinstance(raw, io.IOBase) and raw.seekable():
        raw.seek(-len(start), os.SEEK_CUR)
        source, size = raw, PIECE
    head = _exactly(source, size)
    some = getattr(source, "read1", source.read)  # of a file that is cut short, all that can be had
    return head, iter(lambda: some(PIECE), b"")


def with_head(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """The head and the first piece in one: reading has a price per piece, and most logs are small."""
    try:
        head += next(rest, b"") if len(head) < PIECE else b""
    except (EOFError, OSError):
        yield head
        raise
    yield head
    del head  # megabytes that nobody asks for again
    yield from rest


def _exactly(source: Any, size: int) -> bytes:
    """A pipe gives what it has; a head is as long as asked, or all there is."""
    pieces: list[bytes] = []
    while size > 0 and (piece := source.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _zstd(source: Any) -> IO[bytes]:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]

        return zstd.open(source, "rb")  # type: ignore[no-any-return, unused-ignore]
    except ImportError:
        import zstandard

        return zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)


class _Joined:
    """Bytes that were read ahead, and then the rest: what a pipe lacks for being looked into."""

    def __init__(self, start: bytes, rest: Any) -> None:
        self._start, self._rest = start, rest

    def read(self, size: int = -1) -> bytes:
        if self._start:
            piece = self._start if size < 0 else self._start[:size]
            self._start = self._start[len(piece) :]
            return piece
        piece = self._rest.read(size)
        return bytes(piece or b"")
