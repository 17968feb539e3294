"""A bundle: what the growing files of a segment have grown by, at one moment, in one object.

    u32 length of the head | head: JSON | zstd: the pieces, one after the other

The head has `pieces`, a list of [file, offset, length]; `ends`, where each growing file ends with this bundle;
`sent`, a moment of the sender's; `acked`, when storage had answered for the bundle before; and `boot`, the kernel's
name for the time since the sender was started. Pieces are joined by offset, so one that comes twice does no harm.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gputel.telemetry import zstandard
from gputel.telemetry.clock import Stamp, boot_name
from gputel.telemetry.errors import GputelError

LENGTH = struct.Struct("<I")
HEAD_BYTES = 1 << 20
"""The longest head that is read; of some hundred files it is a few KiB."""
BODY_BYTES = 1 << 28
"""The largest body: a courier sends at most 8 MiB of each file."""


@dataclass(frozen=True)
class GrownPiece:
    """Bytes of one file, from an offset on."""

    file: str
    offset: int
    content: bytes


class BundleTimes(NamedTuple):
    """Times by the boot clock of the sender, in nanoseconds; `boot` names that boot."""

    sent: int | None
    acked_before: int | None
    boot: str


def encode(
    pieces: Sequence[GrownPiece], ends: Mapping[str, int], sent: Stamp, acked: Stamp | None = None
) -> bytes:
    head = {
        "pieces": [[piece.file, piece.offset, len(piece.content)] for piece in pieces],
        "ends": dict(ends),
        "sent": sent.as_json(),
        "acked": acked and acked.as_json(),
        "boot": boot_name(),
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    body: bytes = zstandard.library().compress(b"".join(piece.content for piece in pieces))
    return LENGTH.pack(len(text)) + text + body


def ends(beginning: bytes) -> dict[str, int]:
    """Where the growing files end with this bundle, by its first bytes; {} if it is damaged."""
    head, _ = _split(beginning)
    found = head.get("ends")
    return {file: end for file, end in found.items() if _is_count(end)} if isinstance(found, dict) else {}


def times(beginning: bytes) -> BundleTimes:
    """Reads from its first bytes when a bundle was sent."""
    head, _ = _split(beginning)
    return BundleTimes(_boot_ns(head.get("sent")), _boot_ns(head.get("acked")), f"{head.get('boot')}")


def decode(bundle: bytes) -> Iterator[GrownPiece]:
    """The pieces; a damaged bundle is a GputelError."""
    head, body = _split(bundle)
    listed = head.get("pieces")
    if not isinstance(listed, list) or not all(map(_is_piece, listed)):
        raise _damaged()
    size = sum(length for _, _, length in listed)
    if size > BODY_BYTES:
        raise _damaged()
    zstd = zstandard.library()
    try:
        whole = zstd.ZstdDecompressor().decompress(body, max_length=size + 1) if size else b""
    except zstd.ZstdError:
        raise _damaged() from None
    if len(whole) != size:
        raise _damaged()
    at = 0
    for file, offset, length in listed:
        yield GrownPiece(file, offset, whole[at : at + length])
        at += length


def _split(bundle: bytes) -> tuple[dict[str, Any], bytes]:
    if len(bundle) < LENGTH.size:
        return {}, b""
    (length,) = LENGTH.unpack_from(bundle)
    end = LENGTH.size + length
    try:
        head = json.loads(bundle[LENGTH.size : end]) if length <= HEAD_BYTES else None
    except (ValueError, RecursionError):
        head = None
    return (head if isinstance(head, dict) else {}), bundle[end:]


def _boot_ns(stamp: object) -> int | None:
    moment = stamp.get("boot_ns") if isinstance(stamp, dict) else None
    return moment if isinstance(moment, int) and 0 <= moment < 1 << 63 else None


def _is_piece(listed: object) -> bool:
    if not isinstance(listed, list) or len(listed) != 3:
        return False
    file, offset, length = listed
    return isinstance(file, str) and _is_count(offset) and _is_count(length)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 48


def _damaged() -> GputelError:
    return GputelError("bundle", "is damaged")
