"""Follows runs as they happen: yields what is new of each, and keeps the state of each.

`Follower.read` reads everything once and never blocks; `wait` sleeps until there may be more. Paths that do not
exist yet, folders and globs are searched every second for new logs and runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gputel.analysis import stores, text
from gputel.analysis.live.recordings import FollowedRun
from gputel.analysis.live.resume import Positions
from gputel.analysis.live.runs import Followed, FollowedCommands, FollowedLog, FollowedPipe, Formats
from gputel.analysis.live.sources import is_compressed
from gputel.analysis.live.stores import FollowedStore
from gputel.analysis.live.update import Update
from gputel.analysis.live.wakeups import Wakeups
from gputel.analysis.runs import paths
from gputel.telemetry.file_names import matches

LOOK_S = 1.0
PAUSE_S = 0.025  # between two reads, so that a busy log is read in large pieces
BUSY = 20  # after this many reads in a row with new data, polling replaces notifications
HEAD = 4096

__all__ = ["Followed", "Follower", "Update"]


class Follower:
    """`runs` are the followed runs, `waiting` the words that match nothing yet; `-` reads the descriptor `piped`.

    With `positions`, rows that an earlier follower has shown are read again and marked as `shown`. With `every_s`
    it reads at that interval and watches no files; the files of a recording change many times a second. With
    `viewed=False` it reads only as much of a recording's telemetry as the alarms need.
    """

    def __init__(
        self,
        words: Sequence[str],
        commands: Sequence[tuple[str, list[str]]] = (),
        formats: Formats = None,
        *,
        positions: Positions | None = None,
        piped: int = 0,
        every_s: float | None = None,
        viewed: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runs: list[Followed] = []
        self.waiting: list[str] = []
        self._words, self._formats, self._now = list(words), formats, now
        self._positions, self._every_s, self._viewed = positions, every_s, viewed
        self._followed: set[Path] = set()
        self.wakeups = Wakeups()
        self._looked = self._read_at = float("-inf")
        self._in_a_row = 0
        self._skipped: set[str] = set()
        self._is_full = self._is_changed = False
        self._is_shown = True  # whether everything read so far has been shown
        self._first = 0  # runs of the first reading that have been read
        self._first_at = now()
        self.on_bytes: Callable[[int], None] = lambda _: None
        """Gets how many bytes of each run were read."""
        if "-" in self._words:
            self.runs.append(FollowedPipe("-", piped, positions, formats))
        if commands:
            self.runs.append(FollowedCommands(commands, positions, formats))

    @property
    def is_over(self) -> bool:
        return bool(self.runs) and not self.waiting and all(run.is_over for run in self.runs)

    @property
    def is_full(self) -> bool:
        """Whether there may be more to read right now."""
        return self._is_full

    @property
    def awaited(self) -> list[str]:
        """A line for each word that matches nothing yet."""
        return [
            f"{word}: no log or run in it yet; waiting for one"
            if Path(word).is_dir()
            else f"{word}: does not exist yet; waiting for it"
            for word in self.waiting
        ]

    @property
    def first_reading(self) -> str:
        """How far the first reading of all runs has come, for a view that has nothing else to show yet."""
        if not self.runs:
            return "looking for runs"
        share = self._first / len(self.runs)
        left_s = (self._now() - self._first_at) * (1 / share - 1) if share else 0.0
        left = f", {text.duration(left_s, 0)} left" if left_s >= 1 else ""
        return f"reading runs: {self._first:,} of {len(self.runs):,}{left}"

    def updates(self, stop: Callable[[], bool] = lambda: False) -> Iterator[list[Update]]:
        """Yields what is new, at least once a second even if nothing is, until everything is over or `stop()`.

        Asking for the next updates means that the last ones have been shown.
        """
        while not stop():
            yield self.read()
            self.shown()
            if self.is_over:
                return
            self.wait()

    def read(self) -> list[Update]:
        """Reads what is new, a few megabytes of each log at most."""
        self._read_at = self._now()
        if self._read_at - self._looked >= LOOK_S:
            self.look()
        pairs = [(run, update) for run in self._counted() for update in run.read()]
        self._in_a_row = self._in_a_row + 1 if pairs else 0
        self._is_full = any(run.is_full for run in self.runs)
        if pairs:
            self._is_changed, self._is_shown = True, False
        for run, update in pairs:
            run.state.take(update)
        return [update for _, update in pairs]

    def _counted(self) -> Iterator[Followed]:
        for number, run in enumerate(self.runs):
            before = _bytes_read(run)
            yield run
            self._first = max(self._first, number + 1)
            self.on_bytes(max(_bytes_read(run) - before, 0))

    def shown(self) -> None:
        """Call this once everything read has been shown; positions are then saved, once a second at most."""
        self._is_shown = True
        if self._positions and self._is_changed and self._positions.is_due:
            self._save(self._positions)

    @property
    def notes(self) -> list[str]:
        """Trouble with saved positions, and what is not followed, for the user."""
        trouble = [self._positions.trouble] if self._positions and self._positions.trouble else []
        return [*trouble, *sorted(self._skipped)]

    def wait(self, timeout_s: float = LOOK_S) -> None:
        """Sleeps until there may be more to read, or until the timeout."""
        if self._is_full:
            return
        if self._every_s is not None:
            self.wakeups.wait(max(self._read_at + self._every_s - self._now(), 0))
            return
        if self._in_a_row == BUSY:
            self.wakeups.pause()
        elif not self._in_a_row and self.wakeups.paused:
            self.wakeups.resume()
        self.wakeups.descriptors(
            file for run in self.runs for stream in run.streams.values() for file in stream.source.descriptors
        )
        if self.wakeups.wait(PAUSE_S if self.wakeups.paused else timeout_s):
            time.sleep(max(self._read_at + PAUSE_S - self._now(), 0))

    def wake(self) -> None:
        """Ends a `wait` from another thread or a signal."""
        self.wakeups.wake()

    def close(self) -> None:
        """Closes every run; saves the positions unless something was read and not shown."""
        if self._positions:
            if self._is_shown and self._is_changed:
                self._save(self._positions)
            self._positions.close()
        for run in self.runs:
            run.close()
        self.wakeups.close()

    def _save(self, positions: Positions) -> None:
        positions.save({run.source: run.positions() for run in self.runs})
        self._is_changed = False

    def look(self) -> None:
        """Looks for new runs and for changes that add no bytes to a log."""
        self._looked = self._now()
        self.waiting = []
        for word in self._words:
            if word != "-":
                self._find(word)
        for run in self.runs:
            run.look()
        if self._every_s is None:
            self._watch()

    def _watch(self) -> None:
        named = [Path(word) for word in self._words if word != "-"]
        places = [path if path.exists() else path.parent for path in named]
        self.wakeups.files([*(path for run in self.runs for path in run.paths), *places])

    def _find(self, word: str) -> None:
        path = Path(word)
        found = matches(word) or ([path] if stores.kind(path) else [])  # as mlflow.db#RUN
        gone = [path] if not found and self._positions and word in self._positions.sources else []
        skipped: list[paths.Skipped] = []
        sources = [source for match in found for source in paths.walk(match, skipped)]
        self._skipped |= {
            f"{each.path}: skipped: {each.why}" for each in skipped if each.why == paths.FOREIGN
        }
        for source in (*sources, *gone):
            if source.resolve() not in self._followed and (source == path or _is_log(source)):
                self._followed.add(source.resolve())
                self.runs.append(self._open_run(source))
        if not sources and not gone:
            self.waiting.append(word)

    def _open_run(self, path: Path) -> Followed:
        positions, formats = self._positions, self._formats
        if formats is None and stores.kind(path):
            return FollowedStore(path, positions)
        if path.is_dir():
            return FollowedRun(path, positions, formats, viewed=self._viewed)
        if path.is_fifo():
            return FollowedPipe(str(path), os.open(path, os.O_RDWR | os.O_NONBLOCK), positions, formats)
        return FollowedLog(path, positions, formats)


def _bytes_read(run: Followed) -> int:
    return sum(stream.source.position for stream in run.streams.values())


def _is_log(path: Path) -> bool:
    """Whether a path is a run folder, a store, text or compressed; checkpoints beside them are none of these."""
    if path.is_dir() or stores.kind(path):
        return True
    try:
        with path.open("rb") as file:
            return b"\0" not in file.read(HEAD) or is_compressed(path)
    except OSError:
        return False
