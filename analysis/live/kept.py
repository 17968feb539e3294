"""What a follower remembers from one time to the next, so that a kill -9 loses no row and repeats none.

A folder of its own under $XDG_STATE_HOME/gputel/tail holds a checkpoint (everything that is known, pickled) and a
journal of what was read since. What is read goes to the journal before anything of it is shown, and is marked when
it was; so whoever comes next reads the journal again, in the same pieces, and shows only what bears no mark. Where
output goes to a file, its size tells how much of that was written; into a pipe it is shown once more.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import pickle
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputel import __version__
from gputel.analysis import formats
from gputel.analysis.formats import Format
from gputel.analysis.parse.infer import Inferred
from gputel.analysis.parse.patterns import Pattern

FULL, MANY = 16 << 20, 512  # bytes and pieces of the journal after which a checkpoint is made
MARK = b"said"
_FRAME = struct.Struct("<QI")
_TRUSTED = ("gputel.", "numpy", "collections", "datetime", "re", "time", "builtins", "_codecs", "functools")
_UNTRUSTED = frozenset({"eval", "exec", "open", "__import__", "compile", "input", "getattr", "setattr"})


@dataclass(frozen=True)
class Piece:
    """Bytes of one stream that were read at once, where that left its source, and how they were taken."""

    run: str
    stream: str
    data: bytes
    place: Any
    latest: float | None
    live: bool
    guessed: bool
    finished: bool


class Kept:
    """The memory of one follower: `recalled` is the last checkpoint, `pieces` what was read after it."""

    def __init__(self, folder: Path, known: Sequence[Format], output: int = 1) -> None:
        self._folder, self._output = folder, output
        self._formats = tuple(known)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._number = max((int(path.suffix[1:]) for path in folder.glob("checkpoint.*[0-9]")), default=0)
        self.recalled: dict[str, Any] = {}
        self.batches: list[list[Piece]] = []
        self.is_broken = False  # whether nothing can be written any more
        self.already = 0  # bytes of the last batch that were written to where output goes now
        self._recall()
        self._journal = os.open(self._path("journal"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._journal).st_size
        self._count = 0

    @property
    def is_full(self) -> bool:
        return self._size >= FULL or self._count >= MANY

    def note(self, pieces: Sequence[Piece]) -> None:
        """What was read, and where output stood, before anything of it is shown."""
        self._count += len(pieces)
        self._append(pickle.dumps((list(pieces), _file(self._output))))

    def said(self) -> None:
        self._append(MARK)

    def checkpoint(self, known: dict[str, Any]) -> None:
        """Everything that is known now, after all of it was shown; the journal begins again."""
        before = self._number
        draft = self._folder / "draft"
        try:
            draft.write_bytes(_Pickler.whole((__version__, known), self._formats))
        except OSError:
            self.is_broken = True
            return
        self._number += 1
        draft.replace(self._path("checkpoint"))
        os.close(self._journal)
        self._journal = os.open(self._path("journal"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._size = self._count = 0
        for name in ("checkpoint", "journal"):
            (self._folder / f"{name}.{before}").unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._journal)
        os.close(self._lock)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.{self._number}"

    def _append(self, payload: bytes) -> None:
        """A disk that takes no more ends the remembering, and not the following."""
        if self.is_broken:
            return
        try:
            self._size += os.writev(self._journal, [_frame(payload), payload])
        except OSError:
            self.is_broken = True

    def _recall(self) -> None:
        """What cannot be read, as that of another version, is forgotten: everything is read again."""
        try:
            version, known = _Unpickler.whole(self._path("checkpoint").read_bytes(), self._formats)
            journal = self._path("journal").read_bytes()
        except FileNotFoundError:
            version, known, journal = __version__, {}, b""
            if self._number == 0 and self._path("journal").exists():
                journal = self._path("journal").read_bytes()
        except (
            pickle.UnpicklingError,
            AttributeError,
            ImportError,
            EOFError,
            TypeError,
            ValueError,
            KeyError,
        ):
            version, known, journal = "", {}, b""
        if version != __version__:
            self.forget()
            return
        self.recalled = known
        self._read_journal(journal)

    def forget(self) -> None:
        for path in (*self._folder.glob("checkpoint.*"), *self._folder.glob("journal.*")):
            path.unlink(missing_ok=True)
        self._number, self.recalled, self.batches, self.already = 0, {}, [], 0

    def _read_journal(self, data: bytes) -> None:
        output, said, whole = None, True, 0
        for payload, end in _frames(data):
            whole = end
            if payload == MARK:
                said = True
            else:
                pieces, output = _Unpickler.whole(payload, self._formats)
                self.batches.append(pieces)
                said = False
        if whole < len(data):  # torn by a kill
            os.truncate(self._path("journal"), whole)
        if said:
            self.batches.append([])  # nothing is left to be shown
        elif output and (now := _file(self._output)) and now[:2] == output[:2]:
            self.already = max(now[2] - output[2], 0)


def folder(words: Sequence[str]) -> Path:
    """The one for a follower of these things, wherever it is started from."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    place = (
        home
        / "gputel"
        / "tail"
        / hashlib.blake2b(json.dumps(list(words)).encode(), digest_size=10).hexdigest()
    )
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return place


