"""The first bytes of a file -> the name of its kind if it is no text, such as a checkpoint beside a log.

NUL bytes alone say nothing: UTF-16 has them, and a log that was truncated while its writer went on begins with
thousands. Other control characters, which no program prints, do.
"""

from __future__ import annotations

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
LOOK = 4096  # bytes of a file that are looked at
MOST_CONTROLS = 0.02  # share of a text; random bytes have 0.08

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "zip archive or PyTorch checkpoint"),
    (b"PK\x05\x06", "zip archive or PyTorch checkpoint"),
    (b"PAR1", "Parquet"),
    (b"\x93NUMPY", "NumPy array"),
    (b"\x89HDF\r\n", "HDF5"),
    (b"ARROW1", "Arrow"),
    (b"GGUF", "GGUF model"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x89PNG\r\n", "PNG picture"),
    (b"\xff\xd8\xff", "JPEG picture"),
    (b"GIF87a", "GIF picture"),
    (b"GIF89a", "GIF picture"),
    (b"RIFF", "RIFF media"),
    (b"%PDF-", "PDF"),
    (b"\x7fELF", "ELF program"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    *((bytes([0x80, protocol]), "Python pickle") for protocol in range(2, 6)),
)
_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")  # byte order marks of a text
_PRINTED = frozenset(b"\x00\x07\x08\t\n\x0b\x0c\r\x1a\x1b")  # control characters that texts may hold
_CONTROLS = bytes(byte for byte in range(32) if byte not in _PRINTED) + b"\x7f"


def kind(head: bytes) -> str | None:
    """The kind of a file that begins with these bytes; None for a text, and for one that is compressed."""
    head = head[:LOOK]
    if head.startswith((GZIP, ZSTD, *_MARKS)):
        return None
    named = next((name for magic, name in _MAGIC if head.startswith(magic)), None)
    if named:
        return named
    if head[257:262] == b"ustar":
        return "tar archive"
    if head[8:10] == b'{"' and head[3:8] == bytes(5):
        return "safetensors"
    text = head.replace(b"\x00", b"")
    if not text:
        return None
    controls = len(text) - len(text.translate(None, _CONTROLS))
    return "binary data" if controls > MOST_CONTROLS * len(text) else None
