"""Reads a growing file: new bytes as they are written, through rotation, truncation, deletion and late creation.

`read` never blocks. A rotated log is renamed, or copied and truncated; either way its unread rest is found among
the files beside it, by inode or by its first bytes, and read before the new file. Two losses cannot be detected:
bytes that were written and truncated between two reads, and a truncated file that has grown past the old position
with the same beginning. A line that lost its end that way gets a newline, so that the next line does not run into
it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEAD = 1024  # bytes by which a file is recognized
PIECE = 4 << 20
REMEMBERED = 256  # finished files
_TURN = re.compile(r"[.\-_]?\d[\d.\-_T:]*")  # what rotation adds to a name: .1, -20261121


@dataclass(frozen=True)
class FilePosition:
    """How far a file was read. The fingerprint of its first `size` bytes recognizes it under another name."""

    device: int
    inode: int
    position: int
    size: int
    fingerprint: str


class FileHandle:
    """One open file and the position in it. Raises OSError for a pipe or a device, which might never answer."""

    def __init__(self, path: Path, position: int = 0) -> None:
        self.file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        facts = os.fstat(self.file)
        if not stat.S_ISREG(facts.st_mode):
            os.close(self.file)
            raise OSError(errno.EINVAL, "not a regular file", str(path))
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
        """Reads everything up to the end."""
        return b"".join(iter(lambda: self.read(PIECE), b""))

    def before(self, size: int) -> bytes:
        """The last `size` bytes before the position."""
        start = max(self.position - size, 0)
        return os.pread(self.file, self.position - start, start)

    def is_cut(self) -> bool:
        """Whether the bytes that were read are gone."""
        return os.fstat(self.file).st_size < self.position or self._begins() != self.head

    def _begins(self) -> bytes:
        return os.pread(self.file, len(self.head), 0)

    def close(self) -> None:
        os.close(self.file)


class GrowingFile:
    """A log file as a source. `turns` counts rotations and truncations.

    With a saved `place` its file is found, whatever it is called now, and read again from its beginning.
    """

    def __init__(self, path: Path, place: FilePosition | None = None) -> None:
        self.path = path
        self.turns = 0
        self.trouble: str | None = None
        self.descriptors: list[int] = []
        self.is_over = False
        self._handle: FileHandle | None = None
        self._waiting: deque[FileHandle] = deque()  # rotated files to read before the current one
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
        """Position for the next follower; None if no file was found yet."""
        handle = self._handle
        if handle is None or self.repeats:
            return self._before if self.repeats else None
        return FilePosition(
            handle.device, handle.inode, handle.position, len(handle.head), fingerprint(handle.head)
        )

    @property
    def position(self) -> int:
        """Bytes read of the current file."""
        return self._handle.position if self._handle else 0

    @property
    def written(self) -> float | None:
        """Time of the last write, in seconds since 1970."""
        return os.fstat(self._handle.file).st_mtime if self._handle else None

    @property
    def left(self) -> int:
        """Bytes not read yet."""
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

    def _open(self) -> FileHandle | None:
        try:
            self._handle = FileHandle(self.path)
            self.trouble = None
        except FileNotFoundError:
            self.trouble = "does not exist yet"
        except OSError as error:
            self.trouble = f"cannot be read: {error.strerror}"
        return self._handle

    def _turn_over(self, handle: FileHandle) -> bool:
        """Switches to the next file, if there is one; the current one has been read to its end."""
        if not self._waiting:
            try:
                facts = self.path.stat()
            except OSError:
                return False  # deleted: its writer may still append to it
            if (facts.st_dev, facts.st_ino) == (handle.device, handle.inode) or not facts.st_size:
                return False
            if self._is_written_anew(handle):
                return True
            self._waiting.extend(self._between(os.fstat(handle.file).st_mtime_ns, handle))
            try:
                self._waiting.append(FileHandle(self.path))
            except OSError:
                return bool(self._waiting)
            return True  # the old file may have grown before it was rotated: read it once more
        self._remember(handle)
        handle.close()
        self._handle = self._waiting.popleft()
        self.turns += 1
        self.repeats = 0
        return True

    def _is_written_anew(self, handle: FileHandle) -> bool:
        """Whether a longer copy (rsync) has replaced the file; if so, reading goes on in the copy."""
        copy = self._same_file(self.path, handle.head, handle.position)
        if copy is None:
            return False
        if not handle.position or copy.before(HEAD) != handle.before(HEAD):
            copy.close()
            return False
        handle.close()
        self._handle = copy
        return True

    def _cut(self, handle: FileHandle) -> bytes:
        """Starts again at 0, and returns what logrotate's copytruncate saved of the unread rest."""
        self.turns += 1
        self.repeats = 0
        rest = self._copied(handle)
        torn = rest[-1:] != b"\n" if rest else self._torn
        self._remember(handle)
        handle.position, handle.head, self._torn = 0, b"", False
        return rest + b"\n" if torn else rest

    def _remember(self, handle: FileHandle) -> None:
        if handle.head:
            self._done.append((handle.inode, handle.head))

    def _copied(self, handle: FileHandle) -> bytes:
        """Reads the unread rest from a copy beside the file; b"" if there is no copy."""
        if not handle.head:
            return b""
        for path in self._beside():
            copy = self._same_file(path, handle.head, handle.position)
            if copy and copy.inode != handle.inode:
                rest = copy.rest()
                self._remember(copy)
                copy.close()
                return rest
        return b""

    def _return_to(self, place: FilePosition) -> None:
        """Opens the file that an earlier follower read, under whatever name; no file if it is gone."""
        handle = _recognized(self.path, place)
        if handle is None or handle.inode != place.inode:
            beside = sorted(self._beside(), key=lambda path: _inode(path) != place.inode)
            candidates = (_recognized(path, place) for path in beside)
            rotated = next(
                (old for old in candidates if old and (place.size or old.inode == place.inode)), None
            )
            if rotated and handle:
                handle.close()
            handle = rotated or handle
        if handle:
            self.repeats = place.position
        else:
            self.turns += 1
        self._handle = handle or self._cut_since(place)

    def _cut_since(self, place: FilePosition) -> FileHandle | None:
        """Opens a file that was truncated and then rotated; all of its content is new."""
        with contextlib.suppress(OSError):
            return next((FileHandle(path) for path in self._beside() if _inode(path) == place.inode), None)
        return None

    def _between(self, since_ns: int, old: FileHandle) -> Iterator[FileHandle]:
        """Files that had the name since then but were rotated before they were seen, oldest first."""
        unseen = []
        for path in self._beside():
            try:
                handle, facts = FileHandle(path), path.stat()
            except OSError:
                continue
            start = os.pread(handle.file, HEAD, 0)
            seen = [old.inode, *(inode for inode, head in self._done if start.startswith(head))]
            if start and facts.st_mtime_ns >= since_ns and handle.inode not in seen:
                unseen.append((facts.st_mtime_ns, handle))
            else:
                handle.close()
        return (handle for _, handle in sorted(unseen, key=lambda pair: pair[0]))

    def _beside(self) -> list[Path]:
        """Files whose names a rotation may have made from this one's."""
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

    def _same_file(self, path: Path, head: bytes, position: int) -> FileHandle | None:
        """Opens a file at `position` if it begins with `head` and is at least that long."""
        try:
            handle = FileHandle(path, position)
        except OSError:
            return None
        if handle.head == head and not handle.is_cut():
            return handle
        handle.close()
        return None


def fingerprint(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _recognized(path: Path, place: FilePosition) -> FileHandle | None:
    """Opens a file at its beginning if its fingerprint is that of `place` and it is at least as long."""
    try:
        handle = FileHandle(path)
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


def notifies(name: str | None) -> bool:
    """Whether the kernel reports every change. On a network filesystem it reports only this machine's changes."""
    return name is None or not REMOTE.fullmatch(name)


def filesystem_note(path: Path, name: str | None) -> str | None:
    """Explains why changes on this filesystem may be seen late; None if they are seen at once."""
    if name and REMOTE.fullmatch(name):
        return f"{path} is on {name}: read every second, since changes by other machines are not notified"
    if name in LAYERED:
        return f"{path} is on {name}: writes to a lower layer are seen within a second"
    return None
