"""events.jsonl: what happened during a recording, one JSON object per line, appended by any of its processes.

Marks are events that a person or a script writes, to find a moment again on the curves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from gputel.telemetry import run_folder
from gputel.telemetry.characters import parse_json
from gputel.telemetry.clock import Clock, SystemClock, iso
from gputel.telemetry.errors import GputelError
from gputel.telemetry.secrets import mask

NAME = "events.jsonl"
ALARM = "alarm"


def append(folder: Path, wall_ns: int, kind: str, text: str, **facts: object) -> None:
    """Append an event in one write, so that lines of several processes never mix. Raises OSError on a full disk."""
    line = (
        json.dumps({"time": iso(wall_ns), "kind": kind, "text": mask(text), **facts}, allow_nan=False) + "\n"
    )
    handle = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def read(folder: Path) -> Iterator[dict[str, object]]:
    """Every readable event; skips a line that a full disk or a crash cut short."""
    try:
        lines = (folder / NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            event = parse_json(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def mark(path: Path, text: str, clock: Clock | None = None) -> None:
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
        append(live[-1], (clock or SystemClock()).stamp().wall, "mark", text)
    except OSError as error:
        raise GputelError(str(live[-1] / NAME), f"cannot write: {error.strerror}") from error
