"""Files and streams -> logs. The edge of the parser; what a run folder holds is opened by parse/run_folder.py.

Telemetry is known by its header, and nothing by its name.
"""

from __future__ import annotations

import gc
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis import writers
from gputel.analysis.pieces import GZIP, HEAD, PIECE, ZSTD, plain, with_head
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.formats import Format
    from gputel.analysis.parse.log import Log

HEAD_LINES = 20  # of telemetry, among which its header stands
SMALL = 512 << 10  # bytes of a file that is read with others
FRESH_S = 600  # nobody who writes a log is silent for longer, so an older file is not asked for its writer


def read_all(paths: Iterable[Path], formats: tuple[Format, ...] | None = None) -> Iterator[Log | GputelError]:
    """Each as `read` does it, or the error that it raised; small files are read many at a time."""
    waiting: list[_Small] = []
    size = 0
    for path in paths:
        small = _small(path)
        if small:
            waiting.append(small)
            size += len(small.text)
        if not small or size >= PIECE:
            yield from _together(waiting, formats)
            waiting, size = [], 0
        if not small:
            try:
                yield read(path, formats)
            except GputelError as error:
                yield error
    yield from _together(waiting, formats)


def read(path: Path, formats: tuple[Format, ...] | None = None) -> Log:
    """A log file or a FIFO. What cannot be opened is a GputelError."""
    try:
        with path.open("rb", buffering=0) as raw:
            latest, live = _written(path, os.fstat(raw.fileno()))
            return stream(raw, name_of(path), str(path), formats, latest, live=live)
    except OSError as error:
        raise GputelError(
            str(path), f"cannot be read: {error.strerror or error}", "name a log that can"
        ) from None


@dataclass(frozen=True)
class _Small:
    """The text of a file that will be parsed together with others, and what else is asked of it."""

    path: Path
    text: bytes
    latest: datetime
    live: bool


def _small(path: Path) -> _Small | None:
    """A file that is worth reading with others: small, plain, and no telemetry; None for whatever else."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > SMALL:
            return None
        text = path.read_bytes()
    except OSError:
        return None
    if len(text) > SMALL or text.startswith((GZIP, ZSTD)) or _may_be_telemetry(text):
        return None
    return _Small(path, text, *_written(path, facts))


def _together(files: list[_Small], formats: tuple[Format, ...] | None) -> list[Log]:
    if not files:
        return []
    from gputel.analysis.parse import engine, readable, result

    with _uncollected():
        parsers = [engine.parser(formats) for _ in files]
        engine.feed_together(parsers, [file.text for file in files])
        for parser in parsers:
            parser.finish()
        together = readable.Together()
        logs = [
            result.conclude(
                parser, name_of(file.path), str(file.path), file.latest, live=file.live, together=together
            )
            for file, parser in zip(files, parsers, strict=True)
        ]
        together.make()
        return logs


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing that parsing leaves behind is a cycle, and looking for some in all that is kept takes its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _written(path: Path, facts: os.stat_result) -> tuple[datetime, bool]:
    """A moment that the file was not written after, and whether somebody writes it still."""
    is_file = stat.S_ISREG(facts.st_mode)
    latest = datetime.fromtimestamp(facts.st_mtime if is_file else time.time(), timezone.utc)
    return latest, time.time() - facts.st_mtime < FRESH_S and writers.has_writer(path, facts.st_mtime)


def stream(
    raw: Any,
    name: str,
    source: str,
    formats: tuple[Format, ...] | None = None,
    latest: datetime | None = None,
    *,
    live: bool = False,
) -> Log:
    """Whatever can be read piece by piece."""
    from gputel.analysis.parse import engine, result

    fault = None
    head, rest = plain(raw)
    telemetry = _telemetry(head, rest)
    if telemetry is not None:
        return result.of_telemetry(telemetry, name, source)
    parser = engine.parser(formats)
    with _uncollected():
        try:
            for piece in with_head(head, rest):
                parser.feed(piece)
        except (EOFError, OSError) as error:  # a bad gzip file is an OSError
            fault = f"could be read only in part: {error}"
        parser.finish()
    return result.conclude(parser, name, source, latest, live=live, fault=fault)


def name_of(path: Path) -> str:
    """`d16-base` for d16-base.log.gz."""
    name = path.name
    for ending in (".gz", ".zst"):
        name = name.removesuffix(ending)
    return name.rpartition(".")[0] or name


def chosen(word: str | Path | None) -> tuple[Format, ...] | None:
    if word is None:
        return None
    from gputel.analysis import formats as shelf

    return (shelf.find(str(word)),)


def _telemetry(head: bytes, rest: Iterator[bytes]) -> Any:
    if not _may_be_telemetry(head):
        return None
    from gputel.analysis import telemetry_logs

    kind = telemetry_logs.recognise(head[:HEAD])
    return (kind, telemetry_logs.parse(head + b"".join(rest))) if kind else None


def _may_be_telemetry(head: bytes) -> bool:
    """Spares the import where no line of the head could be such a header."""
    lowered = b"\n".join(head[:HEAD].split(b"\n", HEAD_LINES)[:HEAD_LINES]).lower()
    return any(word in lowered for word in (b"gpu", b"power", b"timestamp", b"entity", b"util"))
