"""Kinds of followed runs: a log, a pipe, commands as the ranks of one run; a run folder is in `recordings.py`.

A `Stream` turns the bytes of one log into increments. A `WriterCheck` says whether a process still has a log
open, so that a silent run can be told from one that is over. It cannot see writers on another machine, in another
container or of another user, nor one that opens the log for each line; then it answers None.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from gputel.analysis.live import files
from gputel.analysis.live.commands import FollowedCommand
from gputel.analysis.live.files import FilePosition, GrowingFile
from gputel.analysis.live.resume import Position, Positions
from gputel.analysis.live.sources import CompressedFile, LiveSource, PipeSource, is_compressed
from gputel.analysis.live.state import RunState
from gputel.analysis.live.update import Update
from gputel.analysis.logs import open_files
from gputel.analysis.logs.files import name_of
from gputel.analysis.logs.formats import Format
from gputel.analysis.logs.incremental import Increment, Increments
from gputel.telemetry import filesystem

Formats = tuple[Format, ...] | None
PIECE = 4 << 20
FRESH_S = 60.0  # a log written this recently may be opened for writing again
RARELY_S = 60.0  # between two searches for a writer that cannot be seen


class Followed:
    """A followed run. `state` is what views show of it, `notes` what a user has to know about following it."""

    def __init__(self, name: str, source: str, positions: Positions | None, formats: Formats) -> None:
        self.name, self.source = name, source
        self.state = RunState(name, source)
        self.notes: list[str] = []
        self.streams: dict[str, Stream] = {}
        self.paths: list[Path] = []  # files and folders to watch
        self._positions, self._formats = positions, formats

    @property
    def trouble(self) -> str | None:
        """The fault that keeps its logs from being read now; None without one."""
        troubles = [(name, stream.source.trouble) for name, stream in self.streams.items()]
        return "; ".join(f"{name}: {text}" if name else text for name, text in troubles if text) or None

    @property
    def is_over(self) -> bool:
        """Whether no more rows will ever come."""
        return bool(self.streams) and all(stream.finished for stream in self.streams.values())

    @property
    def is_awaited(self) -> bool:
        """Whether silence means that something is wrong."""
        return not self.state.has_ended

    def look(self) -> None:
        """Checks, once a second, for changes that add no bytes to a log."""

    @property
    def is_full(self) -> bool:
        """Whether there may be more to read right now."""
        return any(stream.is_full for stream in self.streams.values())

    def read(self) -> Iterator[Update]:
        for stream in list(self.streams.values()):
            piece = stream.read()
            if piece and not (piece.is_empty and piece.increment.is_empty):
                increment = self._dated(stream, piece.increment)
                yield replace(
                    self._update(stream.name),
                    increment=increment,
                    log=stream.increments,
                    written=stream.source.written,
                    live=piece.live,
                    shown=piece.shown,
                )

    def positions(self) -> dict[str, Position]:
        """Positions for the next follower, by stream; valid once everything read has been shown."""
        return {name: stream.position() for name, stream in self.streams.items()}

    def close(self) -> None:
        for stream in self.streams.values():
            stream.source.close()

    def _open(self, name: str, source: Callable[[Position], LiveSource]) -> None:
        before = self._before(name)
        self.streams[name] = Stream(name, source(before), before, self._formats)

    def _update(self, stream: str) -> Update:
        return Update(self.name, self.source, stream)

    def _before(self, stream: str) -> Position:
        """Where an earlier follower stopped."""
        saved = self._positions.position(self.source, stream) if self._positions else None
        return saved or Position()

    def _dated(self, stream: Stream, increment: Increment) -> Increment:
        return increment


class FollowedLog(Followed):
    """A log file."""

    def __init__(self, path: Path, positions: Positions | None, formats: Formats) -> None:
        super().__init__(name_of(path), str(path), positions, formats)
        self.paths = [path]
        self._open("", lambda before: _file(path, before.place))
        self._writer_check = WriterCheck(path)
        if note := files.filesystem_note(path, filesystem.kind(path)):
            self.notes.append(note)

    @property
    def is_awaited(self) -> bool:
        """Whether a process has the log open; if that cannot be seen, whether the log has grown."""
        is_written = self.state.is_written
        return super().is_awaited and (self.state.has_grown if is_written is None else is_written)

    def look(self) -> None:
        """Checks whether a process still has the log open for writing."""
        source = self.streams[""].source
        if isinstance(source, GrowingFile) and source.written is not None:
            self.state.set_written(self._writer_check.look(source.written))


def _file(path: Path, place: FilePosition | None) -> LiveSource:
    return CompressedFile(path, place) if is_compressed(path) else GrowingFile(path, place)


class FollowedPipe(Followed):
    """Standard input, or a FIFO."""

    def __init__(self, name: str, descriptor: int, positions: Positions | None, formats: Formats) -> None:
        super().__init__(name, name, positions, formats)
        self._open("", lambda _: PipeSource(descriptor))


class FollowedCommands(Followed):
    """Several commands as the ranks of one run."""

    def __init__(
        self, commands: Sequence[tuple[str, list[str]]], positions: Positions | None, formats: Formats
    ) -> None:
        name = commands[0][0] if len(commands) == 1 else f"{commands[0][0]}..{commands[-1][0]}"
        super().__init__(name, "; ".join(shlex.join(words) for _, words in commands), positions, formats)
        for label, words in commands:
            self._open(label, lambda before, words=words: FollowedCommand(words, before.replays))  # type: ignore[misc]


@dataclass(frozen=True)
class Piece:
    """Result of one read. `shown`: an earlier follower has shown it; `live`: it was written just now."""

    increment: Increment
    live: bool
    shown: bool
    is_empty: bool


class Stream:
    """One log of a run, read from its beginning even if an earlier follower has shown part of it."""

    def __init__(
        self, name: str, source: LiveSource, before: Position | None, formats: tuple[Format, ...] | None
    ) -> None:
        self.name, self.source = name, source
        self._before = before or Position()
        is_read_again = source.repeats > 0
        self._first_line = self._before.first_line if is_read_again else self._before.next_line
        self._guessed = self._before.guessed if is_read_again else None
        self.increments = Increments(formats, first_line=self._first_line)
        self.finished = False
        self.caught_up = False  # whether everything that was there at first has been read
        self.is_full = False  # whether there may be more to read right now
        self._is_shown = self._before.finished  # whether everything read so far was shown before

    def read(self) -> Piece | None:
        """Reads what is new; None if nothing is."""
        line, most = self.increments.parser.line, self._most()
        data = self.source.read(most)
        over = self.source.is_over and not data and not self.finished
        if not data and not over and not self.increments.is_puzzled:
            self.is_full = False
            return None
        if data and self.source.position == len(data):
            self._first_line, self._guessed = line, self._guessed if self.source.repeated else self._turned()
        shown = self.source.repeated if data else over and self._is_shown
        self._is_shown = self._is_shown and shown
        increment = self._taken(data, over, guess=self._is_guess_repeated() if shown else None)
        if self.increments.guessed and not shown:
            self._guessed = self.source.position
        piece = Piece(increment, self.caught_up and not shown, shown, is_empty=not data)
        self.is_full = len(data) >= most
        self.caught_up = self.caught_up or not self.is_full
        return piece

    def position(self) -> Position:
        """Position for the next follower; valid once everything read has been shown."""
        replays = self.source.replays if isinstance(self.source, FollowedCommand) else None
        place = self.source.place
        if self.source.repeats or (place is None and replays is None):
            return self._before
        line, finished = self.increments.parser.line, self.finished or self._is_shown
        return Position(place, replays, self._first_line, line, self._guessed, finished)

    def _most(self) -> int:
        """Bytes to read at once. A repeated read stops where the format was inferred, to infer the same one."""
        if not self.source.repeats:
            return PIECE
        until_guess = self._guess_at() - self.source.position
        return min(PIECE, self.source.repeats, until_guess if until_guess > 0 else PIECE)

    def _is_guess_repeated(self) -> bool:
        return self._before.guessed is not None and self.source.position == self._guess_at()

    def _guess_at(self) -> int:
        """Byte at which the format was inferred; the end of the shown part if that was in an earlier file."""
        return self._before.guessed or (self._before.place.position if self._before.place else 0)

    def _turned(self) -> int | None:
        return None if self._guessed is None else 0

    def _taken(self, data: bytes, over: bool, guess: bool | None) -> Increment:
        if data:
            self.increments.feed(data)
        if over:
            self.increments.finish()
            self.finished = True
        latest = self.source.written
        written = None if latest is None else datetime.fromtimestamp(latest, timezone.utc)
        return self.increments.take(written, guess=guess)


class WriterCheck:
    """Tells whether a process has a file open for writing. Call `look` once a second."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = path, now
        self._handle: Path | None = None
        self._was_seen = False  # whether the last search or a later look found a writer
        self._is_hidden = False  # no writer is seen, but the file grew, or its writer may be out of sight
        self._searched = float("-inf")
        self._changed: float | None = None  # last write to the file at the time of the search

    def look(self, changed: float) -> bool | None:
        """Returns whether a process has it open; None if that cannot be seen. `changed` is its last write."""
        if self._handle and open_files.holds(self._handle, self._path):
            return True
        if self._is_search_due(changed):
            self._search(changed)
        if self._handle:
            return True
        is_fresh = not self._was_seen and self._now() - changed < FRESH_S
        return None if is_fresh or self._is_hidden else False

    def _is_search_due(self, changed: float) -> bool:
        if self._handle is None and changed == self._changed:
            return False
        return not self._is_hidden or self._now() - self._searched >= RARELY_S

    def _search(self, changed: float) -> None:
        had, first = self._handle is not None, self._changed is None
        self._handle = open_files.handle(self._path, changed)
        self._was_seen = had or self._handle is not None
        self._is_hidden = not self._was_seen and (not first or not _is_ours(self._path))
        self._searched, self._changed = self._now(), changed


def _is_ours(path: Path) -> bool:
    """Whether the processes that write to a file are likely ones whose open files we may list."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return (
        os.geteuid() in (0, owner)
        and files.notifies(filesystem.kind(path))
        and Path("/proc/self/fd").exists()
    )
