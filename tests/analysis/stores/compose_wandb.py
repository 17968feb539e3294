"""`.wandb` files from the public grammar: LevelDB's log framing around protobuf records."""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence

from tests.analysis.stores.compose_events import packed, varint

BLOCK = 1 << 15


def framed(records: Iterable[bytes]) -> bytes:
    data = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    for record in records:
        rest, is_first = record, True
        while is_first or rest:
            left = BLOCK - len(data) % BLOCK
            if left < 7:
                data += bytes(left)
                continue
            part, rest = rest[: left - 7], rest[left - 7 :]
            kind = 1 if is_first and not rest else 2 if is_first else 3 if rest else 4
            data += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([kind]))), len(part), kind) + part
            is_first = False
    return bytes(data)


def item(name: str, value: object) -> bytes:
    return packed(1, packed(1, name.encode()) + packed(16, json.dumps(value).encode()))


def history(cells: Mapping[str, object], call: int) -> bytes:
    return packed(
        2, b"".join(item(name, value) for name, value in cells.items()) + packed(2, b"\x08" + varint(call))
    )


def summary(cells: Mapping[str, object]) -> bytes:
    return packed(3, b"".join(item(name, value) for name, value in cells.items()))


def metric(name: str, axis: str, *, is_pattern: bool = False) -> bytes:
    return packed(12, packed(2 if is_pattern else 1, name.encode()) + packed(4, axis.encode()))


def run(name: str, config: Mapping[str, object]) -> bytes:
    settings = b"".join(item(key, value) for key, value in config.items())
    return packed(17, packed(4, settings) + packed(8, name.encode()))


def stats(seconds: float, cells: Mapping[str, object]) -> bytes:
    """System metrics of one moment."""
    moment = b"\x08" + varint(int(seconds)) + b"\x10" + varint(round(seconds % 1 * 1e9))
    items = (
        packed(3, packed(1, name.encode()) + packed(16, json.dumps(value).encode()))
        for name, value in cells.items()
    )
    return packed(7, packed(2, moment) + b"".join(items))


def machine(gpu: str, host: str = "", commit: str = "", command: Sequence[str] = ()) -> bytes:
    arguments = b"".join(packed(5, word.encode()) for word in command[1:])
    program = b"".join(packed(6, word.encode()) for word in command[:1])
    git = packed(9, packed(2, commit.encode())) if commit else b""
    return packed(26, arguments + program + git + packed(12, host.encode()) + packed(18, gpu.encode()))


def ending(code: int) -> bytes:
    return packed(18, (b"\x08" + varint(code)) if code else b"")


def output(line: str, *, raw: bool = False) -> bytes:
    return packed(13 if raw else 4, b"\x08\x01" + packed(3, line.encode()))
