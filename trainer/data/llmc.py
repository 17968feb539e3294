"""llm.c's shards: 256 int32 of header (magic, version, count), then tokens of 16 or 32 bits, by the magic."""

from pathlib import Path

import numpy as np

from gputel.trainer.data.layout import Layout
from gputel.trainer.data.shard import Shard, mapped

HEADER_BYTES = 1024
# magic: (version, type of a token, vocabulary)
KINDS = {20240520: (1, "<u2", 50_257), 20240801: (7, "<u4", 128_256)}


def recognizes(head: bytes) -> bool:
    return int.from_bytes(head[:4], "little") in KINDS


def shard(path: Path) -> Shard:
    magic, _, count = _header(path)
    return mapped(path, KINDS[magic][1], offset=HEADER_BYTES, count=count)


def fault(path: Path) -> str | None:
    if path.stat().st_size < HEADER_BYTES:
        return "is cut within its header"
    magic, version, count = _header(path)
    wanted, dtype, _ = KINDS[magic]
    if version != wanted:
        return f"is of version {version}, expected {wanted}"
    there = (path.stat().st_size - HEADER_BYTES) // np.dtype(dtype).itemsize
    return None if there == count else f"holds {there:,} tokens, and its header promises {count:,}"


def vocab(path: Path) -> int:
    return KINDS[_header(path)[0]][2]


def _header(path: Path) -> tuple[int, int, int]:
    magic, version, count = np.fromfile(path, "<i4", 3).tolist()
    return magic, version, count


LLMC = Layout("llm.c", (".bin",), recognizes, fault, shard=shard, vocab=vocab)
