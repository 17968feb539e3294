"""Follows runs as they happen: what is new of each, and what is known of it altogether.

`Follower.read` looks at everything once and never waits; `wait` sleeps until there may be more. A path that is not
there yet is waited for; a folder and a glob are looked through every second for logs and runs that have appeared.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gputel.analysis.live.resume import Positions
from gputel.analysis.live.runs import (
    Followed,
    FollowedCommands,
    FollowedLog,
    FollowedPipe,
    FollowedRun,
    Formats,
)
from gputel.analysis.live.sources import is_packed
from gputel.analysis.live.update import Update
from gputel.analysis.live.wakeups import Wakeups
from gputel.analysis.runs import paths

LOOK_S = 1.0
PAUSE_S = 0.025  # between two readings, so that many lines are read at once where many come
BUSY = (
    20  # readings in a row that found something: from there on the clock wakes, and nobody tells of changes
)
HEAD = 4096

__all__ = ["Followed", "Follower", "Update"]


class Follower:
    """`runs` are those that are followed, `waiting` the words that name nothing yet; `piped` is what `-` reads.

    With `positions`, what an earlier follower has shown is read again and marked as `shown`.
    """

    def __init__(
        self,
        words: Sequence[str],
        commands: Sequence[tuple[str, list[str]]] = (),
        formats: Formats = None,
        *,
        positions: Positions | None = None,
        piped: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runs: list[Followed] = []
        self.waiting: list[str] = []
        self._words, self._formats, self._now = list(words), formats, now
        self._positions = positions
        self._known: set[Path] = set()
        self.watch = Wakeups()
        self._looked = self._read_at = float("-inf")
        self._in_a_row = 0
        self._is_full = self._is_changed = False
        self._is_shown = True  # whether all that was read was shown, too
        if "-" in self._words:
            self.runs.append(FollowedPipe("-", piped, positions, formats))
        if commands:
            self.runs.append(FollowedCommands(commands, positions, formats))

    @property
    def is_over(self) -> bool:
        return bool(self.runs) and not self.waiting and all(run.is_over for run in self.runs)

    @property
    def awaited(self) -> list[str]:
        """A line for each of the words that name nothing yet."""
        return [
            f"{word}: holds no log and no run yet; one is waited for"
            if Path(word).is_dir()
            else f"{word}: is not there yet; it is waited for"
            for word in self.waiting
        ]

    def updates(self, stop: Callable[[], bool] = lambda: False) -> Iterator[list[Update]]:
        """Until everything is over or `stop` says so; an empty list at least once a second.

        Whoever asks for the next ones has shown the last.
        """
        while not stop():
            yield self.read()
            self.shown()
            if self.is_over:
                return
            self.wait()

    def read(self) -> list[Update]:
        """What is new now, of each log a few megabytes at most."""
        self._read_at = self._now()
        if self._read_at - self._looked >= LOOK_S:
            self._look()
        found = [(run, update) for run in self.runs for update in run.read()]
        self._in_a_row = self._in_a_row + 1 if found else 0
        self._is_full = any(run.is_full for run in self.runs)
        if found:
            self._is_changed, self._is_shown = True, False
        for run, update in found:
            run.state.take(update)
        return [update for _, update in found]

    def shown(self) -> None:
        """Call this when all that was read has been shown: positions behind it are saved, once a second."""
        self._is_shown = True
        if self._positions and self._is_changed and self._positions.is_due:
            self._save(self._positions)

    @property
    def notes(self) -> list[str]:
        """What a user has to know of the positions."""
        return [self._positions.trouble] if self._positions and self._positions.trouble else []

    def wait(self, timeout_s: float = LOOK_S) -> None:
        """Until there may be more, or the time is over."""
        if self._is_full:
            return
        if self._in_a_row == BUSY:
            self.watch.pause()
        elif not self._in_a_row and self.watch.paused:
            self.watch.resume()
        self.watch.descriptors(
            file for run in self.runs for stream in run.streams.values() for file in stream.source.descriptors
        )
        if self.watch.wait(PAUSE_S if self.watch.paused else timeout_s):
            time.sleep(max(self._read_at + PAUSE_S - self._now(), 0))

    def wake(self) -> None:
        """Ends a `wait` from another thread or a signal."""
        self.watch.wake()

    def close(self) -> None:
        """Saves the positions, unless something was read and not shown, and lets go of everything."""
        if self._positions:
            if self._is_shown and self._is_changed:
                self._save(self._positions)
            self._positions.close()
        for run in self.runs:
            run.close()
        self.watch.close()

    def _save(self, positions: Positions) -> None:
        positions.save({run.source: run.positions() for run in self.runs})
        self._is_changed = False

    def _look(self) -> None:
        """For runs that have appeared, and what changes without a byte."""
        self._looked = self._now()
        self.waiting = []
        for word in self._words:
            if word != "-":
                self._find(word)
        for run in self.runs:
            run.look()
        named = [Path(word) for word in self._words if word != "-"]
        places = [path if path.exists() else path.parent for path in named]
        self.watch.files([*(path for run in self.runs for path in run.paths), *places])

    def _find(self, word: str) -> None:
        path = Path(word)
        named = (
            [path] if path.exists() else [Path(found) for found in sorted(glob.glob(word, recursive=True))]
        )
        gone = [path] if not named and self._positions and word in self._positions.sources else []
        found = [place for one in named for place in paths.walk(one)]
        for place in (*found, *gone):
            if place.resolve() not in self._known and (place == path or _is_log(place)):
                self._known.add(place.resolve())
                self.runs.append(_followed(place, self._positions, self._formats))
        if not found and not gone:
            self.waiting.append(word)


def _followed(path: Path, positions: Positions | None, formats: Formats) -> Followed:
    if path.is_dir():
        return FollowedRun(path, positions, formats)
    if path.is_fifo():
        return FollowedPipe(str(path), os.open(path, os.O_RDWR | os.O_NONBLOCK), positions, formats)
    return FollowedLog(path, positions, formats)


def _is_log(path: Path) -> bool:
    """A run folder, or text; of a folder's files checkpoints and the like are nobody's logs."""
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return b"\0" not in file.read(HEAD) or is_packed(path)
    except OSError:
        return False
