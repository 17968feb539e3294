"""Event files as TensorBoard's writers make them, from the public format, with a checksum written anew."""

import struct
from collections.abc import Iterable, Sequence

TABLE = []
for byte in range(256):
    value = byte
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    TABLE.append(value)


def crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state = TABLE[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def packed(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def simple(tag: str, value: float) -> bytes:
    return packed(1, packed(1, tag.encode()) + b"\x15" + struct.pack("<f", value))


def tensor(tag: str, dtype: int, content: bytes, plugin: str = "scalars", shape: Sequence[int] = ()) -> bytes:
    """A value as a tensor; `content` is the encoded field that holds it."""
    dimensions = b"".join(packed(2, b"\x08" + varint(size)) for size in shape)
    body = b"\x08" + varint(dtype) + packed(2, dimensions) + content
    metadata = packed(1, packed(1, plugin.encode())) if plugin else b""
    return packed(1, packed(1, tag.encode()) + packed(8, body) + (packed(9, metadata) if metadata else b""))


def event(step: int, values: Iterable[bytes] = (), wall_time: float = 1.7e9, other: bytes = b"") -> bytes:
    summary = b"".join(values)
    stepped = b"\x10" + varint(step) if step else b""
    return record(
        b"\x09" + struct.pack("<d", wall_time) + stepped + other + (packed(5, summary) if summary else b"")
    )


def version(wall_time: float = 1.7e9) -> bytes:
    return event(0, (), wall_time, packed(3, b"brain.Event:2"))


def session_start(step: int) -> bytes:
    return event(step, (), 1.7e9, packed(7, b"\x08\x01"))


def losses(steps: Iterable[int], tag: str = "train/loss", every_s: float = 1.0) -> bytes:
    return b"".join(event(step, [simple(tag, 8 / (step + 1))], 1.7e9 + every_s * step) for step in steps)
