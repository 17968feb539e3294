"""A file that somebody else writes -> its bytes as they come: also where it is rotated, cut, deleted or made later.

`read` never waits. Whoever rotates a log renames it or copies and cuts it; either way what was left unread is found
again by inode, or by its first bytes, among the files beside it, and read before the new one. What cannot be known:
bytes that were written and cut away between two reads, and a file that was cut and has grown again, with the same
beginning, beyond where it was read to. A line that lost its end that way is ended, so that no other is glued to it.

What the filesystem of a path means for following it: changes are told, or looked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEAD = 1024  # bytes by which a file is known again
PIECE = 4 << 20
REMEMBERED = 256  # files that were read to their end
_TURN = re.compile(r"[.\-_]?\d[\d.\-_T:]*")  # what rotation adds to a name: .1, -20261121


@dataclass(frozen=True)
class FilePosition:
    """How far a file was read, and how to know it again: by the fingerprint of its first `size` bytes."""

    device: int
    inode: int
    position: int
    size: int
    fingerprint: str


class _Handle:
    """One open file, and how far it was read."""

    def __init__(self, path: Path, position: int = 0) -> None:
        self.file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        facts = os.fstat(self.file)
        self.device, self.inode = facts.st_dev, facts.st_ino
        self.position = position
        self.head = os.pread(self.file, min(HEAD, position), 0)

    def read(self, most: int) -> bytes:
        data = os.pread(self.file, most, self.position)
        if data and len(self.head) < HEAD:
            self.head += data[: HEAD - len(self.head)]
        self.position += len(data)
        return data

    def rest(self) -> bytes:
        """All that is left of it."""
        return b"".join(iter(lambda: self.read(PIECE), b""))

    def before(self, size: int) -> bytes:
        """What was read last."""
        start = max(self.position - size, 0)
        return os.pread(self.file, self.position - start, start)

    def is_cut(self) -> bool:
        """Whether what was read is not there any more."""
        return os.fstat(self.file).st_size < self.position or self._begins() != self.head

    def _begins(self) -> bytes:
        return os.pread(self.file, len(self.head), 0)

    def close(self) -> None:
        os.close(self.file)


class GrowingFile:
    """`read` gives what is new, at most so much of it. `turns` counts rotations and cuts.

    With a `place`, the file that was read up to there is found and read again from its beginning; `repeats` counts
    the bytes ahead that were read before, and `repeated` tells whether the last read gave such bytes.
    """

    def __init__(self, path: Path, place: FilePosition | None = None) -> None:
        self.path = path
        self.turns = 0
        self.trouble: str | None = None
        self.descriptors: list[int] = []
        self.is_over = False
        self._handle: _Handle | None = None
        self._waiting: deque[_Handle] = deque()  # files to be read before the one that bears the name
        self._done: deque[tuple[int, bytes]] = deque(maxlen=REMEMBERED)
        self._torn = False
        self.repeats, self.repeated = 0, False
        self._before = place
        if place:
            self._return_to(place)
        else:
            self._open()

    @property
    def place(self) -> FilePosition | None:
        """Where another one may go on; None where no file was found yet."""
        handle = self._handle
        if handle is None or self.repeats:
            return self._before if self.repeats else None
        return FilePosition(
            handle.device, handle.inode, handle.position, len(handle.head), fingerprint(handle.head)
        )

    @property
    def position(self) -> int:
        """Bytes of the present file that were read."""
        return self._handle.position if self._handle else 0

    @property
    def written(self) -> float | None:
        """When it was last written to, in seconds since 1970."""
        return os.fstat(self._handle.file).st_mtime if self._handle else None

    @property
    def left(self) -> int:
        """Bytes that could be read now."""
        handle = self._handle
        return max(os.fstat(handle.file).st_size - handle.position, 0) if handle else 0

    def read(self, most: int = PIECE) -> bytes:
        self.repeated = False
        handle = self._handle or self._open()
        if handle is None:
            return b""
        if handle.is_cut():
            return self._cut(handle) or self.read(most)
        data = handle.read(min(most, self.repeats or most))
        if data:
            self._torn = not data.endswith(b"\n")
            self.repeated = self.repeats > 0
            self.repeats = max(self.repeats - len(data), 0)
            return data
        return self.read(most) if self._turn_over(handle) else b""

    def close(self) -> None:
        for handle in (*self._waiting, *([self._handle] if self._handle else [])):
            handle.close()
        self._handle = None
        self._waiting.clear()

    def _open(self) -> _Handle | None:
        try:
            self._handle = _Handle(self.path)
            self.trouble = None
        except FileNotFoundError:
            self.trouble = "does not exist yet"
        except OSError as error:
            self.trouble = f"cannot be read: {error.strerror}"
        return self._handle

    def _turn_over(self, handle: _Handle) -> bool:
        """Goes on to the next file, if there is one and this one has nothing more."""
        if not self._waiting:
            try:
                facts = self.path.stat()
            except OSError:
                return False  # deleted: whoever has it open may still write to it
            if (facts.st_dev, facts.st_ino) == (handle.device, handle.inode) or not facts.st_size:
                return False
            if self._is_written_anew(handle):
                return True
            self._waiting.extend(self._between(os.fstat(handle.file).st_mtime_ns, handle))
            try:
                self._waiting.append(_Handle(self.path))
            except OSError:
                return bool(self._waiting)
            return True  # and once more to the end of the old one, now that it is over
        self._remember(handle)
        handle.close()
        self._handle = self._waiting.popleft()
        self.turns += 1
        self.repeats = 0
        return True

    def _is_written_anew(self, handle: _Handle) -> bool:
        """Whether the name is now that of a longer copy (rsync), which is read on from the same place."""
        copy = self._known(self.path, handle.head, handle.position)
        if copy is None:
            return False
        if not handle.position or copy.before(HEAD) != handle.before(HEAD):
            copy.close()
            return False
        handle.close()
        self._handle = copy
        return True

    def _cut(self, handle: _Handle) -> bytes:
        """Begins again; the rest of what was cut away may be in a copy (logrotate's copytruncate)."""
        self.turns += 1
        self.repeats = 0
        rest = self._copied(handle)
        torn = rest[-1:] != b"\n" if rest else self._torn
        self._remember(handle)
        handle.position, handle.head, self._torn = 0, b"", False
        return rest + b"\n" if torn else rest

    def _remember(self, handle: _Handle) -> None:
        if handle.head:
            self._done.append((handle.inode, handle.head))

    def _copied(self, handle: _Handle) -> bytes:
        if not handle.head:
            return b""
        for path in self._beside():
            copy = self._known(path, handle.head, handle.position)
            if copy and copy.inode != handle.inode:
                rest = copy.rest()
                self._remember(copy)
                copy.close()
                return rest
        return b""

    def _return_to(self, place: FilePosition) -> None:
        """Opens the file that an earlier follower read, whatever it is called now; none where it is gone."""
        found = _recognised(self.path, place)
        if found is None or found.inode != place.inode:
            beside = sorted(self._beside(), key=lambda path: _inode(path) != place.inode)
            known = (_recognised(path, place) for path in beside)
            rotated = next((old for old in known if old and (place.size or old.inode == place.inode)), None)
            if rotated and found:
                found.close()
            found = rotated or found
        if found:
            self.repeats = place.position
        else:
            self.turns += 1
        self._handle = found or self._cut_since(place)

    def _cut_since(self, place: FilePosition) -> _Handle | None:
        """The file that was cut and then rotated: all that is in it came later."""
        with contextlib.suppress(OSError):
            return next((_Handle(path) for path in self._beside() if _inode(path) == place.inode), None)
        return None

    def _between(self, since_ns: int, old: _Handle) -> Iterator[_Handle]:
        """Files that bore the name since then and were rotated away before they were seen, oldest first."""
        found = []
        for path in self._beside():
            try:
                handle, facts = _Handle(path), path.stat()
            except OSError:
                continue
            start = os.pread(handle.file, HEAD, 0)
            known = [old.inode, *(inode for inode, head in self._done if start.startswith(head))]
            if start and facts.st_mtime_ns >= since_ns and handle.inode not in known:
                found.append((facts.st_mtime_ns, handle))
            else:
                handle.close()
        return (handle for _, handle in sorted(found, key=lambda one: one[0]))

    def _beside(self) -> list[Path]:
        """Files that a rotation may have made of this one."""
        stem, suffix = self.path.stem, self.path.suffix
        try:
            names = [entry.name for entry in os.scandir(self.path.parent) if entry.is_file()]
        except OSError:
            return []
        turned = [
            name
            for name in names
            if (name.startswith(self.path.name) and _TURN.fullmatch(name[len(self.path.name) :]))
            or (
                name.startswith(stem)
                and name.endswith(suffix)
                and _TURN.fullmatch(name[len(stem) : len(name) - len(suffix)])
            )
        ]
        return [self.path.with_name(name) for name in turned]

    def _known(self, path: Path, head: bytes, position: int) -> _Handle | None:
        """The file, if it begins as ours did and is at least as long."""
        try:
            handle = _Handle(path, position)
        except OSError:
            return None
        if handle.head == head and not handle.is_cut():
            return handle
        handle.close()
        return None


def fingerprint(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _recognised(path: Path, place: FilePosition) -> _Handle | None:
    """The file at its beginning, if it begins as it did and is at least as long."""
    try:
        handle = _Handle(path)
    except OSError:
        return None
    head = os.pread(handle.file, place.size, 0)
    if fingerprint(head) == place.fingerprint and os.fstat(handle.file).st_size >= place.position:
        return handle
    handle.close()
    return None


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


REMOTE = re.compile(
    r"nfs\d*|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs\w*|glusterfs|orangefs|panfs|weka\w*|virtiofs"
    r"|fuse\.(?:sshfs|s3fs|gcsfuse|juicefs|glusterfs|rclone|goofys|mount-s3|ceph.*|seaweedfs|blobfuse.*)"
)
LAYERED = ("overlay", "aufs", "fuse.fuse-overlayfs")


def is_told(name: str | None) -> bool:
    """Whether the kernel tells of every change there. Of a shared folder it tells only of this machine's own."""
    return name is None or not REMOTE.fullmatch(name)


def said(path: Path, name: str | None) -> str | None:
    """What a user has to know of it."""
    if name and REMOTE.fullmatch(name):
        return f"{path} is on {name}: looked at every second, since changes by other machines are not told"
    if name in LAYERED:
        return f"{path} is on {name}: what is written to a layer below is seen within a second"
    return None
