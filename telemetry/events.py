"""events.jsonl: what happened during a recording, one JSON object a line, appended by any of its processes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from gputel.telemetry.clock import iso

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
