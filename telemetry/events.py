"""events.jsonl: what happened during a recording, one JSON object a line, appended by any of its processes.

Marks: what a person, or a script beside the training, wants to find again on the curves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from gputel.telemetry import run_folder
from gputel.telemetry.clock import Clock, SystemClock, iso
from gputel.telemetry.errors import GputelError
from gputel.telemetry.identity import mask

NAME = "events.jsonl"
ALARM = "alarm"


def append(folder: Path, wall_ns: int, kind: str, text: str, **facts: object) -> None:
    """One write in append mode, so that lines of several processes never mix. Raises OSError on a full disk."""
    line = json.dumps({"time": iso(wall_ns), "kind": kind, "text": text, **facts}, allow_nan=False) + "\n"
    handle = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def read(folder: Path) -> Iterator[dict[str, object]]:
    """Every event that can be read; a line that a full disk or a crash cut short is passed over."""
    try:
        lines = (folder / NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def write(path: Path, text: str, clock: Clock | None = None) -> None:
    """Into the last segment that has no end, of the run at `path`."""
    live = [
        s for s in run_folder.open_folder(path).segments if run_folder.describe(s.path).get("ended") is None
    ]
    if not live:
        raise GputelError(
            str(path), "this run has ended", "marks go into a run while it is recorded; name another --run"
        )
    try:
        append(live[-1].path, (clock or SystemClock()).stamp().wall, "mark", mask(text))
    except OSError as error:
        raise GputelError(str(live[-1].path / NAME), f"cannot write: {error.strerror}") from error
