"""The output of a command with its secrets masked on the way to storage; the file on this machine stays as it is.

A secret becomes as many stars as it has bytes, so that the index, offsets and sizes stay right. Lines are masked
one by one, so it does not matter how the output is cut into bundles: two couriers send the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gputel.telemetry.secrets import star_out

LINE = re.compile(rb"[^\r\n]*[\r\n]|[^\r\n]+$")
CHUNK_BYTES = 1 << 20


def masked(content: bytes) -> bytes:
    return b"".join(star_out(line) for line in LINE.findall(content))


def whole_lines(content: bytes) -> bytes:
    """What can be masked already: up to the last line that is whole."""
    return content[: max(content.rfind(b"\n"), content.rfind(b"\r")) + 1]


def chunks(path: Path) -> Iterator[bytes]:
    """A whole file, masked. Raises OSError."""
    with path.open("rb") as file:
        yield from _chunks(file)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    rest = b""
    while new := file.read(CHUNK_BYTES):
        content = rest + new
        ready = whole_lines(content)
        rest = content[len(ready) :]
        yield masked(ready)
    yield masked(rest)
