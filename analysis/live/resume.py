"""Saves where `gputel tail` stopped: a JSON file of positions in the user's state folder.

The next follower reads each log from its beginning, so that line numbers, attempts and alarms are right, and
shows only rows after its position. A position is saved after its rows were shown: a kill -9 may repeat the last
second, and loses nothing. Line numbers of a log that was truncated in the second before the kill start too low.
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
from gputel.analysis.live.replays import Replays
from gputel.telemetry.errors import reason
from gputel.telemetry.user_folders import user_folder
from gputel.telemetry.whole_files import write_whole

VERSION = 1
NAME = f"positions-{VERSION}.json"
"""Each version has a file of its own: the positions of one that runs beside this one stay."""
SAVE_S = 1.0
SHARE = 1 / 50  # share of the time that saving may take


@dataclass(frozen=True)
class Position:
    """How far one log was shown. A file has a `place`; a command has `replays`, which recognize its lines."""

    place: FilePosition | None = None
    replays: Replays | None = None
    first_line: int = 1  # number of the first line of the file
    next_line: int = 1
    guessed: int | None = None  # byte at which the format was inferred; 0: in an earlier file
    finished: bool = False


Saved = Mapping[str, Mapping[str, Position]]  # by source of a run, then by stream


class Positions:
    """The positions of one follower. `trouble` says why they could not be read, or are no longer saved."""

    def __init__(
        self, folder: Path, *, fresh: bool = False, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises OSError if another follower has locked the folder, or the folder cannot be written to."""
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
        """Whether enough time has passed since the last save."""
        return self._now() >= self._due

    def position(self, source: str, stream: str) -> Position | None:
        return self._saved.get(source, {}).get(stream)

    def save(self, positions: Saved) -> None:
        """Saves these positions beside those of runs not followed now. After a write error it saves no more."""
        began = self._now()
        self._saved = {**self._saved, **positions}
        if not self._is_broken:
            try:
                self._write()
            except OSError as error:
                self._is_broken = True
                self.trouble = f"{self.path}: {reason(error)}; the next tail will repeat rows of this one"
        took_s = self._now() - began
        self._due = self._now() + max(SAVE_S, took_s / SHARE)

    def close(self) -> None:
        os.close(self._lock)

    def _write(self) -> None:
        runs = {
            source: {stream: _as_json(position) for stream, position in streams.items()}
            for source, streams in self._saved.items()
        }
        write_whole(self.path, json.dumps({"version": VERSION, "runs": runs}).encode())

    def _load(self) -> Saved:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            saved = json.loads(text)
            if saved["version"] != VERSION:
                raise ValueError(f"version {saved['version']}")
            return {
                source: {stream: _from_json(position) for stream, position in streams.items()}
                for source, streams in saved["runs"].items()
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self.trouble = f"{self.path}: not a readable positions file; all rows are shown"
            return {}


def open_positions(words: Sequence[str], *, fresh: bool = False) -> Positions:
    """Opens the positions for these words, in any working folder.

    Raises BlockingIOError if another follower of the same words runs, another OSError if none can be saved.
    """
    name = hashlib.blake2b(json.dumps(list(words)).encode(), digest_size=10).hexdigest()
    folder = user_folder("STATE") / "tail" / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Positions(folder, fresh=fresh)


def _as_json(position: Position) -> dict[str, Any]:
    return {
        "place": asdict(position.place) if position.place else None,
        "replays": position.replays.as_json() if position.replays else None,
        "first_line": position.first_line,
        "next_line": position.next_line,
        "guessed": position.guessed,
        "finished": position.finished,
    }


def _from_json(saved: Mapping[str, Any]) -> Position:
    """Raises ValueError, TypeError or KeyError for anything that `_as_json` did not write."""
    place, replays, guessed = saved["place"], saved["replays"], saved["guessed"]
    return Position(
        None if place is None else _place(place),
        None if replays is None else Replays.from_json(replays),
        _count(saved["first_line"]),
        _count(saved["next_line"]),
        None if guessed is None else _count(guessed),
        saved["finished"] is True,
    )


def _place(saved: Mapping[str, Any]) -> FilePosition:
    device, inode, position, size = (_count(saved[name]) for name in ("device", "inode", "position", "size"))
    return FilePosition(device, inode, position, size, str(saved["fingerprint"]))


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value
