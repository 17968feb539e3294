"""events.jsonl: what happened during a recording, one JSON object per line, appended by any of its processes.

Marks are events that a person or a script writes, to find a moment again on the curves.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gputel.telemetry import run_folder
from gputel.telemetry.characters import parse_json
from gputel.telemetry.clock import iso
from gputel.telemetry.errors import DamagedFile, GputelError, reason
from gputel.telemetry.own_files import UNFOLLOWED, read_own
from gputel.telemetry.secrets import mask

NAME = "events.jsonl"
ALARM, PUSH, SYNC = "alarm", "push", "sync"
LARGEST = 1 << 30
UNREADABLE = "has lines that cannot be read and are left out"


def append(folder: Path, wall_ns: int, kind: str, text: str, **facts: object) -> None:
    """Append an event in one write, so that lines of several processes never mix. Raises OSError on a full disk.

    A line that a full disk had cut short is ended first; it would take this event with it.
    """
    event = {"time": iso(wall_ns), "kind": kind, "text": mask(text), **facts}
    line = f"{json.dumps(event, allow_nan=False)}\n".encode()
    handle = os.open(folder / NAME, os.O_RDWR | os.O_APPEND | os.O_CREAT | UNFOLLOWED, 0o644)
    try:
        size = os.fstat(handle).st_size
        line = b"\n" + line if size and os.pread(handle, 1, size - 1) != b"\n" else line
        if os.write(handle, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(handle)


def note(segment: Path, kind: str, text: str, **facts: object) -> None:
    """Append an event of this moment. Raises OSError on a full disk."""
    append(segment, run_folder.now_ns(segment), kind, text, **facts)


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Every readable event; a warning counts the others, but for a last line that is still being written."""
    path = folder / NAME
    try:
        lines = read_own(path, LARGEST).splitlines(keepends=True)
    except FileNotFoundError:
        return
    except OSError as error:
        warnings.warn(DamagedFile(path, reason(error)), stacklevel=2)
        return
    events = [parse(line) for line in lines]
    yield from (event for event in events if event is not None)
    damaged = [line for line, event in zip(lines, events, strict=True) if event is None and line.strip()]
    if damaged and not damaged[-1].endswith(b"\n"):
        damaged.pop()
    if damaged:
        warnings.warn(
            DamagedFile(path, f"{len(damaged):,} of {len(lines):,} lines", UNREADABLE), stacklevel=2
        )


class NewEvents:
    """The events that have come since the last look, by whichever process of the recording."""

    def __init__(self, folder: Path) -> None:
        self._path, self._end = folder / NAME, 0

    def take(self) -> list[dict[str, Any]]:
        """A look costs one system call where nothing is new; a line without its end waits for it."""
        try:
            size = self._path.stat().st_size - self._end
            if size <= 0:
                return []
            handle = os.open(self._path, os.O_RDONLY | UNFOLLOWED)
            try:
                lines = os.pread(handle, size, self._end)
            finally:
                os.close(handle)
        except OSError:
            return []
        lines = lines[: lines.rfind(b"\n") + 1]
        self._end += len(lines)
        return [event for line in lines.splitlines() if (event := parse(line)) is not None]


def parse(line: bytes) -> dict[str, Any] | None:
    """The event in a line; None if it holds none: each has a kind."""
    try:
        event = parse_json(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("kind"), str) else None


def mark(path: Path, text: str) -> None:
    """Write a mark into the last segment of the run that is still being recorded."""
    live = [
        segment.path
        for segment in run_folder.open_folder(path).segments
        if run_folder.describe(segment.path).get("ended") is None
    ]
    if not live:
        raise GputelError(
            str(path), "this run has ended", "marks go into a run while it is recorded; name another --run"
        )
    try:
        note(live[-1], "mark", text)
    except OSError as error:
        raise GputelError(str(live[-1] / NAME), f"cannot write: {error.strerror}") from error
