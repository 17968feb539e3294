"""What can always be made again, kept under $XDG_CACHE_HOME/gputel: named parts of bytes, found by a key.

A key says all that the parts were made of, so nothing here is ever wrong, only unused: what has not been asked for
in a month goes, and the oldest when all is more than MOST. Files appear whole or not at all, and what was torn when
the power went is known by its checksums. `GPUTEL_CACHE=0` does without.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"gputel1\n"
MOST = 1 << 30  # bytes of everything
LARGEST = 256 << 20  # bytes of one entry: more is no quicker to read than to make
UNUSED_S = 30 * 86_400
_PRUNE_S = 3_600  # how often the folder is looked through, by whoever writes
_TOUCH_S = 86_400  # how exactly it is known when an entry was last asked for
_ENDING = ".parts"


@dataclass(frozen=True)
class Entry:
    """Parts that are read when they are asked for; `index` has where each begins, its size and its checksum."""

    path: Path
    index: Mapping[str, tuple[int, int, int]]

    def part(self, name: str) -> bytes | None:
        """None where it was torn, or has gone since."""
        at, size, checksum = self.index[name]
        try:
            with self.path.open("rb") as file:
                file.seek(at)
                held = file.read(size)
        except OSError:
            return None
        return held if len(held) == size and zlib.crc32(held) == checksum else None


def key(*made_of: object) -> str:
    """Of values whose repr says all about them."""
    return hashlib.sha256(repr(made_of).encode()).hexdigest()


def find(kind: str, key: str) -> Entry | None:
    path = _path(kind, key)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            start = file.read(len(MAGIC) + 12)
            head = file.read(int(start[len(MAGIC) : -4], 16)) if start.startswith(MAGIC) else b""
            if zlib.crc32(head) != int.from_bytes(start[-4:], "big"):
                return None
            if time.time() - os.fstat(file.fileno()).st_mtime > _TOUCH_S:
                os.utime(path)
        return Entry(path, {name: (at, size, crc) for name, at, size, crc in json.loads(head)})
    except (OSError, ValueError):
        return None


def holds(kind: str) -> bool:
    """Whether there is anything of this kind at all; whoever reads thousands of files asks this first."""
    home = folder()
    return home is not None and (home / kind).is_dir()


def keep(kind: str, key: str, parts: Mapping[str, bytes]) -> None:
    """A cache that cannot be written is none: whoever asks again has it made again."""
    path = _path(kind, key)
    if path is None or sum(map(len, parts.values())) > LARGEST:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(b"".join(_written(parts)))
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        _prune(path.parents[1])
    except OSError:
        return


def folder() -> Path | None:
    """None where the user does without."""
    if os.environ.get("GPUTEL_CACHE", "").lower() in ("0", "no", "off", "false"):
        return None
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(home) if home else Path.home() / ".cache") / "gputel" / "derived"
    except RuntimeError:
        return None  # a user without a home


def _path(kind: str, key: str) -> Path | None:
    home = folder()
    return home and home / kind / f"{key}{_ENDING}"


def _written(parts: Mapping[str, bytes]) -> Iterable[bytes]:
    names = list(parts)
    sizes = [len(parts[name]) for name in names]
    sums = [zlib.crc32(parts[name]) for name in names]

    def head(first: int) -> bytes:
        at = [first + sum(sizes[:place]) for place in range(len(sizes))]
        return json.dumps(list(zip(names, at, sizes, sums, strict=True))).encode()

    room = len(head(1 << 40))
    index = head(len(MAGIC) + 12 + room).ljust(room)
    yield from (MAGIC, b"%08x" % room, zlib.crc32(index).to_bytes(4, "big"), index)
    yield from parts.values()


def _prune(home: Path) -> None:
    """Once in a while: first what nobody has asked for, then the oldest."""
    stamp = home / "pruned"
    now = time.time()
    if stamp.exists() and now - stamp.stat().st_mtime < _PRUNE_S:
        return
    stamp.touch()
    found = sorted(((path.stat(), path) for path in home.glob("*/*")), key=lambda one: -one[0].st_mtime)
    held = 0
    for facts, path in found:
        held += facts.st_size
        draft = path.name.startswith(".") and now - facts.st_mtime > _PRUNE_S
        if now - facts.st_mtime > UNUSED_S or held > MOST or draft:
            path.unlink(missing_ok=True)
