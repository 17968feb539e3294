"""Which alarms were told already, so that whoever looks again, or looks twice, is not told twice.

Those of a run folder stand in its events.jsonl, where everybody finds them; those of a plain log in a folder of the
user's own state, since nothing is written beside a log.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from pathlib import Path

from gputel.analysis.alarms.watch import Alarm
from gputel.telemetry import events, run


class Told:
    """`folder` None keeps it in mind alone: of a pipe there is nothing to come back to."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: set[tuple[object, ...]] = set()

    def is_new(self, alarm: Alarm) -> bool:
        """True once for each; it is written down before anybody is told."""
        self._read()
        key = _key(asdict(alarm))
        if key in self._known:
            return False
        self._known.add(key)
        self._write(alarm)
        return True

    def _read(self) -> None:
        """Again each time: another one may follow the same run."""
        if self._folder is not None:
            alarms = (event for event in events.read(self._folder) if event.get("kind") == events.ALARM)
            self._known.update(map(_key, alarms))

    def _write(self, alarm: Alarm) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        facts = {name: value for name, value in asdict(alarm).items() if name not in ("text", "at_s")}
        wall = 0 if alarm.at_s is None else int(alarm.at_s * 1e9)
        events.append(self._folder, wall, events.ALARM, alarm.text, **facts)


def folder_for(source: Path, state: Path | None = None) -> Path | None:
    """Of the last segment of a run, or of a log; a file that was replaced is another."""
    if run.is_run(source):
        return run.open_folder(source).segments[-1].path
    try:
        facts = source.stat()
    except OSError:
        return None
    identity = f"{source.resolve()}\0{facts.st_dev}\0{facts.st_ino}"
    return (state or _state()) / "alarms" / hashlib.sha256(identity.encode()).hexdigest()[:24]


def _state() -> Path:
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "gputel"


def _key(facts: dict[str, object]) -> tuple[object, ...]:
    return tuple(facts.get(name) for name in ("rule", "key", "state", "step"))
