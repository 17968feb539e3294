"""The checksum of a Parquet file, inside the file, which is checked before polars sees it.

Parquet's page headers and footer have none of their own. One flipped bit there can make polars ask for exabytes
of memory, which ends the process, or print a backtrace. The CRC-32 of the whole file stands in the metadata as
eight hexadecimal digits, and is taken with zeros in their place.
"""

from __future__ import annotations

import zlib

NAME = "crc32"
EMPTY = "00000000"
_BEFORE = f'"{NAME}":"'.encode()


def with_checksum(content: bytes) -> bytes:
    """The content of a file whose metadata hold `"crc32":"00000000"`, with its checksum in that place."""
    at = content.rindex(_BEFORE + EMPTY.encode()) + len(_BEFORE)
    return content[:at] + f"{zlib.crc32(content):08x}".encode() + content[at + len(EMPTY) :]


def check(content: bytes) -> None:
    """Raises ValueError if a file's content differs from what was written; one without a checksum passes."""
    before = content.rfind(_BEFORE)
    if before < 0:
        return
    begin, view = before + len(_BEFORE), memoryview(content)  # whose pieces are no copies
    end = begin + len(EMPTY)
    zeroed = zlib.crc32(view[end:], zlib.crc32(EMPTY.encode(), zlib.crc32(view[:begin])))
    if content[begin:end] != f"{zeroed:08x}".encode():
        raise ValueError("its checksum differs from its content")
