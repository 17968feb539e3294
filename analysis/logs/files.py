"""Files and streams -> logs: the only place in this package that opens a log.

Compressed and binary files are recognized by their first bytes, and GPU telemetry by its header, never by the name
of the file. Small files are read many at a time. What a run folder holds is opened by runs/output.py.
"""

from __future__ import annotations

import gc
import io
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gputel.analysis import progress
from gputel.analysis.logs import binary, open_files
from gputel.analysis.logs.binary import GZIP, ZSTD
from gputel.telemetry import zstandard
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from typing_extensions import Self

    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.log import Log

PIECE = 4 << 20
KEPT = 5 << 20  # bytes of a block whose release makes glibc keep twice as much
HEAD = 64 << 10
HEAD_LINES = 20  # the header of telemetry must be among them
SMALL = 512 << 10  # bytes; smaller files are read together
FRESH_S = 600  # a file that has not grown for longer is not checked for a writer
LONG_S = 10  # reading for longer is said, and again each time that it has doubled
NO_MEMBER = "Not a gzipped file"  # says gzip of what stands behind a whole file
WAIT_S = 2  # waiting for the writer of a FIFO for longer is said


def _say_nothing(_line: str) -> None:
    """Reads in silence."""


class Limits(NamedTuple):
    """How much of one file is read, unpacked, and who hears of a file that takes long, first after `long_s`."""

    max_bytes: int = 64_000_000_000
    say: Callable[[str], None] = _say_nothing
    long_s: float = LONG_S


DEFAULT = Limits()


def read_files(
    paths: Iterable[Path], formats: tuple[Format, ...] | None = None, limits: Limits = DEFAULT
) -> Iterator[Log | GputelError]:
    """Reads each file as `read_file` does, or yields its error; small files are read many at a time."""
    waiting: list[_Small] = []
    size = 0
    for path in paths:
        small = _small(path)
        if small:
            waiting.append(small)
            size += len(small.text)
            with progress.stage(path.name, len(small.text), progress.BYTES) as advance:
                advance(len(small.text))
        if not small or size >= PIECE:
            yield from _together(waiting, formats)
            waiting, size = [], 0
        if not small:
            try:
                yield read_file(path, formats, limits)
            except GputelError as error:
                yield error
    yield from _together(waiting, formats)


def read_file(path: Path, formats: tuple[Format, ...] | None = None, limits: Limits = DEFAULT) -> Log:
    """Reads a log file or a FIFO; raises GputelError if it cannot be opened."""
    try:
        latest, live = _written(path, path.stat())  # before this process has it open, too
        with (
            _opened(path, limits) as raw,
            progress.stage(
                f"reading {path.name}", os.fstat(raw.fileno()).st_size, progress.BYTES
            ) as raw.advance,
        ):
            return stream(raw, name_of(path), str(path), formats, latest, live=live, limits=limits)
    except OSError as error:
        raise GputelError(
            str(path), f"cannot be read: {error.strerror or error}", "check the path and its permissions"
        ) from None


class _CountedFile(io.FileIO):
    """Says how much of it was read, packed as it is."""

    advance: Callable[[float], None]

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self.advance(len(piece))
        return piece


def _opened(path: Path, limits: Limits) -> _CountedFile:
    """Opens a file; says that it waits where that is a FIFO that no process has opened for writing."""
    if not path.is_fifo():
        return _CountedFile(path)
    waits = threading.Timer(
        WAIT_S, limits.say, [f"{path}: is a pipe; waiting for a process to write into it"]
    )
    waits.daemon = True
    waits.start()
    try:
        return _CountedFile(path)
    finally:
        waits.cancel()


class _Small(NamedTuple):
    """A file that will be parsed together with others."""

    path: Path
    text: bytes
    latest: datetime
    live: bool


