"""The kinds of runs that can be followed: a log, a pipe, commands as the ranks of one run, a run folder.

One log of a run that is followed: bytes of its source -> increments, and how far they were read.

Whether somebody still writes a log that is followed: what tells a run that is silent from one that is over.

Nobody can tell everywhere. A writer on another machine, in another container or of another user is not seen, nor is
one that opens the log for each of its lines: where it grows, and nobody is seen to write it, silence says nothing.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis.live import files, run_folder
from gputel.analysis.live.files import FilePosition, GrowingFile
from gputel.analysis.live.resume import Position, Positions
from gputel.analysis.live.run_folder import Journals, Output
from gputel.analysis.live.sources import FollowedCommand, LiveSource, Packed, PipeSource, is_packed
from gputel.analysis.live.state import RunState
from gputel.analysis.live.update import Update
from gputel.analysis.logs import open_files
from gputel.analysis.logs.files import name_of
from gputel.analysis.logs.formats import Format
from gputel.analysis.logs.incremental import Increment, Increments
from gputel.telemetry import filesystem

if TYPE_CHECKING:
    from gputel.telemetry.run_folder import Segment

Formats = tuple[Format, ...] | None
EVENTS = "events of "  # before a segment's name: what its recorder told


class Followed:
    """A run that is followed. `state` is what is shown of it, `notes` what a user has to know of the following."""

    def __init__(self, name: str, source: str, positions: Positions | None, formats: Formats) -> None:
        self.name, self.source = name, source
        self.state = RunState(name, source)
        self.notes: list[str] = []
        self.streams: dict[str, Stream] = {}
        self.paths: list[Path] = []  # files and folders of which changes are to be told
        self._positions, self._formats = positions, formats

    @property
    def trouble(self) -> str | None:
        told = [(name, stream.source.trouble) for name, stream in self.streams.items()]
        return "; ".join(f"{name}: {said}" if name else said for name, said in told if said) or None

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return bool(self.streams) and all(stream.finished for stream in self.streams.values())

    @property
    def is_awaited(self) -> bool:
        """Whether something is wrong if nothing comes."""
        return not self.state.has_ended

    def look(self) -> None:
        """Once a second: what changes without a byte of a log."""

    @property
    def is_full(self) -> bool:
        """Whether there may be more to read at once."""
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
        """Where the next follower may go on, by stream, once all that was read is shown."""
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
        known = self._positions.position(self.source, stream) if self._positions else None
        return known or Position()

    def _dated(self, stream: Stream, increment: Increment) -> Increment:
        return increment


class FollowedLog(Followed):
    """A log file."""

    def __init__(self, path: Path, positions: Positions | None, formats: Formats) -> None:
        super().__init__(name_of(path), str(path), positions, formats)
        self.paths = [path]
        self._open("", lambda before: _file(path, before.place))
        self._written = WriterCheck(path)
        if said := files.said(path, filesystem.kind(path)):
            self.notes.append(said)

    @property
    def is_awaited(self) -> bool:
        """Of a log that nobody is known to write only if it was seen to grow."""
        known = self.state.is_written
        return super().is_awaited and (self.state.has_grown if known is None else known)

    def look(self) -> None:
        """Somebody may have closed it."""
        source = self.streams[""].source
        if isinstance(source, GrowingFile) and source.written is not None:
            self.state.tell_written(self._written.look(source.written))


def _file(path: Path, place: FilePosition | None) -> LiveSource:
    return Packed(path, place) if is_packed(path) else GrowingFile(path, place)


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


class FollowedRun(Followed):
    """A run folder: its segments on all nodes, their GPUs and events."""

    def __init__(self, path: Path, positions: Positions | None, formats: Formats) -> None:
        super().__init__(path.resolve().name, str(path), positions, formats)
        self._path = path
        self._outputs: dict[str, Output] = {}
        self._written: dict[str, WriterCheck] = {}
        self._journals: dict[str, Journals] = {}
        self._happened: dict[str, run_folder.EventsFile] = {}
        if said := files.said(path, filesystem.kind(path)):
            self.notes.append(said)
        self.look()

    @property
    def is_awaited(self) -> bool:
        """Without a command nothing is printed."""
        return super().is_awaited and any(output.written for output in self._outputs.values())

    def look(self) -> None:
        """Segments that have begun, and descriptions that have changed; recorders that were killed."""
        segments, facts = run_folder.descriptions(self._path)
        for segment, fact in zip(segments, facts, strict=True):
            name = str(segment.path.relative_to(self._path)) if segment.path != self._path else ""
            if name not in self._outputs:
                self._begin(name, segment)
            self._outputs[name].is_over = bool(fact.get("ended"))
        self.state.describe(facts)
        told = {self._is_written(name) for name, output in self._outputs.items() if not output.is_over}
        self.state.tell_written(True if True in told else None if None in told or not told else False)

    def read(self) -> Iterator[Update]:
        yield from super().read()
        for name, journals in self._journals.items():
            live = journals.has_begun
            if (seconds := journals.read()) is not None:
                yield replace(self._update(name), gpu=seconds, live=live)
            happened, shown = self._happened[name].read()
            if happened:
                yield replace(self._update(name), happened=happened, shown=shown)

    def positions(self) -> dict[str, Position]:
        places = {EVENTS + name: happened.place for name, happened in self._happened.items()}
        events = {name: Position(place) if place else self._before(name) for name, place in places.items()}
        return {**super().positions(), **events}

    def close(self) -> None:
        super().close()
        for happened in self._happened.values():
            happened.close()

    def _begin(self, name: str, segment: Segment) -> None:
        def output(before: Position) -> LiveSource:
            self._outputs[name] = Output(segment, before.place)
            return self._outputs[name]

        self._open(name, output)
        self._written[name] = WriterCheck(segment.output)
        self._happened[name] = run_folder.EventsFile(segment, self._before(EVENTS + name).place)
        self._journals[name] = Journals(segment.gpu)
        self.paths += [segment.path, segment.gpu]

    def _is_written(self, name: str) -> bool | None:
        changed = self._outputs[name].written
        return None if changed is None else self._written[name].look(changed)

    def _dated(self, stream: Stream, increment: Increment) -> Increment:
        return increment.with_times(self._outputs[stream.name].dated)


PIECE = 4 << 20


@dataclass(frozen=True)
class Piece:
    """What was read at once. `shown`: an earlier follower has shown it; `live`: it was written just now."""

    increment: Increment
    live: bool
    shown: bool
    is_empty: bool


class Stream:
    """One log of a run: its bytes and its rows, from its beginning, also where an earlier follower has shown it."""

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
        self.caught_up = False  # whether all that was there at first has been read
        self.is_full = False  # whether there may be more at once
        self._is_shown = self._before.finished  # whether all that was read so far was shown before

    def read(self) -> Piece | None:
        """What is new; None where nothing is."""
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
        """Where the next follower may go on, once all that was read is shown."""
        replays = self.source.replays if isinstance(self.source, FollowedCommand) else None
        place = self.source.place
        if self.source.repeats or (place is None and replays is None):
            return self._before
        line, finished = self.increments.parser.line, self.finished or self._is_shown
        return Position(place, replays, self._first_line, line, self._guessed, finished)

    def _most(self) -> int:
        """Bytes to read at once: of what is read again no further than to where a format was inferred."""
        if not self.source.repeats:
            return PIECE
        until_guess = self._guess_at() - self.source.position
        return min(PIECE, self.source.repeats, until_guess if until_guess > 0 else PIECE)

    def _is_guess_repeated(self) -> bool:
        return self._before.guessed is not None and self.source.position == self._guess_at()

    def _guess_at(self) -> int:
        """Where the format was inferred; at the end of what was shown if that was in a file before this one."""
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


FRESH_S = 60.0  # what was written so lately may be written by somebody who comes again
RARELY_S = 60.0  # between two searches through all processes for a writer that is not seen


class WriterCheck:
    """Of one file. `look` once a second, with the moment at which it last grew."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = path, now
        self._handle: Path | None = None
        self._was_seen = False  # the last time that we searched, or since
        self._is_hidden = False  # nobody is seen, and it has grown, or may be written by whom we cannot see
        self._searched = float("-inf")
        self._changed: float | None = None  # when we searched

    def look(self, changed: float) -> bool | None:
        """True and False where that can be told."""
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
    """Whether those who write it are likely among the processes that we may look at."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return (
        os.geteuid() in (0, owner) and files.is_told(filesystem.kind(path)) and Path("/proc/self/fd").exists()
    )