def remembered(words: Sequence[str], known: Sequence[Format] | None, *, fresh: bool = False) -> Kept | None:
    """None where another follower of the same things runs, or nothing can be written: then nothing is kept."""
    try:
        kept = Kept(folder(words), known or formats.shipped())
    except OSError:
        return None
    if fresh:
        kept.forget()
    return kept


def _frame(payload: bytes) -> bytes:
    """Length and checksum of what follows: of its beginning, since a kill tears nothing but the end."""
    return _FRAME.pack(len(payload), zlib.crc32(payload[:4096]))


def _frames(data: bytes) -> Iterator[tuple[bytes, int]]:
    at = 0
    while at + _FRAME.size <= len(data):
        size, crc = _FRAME.unpack_from(data, at)
        payload = data[at + _FRAME.size : at + _FRAME.size + size]
        if len(payload) < size or _frame(payload) != _FRAME.pack(size, crc):
            return
        at += _FRAME.size + size
        yield payload, at


def _file(descriptor: int) -> tuple[int, int, int] | None:
    """Which file this is, and how long; None for a pipe or a terminal."""
    with contextlib.suppress(OSError):
        facts = os.fstat(descriptor)
        if facts.st_mode & 0o170000 == 0o100000:
            return facts.st_dev, facts.st_ino, facts.st_size
    return None


class _Pickler(pickle.Pickler):
    """Formats and their patterns are not copied: they are named, and found again in their files."""

    def __init__(self, file: io.BytesIO, known: Sequence[Format]) -> None:
        super().__init__(file, protocol=5)
        self._known = known
        self._inferred: dict[int, tuple[str, str]] = {}

    @classmethod
    def whole(cls, known: Any, shelf: Sequence[Format]) -> bytes:
        file = io.BytesIO()
        cls(file, shelf).dump(known)
        return file.getvalue()

    def persistent_id(self, one: Any) -> Any:
        if isinstance(one, Pattern):
            return "pattern", one.name, self._inferred.get(id(one))
        if isinstance(one, Inferred):
            for pattern in one.format.patterns:
                self._inferred[id(pattern)] = (one.text, one.format.title)
            return "inferred", one.text, one.format.title, one.metrics, one.step
        if isinstance(one, Format):
            return "format", one.name
        return None


class _Unpickler(pickle.Unpickler):
    """Makes nothing but what such a file can hold."""

    def __init__(self, data: bytes, known: Sequence[Format]) -> None:
        super().__init__(io.BytesIO(data))
        self._known = known
        self._loaded: dict[str, Format] = {}

    @classmethod
    def whole(cls, data: bytes, shelf: Sequence[Format]) -> Any:
        return cls(data, shelf).load()

    def find_class(self, module: str, name: str) -> Any:
        if not module.startswith(_TRUSTED) or name in _UNTRUSTED:
            raise pickle.UnpicklingError(f"{module}.{name} has no place here")
        return super().find_class(module, name)

    def persistent_load(self, key: Any) -> Any:
        match key:
            case ("pattern", name, None):
                return next(p for known in self._known for p in known.patterns if p.name == name)
            case ("pattern", name, (text, title)):
                return next(p for p in self._inferred(text, title).patterns if p.name == name)
            case ("inferred", text, title, metrics, step):
                return Inferred(self._inferred(text, title), text, metrics, step)
            case ("format", name):
                return next(known for known in self._known if known.name == name)
        raise pickle.UnpicklingError(f"{key!r} is unknown")

    def _inferred(self, text: str, title: str) -> Format:
        if text not in self._loaded:
            self._loaded[text] = formats.load(text, "inferred", title)
        return self._loaded[text]
