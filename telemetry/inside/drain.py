"""Moves what a command says by `gputel.log`, and its recorded steps, from memory to `inside/` of its run folder.

A file there is a copy of the one in memory, byte by byte, so that its size says where to go on: a process that was
killed repeats and misses nothing. What is copied is given back to the memory. The recorder starts this process
when a first file appears; it ends with the command, or, where the recorder was killed, after it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
from collections.abc import Callable, Sequence
from pathlib import Path

from gputel.telemetry import events, own_process
from gputel.telemetry.characters import parse_json
from gputel.telemetry.inside import step_records, unseen
from gputel.telemetry.inside.environment import ROWS, WRITTEN, files, hold
from gputel.telemetry.own_files import UNFOLLOWED, is_foreign
from gputel.telemetry.run_folder import locked

NAME = "inside"
PAUSE_S = 1.0
PIECE = 8 << 20
PAGE = 4096
ATTEMPTS = 5
HOLE = {ROWS: b"\0", step_records.ENDING: bytes(8)}
"""How what was given back begins; no line and no record does."""
PUNCH_HOLE, KEEP_SIZE = 2, 1


def is_due(folder: Path) -> bool:
    """Whether a process of the command has written something."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return any(entry.name.endswith(WRITTEN) for entry in entries)
    return False


def order(segment: Path, folder: Path) -> Callable[[int], Sequence[str]]:
    """Returns a function from the command's process id to the arguments that start the process."""
    words = (str(segment.resolve()), str(folder), str(os.getpid()))
    return lambda command: own_process.argv(__name__, *words, str(command))


def drain(segment: Path, folder: Path) -> None:
    """Copies everything that is new. Raises OSError where the run folder takes nothing; nothing is lost then."""
    for source in sorted(path for path in folder.iterdir() if path.suffix in WRITTEN):
        (segment / NAME).mkdir(exist_ok=True)
        with locked(segment / NAME / ".lock"):
            while new := _copy(source, segment / NAME / source.name):
                if source.suffix == ROWS:
                    _write_marks(segment, new)


def step_files(segment: Path) -> list[Path]:
    """The copies of recorded steps, a file a process."""
    return files(segment / NAME, step_records.ENDING)


def rows(path: Path, memory: Path | None = None) -> tuple[list[dict[str, object]], int]:
    """The rows of a copy, and how many lines could not be read.

    `memory` is the folder from which it is copied: what it has beyond is read there.
    """
    found, wrong = [], 0
    for line in content(path, memory).splitlines():
        try:
            row = parse_json(line)
        except ValueError:
            row = None
        if isinstance(row, dict):
            found.append(row)
        else:
            wrong += bool(line)
    return found, wrong


def content(path: Path, memory: Path | None = None, begin: int = 0, most: int = -1) -> bytes:
    """Reads the copy from a byte on, then what follows in memory; anew where that was given back in between."""
    for _ in range(ATTEMPTS):
        copied = b"" if is_foreign(path) or not path.exists() else _from(path, begin, most)
        if len(copied) == most:
            return copied
        done, more = begin + len(copied), b""
        with contextlib.suppress(OSError):
            if memory is not None:
                more = _from(memory / path.name, done, most - len(copied) if most >= 0 else -1)
        if not more.startswith(HOLE[path.suffix]):
            return copied + _whole(path, done, more)
    return copied


def size(path: Path, memory: Path | None = None) -> int:
    """How long the file is by now, copied or not."""
    sizes = [0]
    for each in (path, *([memory / path.name] if memory is not None else [])):
        with contextlib.suppress(OSError):
            sizes.append(each.stat().st_size)
    return max(sizes)


def _from(path: Path, begin: int, most: int) -> bytes:
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(most)


def _whole(path: Path, begin: int, piece: bytes) -> bytes:
    """The whole lines of a piece that begins there, or its whole records."""
    if path.suffix == ROWS:
        return piece[: piece.rfind(b"\n") + 1]
    end = (begin + len(piece)) // step_records.SIZE * step_records.SIZE
    return piece[: max(0, end - begin)]


def _copy(source: Path, target: Path) -> bytes:
    """Appends the next whole lines or records to the copy; returns them."""
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | UNFOLLOWED, 0o644)
    try:
        done = os.fstat(handle).st_size
        with source.open("r+b") as file:
            file.seek(done)
            piece = _whole(source, done, file.read(PIECE))
            new = memoryview(piece)
            while new:
                written = os.write(handle, new)
                new, done = new[written:], done + written
            _give_back(file.fileno(), done)
        return piece
    finally:
        os.close(handle)


def _give_back(handle: int, done: int) -> None:
    """Frees the memory of what was copied; the file keeps its size."""
    length = done // PAGE * PAGE
    if length:
        fallocate = ctypes.CDLL(None).fallocate
        fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        fallocate(handle, PUNCH_HOLE | KEEP_SIZE, 0, length)


def _write_marks(segment: Path, lines: bytes) -> None:
    """A mark of the command is an event like those of `gputel mark`."""
    for line in lines.splitlines():
        if b'"mark"' not in line:
            continue
        with contextlib.suppress(ValueError, OverflowError):  # of a moment that no calendar has
            row = parse_json(line)
            if isinstance(row, dict) and row.get("kind") == "mark" and isinstance(row.get("ns"), int):
                events.append(segment, row["ns"], "mark", str(row.get("text")))


def main(segment: str, folder: str, recorder: str, command: str) -> None:
    """Copies once a second. After the command the recorder copies the rest; if it is gone, this process does."""
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError):
        hold(Path(folder))  # to the end, which may come after the recorder's
    process = _open(int(command))
    has_ended, failure = False, ""
    sight = unseen.StepSight(Path(segment), Path(folder))
    while not has_ended:
        has_ended = process is None or bool(select.select([process], [], [], PAUSE_S)[0])
        if has_ended and _open(int(recorder)) is not None:
            return
        try:
            drain(Path(segment), Path(folder))
            sight.look(step_files(Path(segment)))
        except OSError as error:  # a full disk: memory keeps it, and the next turn tries again
            if not failure and Path(folder).is_dir():
                failure = f"gputel.log: the run folder takes nothing: {error.strerror}; memory keeps it"
                with contextlib.suppress(OSError):
                    events.note(Path(segment), unseen.KIND, failure)


def _open(process: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.pidfd_open(process) if process else None
    return None
