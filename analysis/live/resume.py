"""Where the last `gputel tail` of the same logs stopped: a JSON of positions, in a folder of the user's state.

A follower that starts again reads each log from its beginning, so that line numbers, attempts and alarms are right,
and shows only what stands behind its position. A position is saved after what it covers was shown: after a kill -9
the last second may be shown twice, and nothing is lost. What cannot be known: line numbers of a log that was cut in
the second before the kill; they begin too low.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gputel.analysis.live.files import FilePosition
from gputel.analysis.live.sources import Replays

VERSION = 1
NAME = "positions.json"
SAVE_S = 1.0
SHARE = 1 / 50  # of the time that goes by may be spent on saving


@dataclass(frozen=True)
class Position:
    """How far one log was shown. A file has a `place`; a command has the `replays` that recognise its lines."""

    place: FilePosition | None = None
    replays: Replays | None = None
    first_line: int = 1  # number of the first line of the file
    next_line: int = 1
    guessed: int | None = None  # where an unknown format was inferred; 0: in a file before this one
    finished: bool = False


Saved = Mapping[str, Mapping[str, Position]]  # by the source of a run, by stream


class Positions:
    """The positions of one follower. `trouble` says why they were not read, or are no longer saved."""

    def __init__(
        self, folder: Path, *, fresh: bool = False, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises OSError where another follower has the folder, or nothing can be written there."""
        self.path = folder / NAME
        self.trouble: str | None = None
        self._now, self._due, self._is_broken = now, float("-inf"), False
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise
        self._saved = {} if fresh else self._load()

    @property
    def sources(self) -> list[str]:
        return list(self._saved)

    @property
    def is_due(self) -> bool:
        """Whether it is time to save again."""
        return self._now() >= self._due

    def position(self, source: str, stream: str) -> Position | None:
        return self._saved.get(source, {}).get(stream)

    def save(self, positions: Saved) -> None:
        """Keeps those of runs that are not there now. A full disk ends the saving and not the following."""
        began = self._now()
        self._saved = {**self._saved, **positions}
        if not self._is_broken:
            try:
                self._write()
            except OSError as error:
                self._is_broken = True
                self.trouble = f"{self.path}: {error.strerror}; the next tail shows rows of this one again"
        took_s = self._now() - began
        self._due = self._now() + max(SAVE_S, took_s / SHARE)

    def close(self) -> None:
        os.close(self._lock)

    def _write(self) -> None:
        runs = {
            source: {stream: _as_json(position) for stream, position in streams.items()}
            for source, streams in self._saved.items()
        }
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps({"version": VERSION, "runs": runs}))
        draft.replace(self.path)

    def _load(self) -> Saved:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            found = json.loads(text)
            if found["version"] != VERSION:
                raise ValueError(f"version {found['version']}")
            return {
                source: {stream: _from_json(position) for stream, position in streams.items()}
                for source, streams in found["runs"].items()
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self.trouble = f"{self.path}: holds no positions that can be read; all rows are shown"
            return {}


def opened(words: Sequence[str], *, fresh: bool = False) -> Positions | None:
    """Positions of a follower of these things, wherever it is started from.

    None where another follower of the same things runs, or nothing can be written.
    """
    name = hashlib.blake2b(json.dumps(list(words)).encode(), digest_size=10).hexdigest()
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = home / "gputel" / "tail" / name
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Positions(folder, fresh=fresh)
    except OSError:
        return None


def _as_json(position: Position) -> dict[str, Any]:
    return {
        "place": asdict(position.place) if position.place else None,
        "replays": position.replays.as_json() if position.replays else None,
        "first_line": position.first_line,
        "next_line": position.next_line,
        "guessed": position.guessed,
        "finished": position.finished,
    }


def _from_json(found: Mapping[str, Any]) -> Position:
    """Raises ValueError, TypeError or KeyError for anything that `_as_json` did not write."""
    place, replays, guessed = found["place"], found["replays"], found["guessed"]
    return Position(
        None if place is None else _place(place),
        None if replays is None else Replays.from_json(replays),
        _count(found["first_line"]),
        _count(found["next_line"]),
        None if guessed is None else _count(guessed),
        found["finished"] is True,
    )


def _place(found: Mapping[str, Any]) -> FilePosition:
    device, inode, position, size = (_count(found[name]) for name in ("device", "inode", "position", "size"))
    return FilePosition(device, inode, position, size, str(found["fingerprint"]))


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
