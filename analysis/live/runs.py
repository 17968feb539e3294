"""The kinds of runs that can be followed: a log, a pipe, commands as the ranks of one run, a run folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis import logs
from gputel.analysis.formats import Format
from gputel.analysis.live import mounts, recorded
from gputel.analysis.live.commands import Command
from gputel.analysis.live.growing import GrowingFile, Place
from gputel.analysis.live.journals import Journals
from gputel.analysis.live.pipes import Packed, Pipe, Source, is_packed
from gputel.analysis.live.recorded import Output
from gputel.analysis.live.resume import Position, Positions
from gputel.analysis.live.state import State
from gputel.analysis.live.streams import Stream
from gputel.analysis.live.update import Update
from gputel.analysis.live.written import Written
from gputel.analysis.parse.increments import Increment
from gputel.telemetry import filesystem

if TYPE_CHECKING:
    from gputel.telemetry.run import Segment

Formats = tuple[Format, ...] | None
EVENTS = "events of "  # before a segment's name: what its recorder told


class Followed:
    """A run that is followed. `state` is what is shown of it, `notes` what a user has to know of the following."""

    def __init__(self, name: str, source: str, positions: Positions | None, formats: Formats) -> None:
        self.name, self.source = name, source
        self.state = State(name, source)
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

    def _open(self, name: str, source: Callable[[Position], Source]) -> None:
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
        super().__init__(logs.name_of(path), str(path), positions, formats)
        self.paths = [path]
        self._open("", lambda before: _file(path, before.place))
        self._written = Written(path)
        if said := mounts.said(path, filesystem.kind(path)):
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


def _file(path: Path, place: Place | None) -> Source:
    return Packed(path, place) if is_packed(path) else GrowingFile(path, place)


class FollowedPipe(Followed):
    """Standard input, or a FIFO."""

    def __init__(self, name: str, descriptor: int, positions: Positions | None, formats: Formats) -> None:
        super().__init__(name, name, positions, formats)
        self._open("", lambda _: Pipe(descriptor))


class FollowedCommands(Followed):
    """Several commands as the ranks of one run."""

    def __init__(
        self, commands: Sequence[tuple[str, list[str]]], positions: Positions | None, formats: Formats
    ) -> None:
        name = commands[0][0] if len(commands) == 1 else f"{commands[0][0]}..{commands[-1][0]}"
        super().__init__(name, "; ".join(shlex.join(words) for _, words in commands), positions, formats)
        for label, words in commands:
            self._open(label, lambda before, words=words: Command(words, before.replays))  # type: ignore[misc]


class FollowedRun(Followed):
    """A run folder: its segments on all nodes, their GPUs and events."""

    def __init__(self, path: Path, positions: Positions | None, formats: Formats) -> None:
        super().__init__(path.resolve().name, str(path), positions, formats)
        self._path = path
        self._outputs: dict[str, Output] = {}
        self._written: dict[str, Written] = {}
        self._journals: dict[str, Journals] = {}
        self._happened: dict[str, recorded.Happenings] = {}
        if said := mounts.said(path, filesystem.kind(path)):
            self.notes.append(said)
        self.look()

    @property
    def is_awaited(self) -> bool:
        """Without a command nothing is printed."""
        return super().is_awaited and any(output.written for output in self._outputs.values())

    def look(self) -> None:
        """Segments that have begun, and descriptions that have changed; recorders that were killed."""
        segments, facts = recorded.descriptions(self._path)
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
        def output(before: Position) -> Source:
            self._outputs[name] = Output(segment, before.place)
            return self._outputs[name]

        self._open(name, output)
        self._written[name] = Written(segment.output)
        self._happened[name] = recorded.Happenings(segment, self._before(EVENTS + name).place)
        self._journals[name] = Journals(segment.gpu)
        self.paths += [segment.path, segment.gpu]

    def _is_written(self, name: str) -> bool | None:
        changed = self._outputs[name].written
        return None if changed is None else self._written[name].look(changed)

    def _dated(self, stream: Stream, increment: Increment) -> Increment:
        return increment.with_times(self._outputs[stream.name].dated)