def _small(path: Path) -> _Small | None:
    """The file if it can be read together with others: small, not compressed, and no telemetry."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > SMALL:
            return None
        text = path.read_bytes()
    except OSError:
        return None
    if len(text) > SMALL or text.startswith((GZIP, ZSTD)) or _may_be_telemetry(text):
        return None
    if binary.kind(text):
        return None
    return _Small(path, text, *_written(path, facts))


def _together(files: list[_Small], formats: tuple[Format, ...] | None) -> list[Log]:
    if not files:
        return []
    from gputel.analysis.logs import frames, result
    from gputel.analysis.logs.parser import feed_together, make_parser

    with _without_collection():
        parsers = [make_parser(formats) for _ in files]
        feed_together(parsers, [file.text for file in files])
        for parser in parsers:
            parser.finish()
        together = frames.Together()
        logs = [
            result.conclude(
                parser, name_of(file.path), str(file.path), file.latest, live=file.live, together=together
            )
            for file, parser in zip(files, parsers, strict=True)
        ]
        together.make()
        return logs


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pauses garbage collection: imports and parsing leave few cycles, and searching all they keep takes long."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _keep_memory() -> None:
    """Lets the C library keep what one piece of a log needs until the next one comes.

    Pages that were given back cost a page fault each when they are touched again, a fifth of reading short lines.
    glibc keeps twice as much as the largest block that was ever freed; this one is never touched.
    """
    block = bytes(KEPT)
    del block


def _written(path: Path, facts: os.stat_result) -> tuple[datetime, bool]:
    """A time after which the file was not written, and whether a process still writes it."""
    is_file = stat.S_ISREG(facts.st_mode)
    latest = datetime.fromtimestamp(facts.st_mtime if is_file else time.time(), timezone.utc)
    return latest, time.time() - facts.st_mtime < FRESH_S and open_files.has_writer(path, facts.st_mtime)


def stream(
    raw: Any,
    name: str,
    source: str,
    formats: tuple[Format, ...] | None = None,
    latest: datetime | None = None,
    *,
    live: bool = False,
    limits: Limits = DEFAULT,
) -> Log:
    """Reads a log from anything with a `read` method, up to a limit of bytes."""
    with _Reading(source, limits) as reading, _without_collection():
        from gputel.analysis.logs import result
        from gputel.analysis.logs.parser import make_parser

        _keep_memory()
        head, rest = plain(raw)
        other = binary.kind(head)
        if other:
            return result.binary_log(other, name, source)
        telemetry = _telemetry(head, rest)
        if telemetry is not None:
            return result.telemetry_log(telemetry, name, source)
        parser, fault = make_parser(formats), None
        try:
            for piece in reading.limited(with_head(head, rest)):
                parser.feed(piece)
        except (EOFError, OSError) as error:  # a bad gzip file is an OSError
            fault = f"could be read only in part: {error}"
        parser.finish()
        return result.conclude(parser, name, source, latest, live=live, fault=fault)


class LimitError(OSError):
    """A file has more bytes than are to be read; what was read is kept."""


class _Reading:
    """Says how far reading has come while it takes long: in a thread, as one piece of a log may take minutes."""

    def __init__(self, source: str, limits: Limits) -> None:
        self._source, self._limits = source, limits
        self._count = 0  # bytes
        self._over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._say, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def limited(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The pieces, up to the limit."""
        most = self._limits.max_bytes
        for piece in pieces:
            self._count += len(piece)
            if self._count > most:
                yield piece[: most - self._count]
                raise LimitError(f"it has more than {most:,} bytes; --max-bytes sets how many are read")
            yield piece

    def _say(self) -> None:
        begun, wait = time.monotonic(), self._limits.long_s
        while not self._over.wait(wait):
            wait = time.monotonic() - begun  # half as often each time
            self._limits.say(f"{self._source}: {self._count / 1e6:,.0f} MB read in {wait:,.0f} s")


def name_of(path: Path) -> str:
    """`d16-base` for d16-base.log.gz."""
    name = path.name
    for ending in (".gz", ".zst"):
        name = name.removesuffix(ending)
    return name.rpartition(".")[0] or name


def chosen(word: str | Path | None) -> tuple[Format, ...] | None:
    if word is None:
        return None
    from gputel.analysis.logs import formats as shelf

    return shelf.with_others(shelf.find(str(word)))


def _telemetry(head: bytes, rest: Iterator[bytes]) -> Any:
    if not _may_be_telemetry(head):
        return None
    from gputel.analysis.logs import gpu_tables

    kind = gpu_tables.recognize(head[:HEAD])
    return (kind, gpu_tables.parse(head + b"".join(rest))) if kind else None


def _may_be_telemetry(head: bytes) -> bool:
    """Whether a line of the head could be the header of telemetry; spares an import if none could."""
    lowered = b"\n".join(head[:HEAD].split(b"\n", HEAD_LINES)[:HEAD_LINES]).lower()
    return any(word in lowered for word in (b"gpu", b"power", b"timestamp", b"entity", b"util"))


def unpacked(raw: Any) -> Iterator[bytes]:
    """The bytes of a log, piece by piece, decompressed if need be."""
    yield from with_head(*plain(raw))


def plain(raw: Any) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, decompressed, and the pieces that follow them."""
    start = _exactly(raw, 4)
    source: Any = _Joined(start, raw)
    size = HEAD
    if start.startswith(GZIP):
        import gzip
        import zlib

        source = _Unpacked(gzip.GzipFile(fileobj=source, mode="rb"), zlib.error)
    elif start == ZSTD:
        zstd: Any = zstandard.library()
        source = _Unpacked(zstd.ZstdFile(source), zstd.ZstdError)
    elif isinstance(raw, io.IOBase) and raw.seekable():
        raw.seek(-len(start), os.SEEK_CUR)
        source, size = raw, PIECE
    head = _exactly(source, size)
    some = getattr(source, "read1", source.read)  # read1 returns all that a truncated file has
    return head, iter(lambda: some(PIECE), b"")


def with_head(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """Joins the head and the first piece: each piece has a cost, and most logs are small."""
    try:
        head += next(rest, b"") if len(head) < PIECE else b""
    except (EOFError, OSError):
        yield head
        raise
    yield head
    del head  # frees megabytes
    yield from rest


def _exactly(source: Any, size: int) -> bytes:
    """Reads as many bytes as asked, or all there are: fewer of a compressed file that is cut short."""
    read = getattr(source, "read1", source.read)
    pieces: list[bytes] = []
    try:
        while size > 0 and (piece := read(size)):
            pieces.append(piece)
            size -= len(piece)
    except EOFError as error:
        if not pieces:
            raise OSError("the compressed file is cut short") from error
    except OSError as error:
        if not pieces or not str(error).startswith(NO_MEMBER):
            raise
    return b"".join(pieces)


class _Unpacked:
    """A compressed file whose damage is an OSError; once it failed, each later read fails alike."""

    def __init__(self, source: Any, damage: type[Exception]) -> None:
        self._read1, self._damage = source.read1, damage
        self._fault: Exception | None = None

    def read1(self, size: int) -> bytes:
        if self._fault is None:
            try:
                piece: bytes = self._read1(size)
            except (EOFError, OSError) as error:
                self._fault = error
            except self._damage as error:
                self._fault = OSError(str(error))
            else:
                return piece
        raise self._fault

    read = read1


class _Joined:
    """A stream whose first bytes were read ahead, for pipes, which cannot seek back."""

    def __init__(self, start: bytes, rest: Any) -> None:
        self._start, self._rest = start, rest

    def read(self, size: int = -1) -> bytes:
        if self._start:
            piece = self._start if size < 0 else self._start[:size]
            self._start = self._start[len(piece) :]
            return piece
        piece = self._rest.read(size)
        return bytes(piece or b"")
