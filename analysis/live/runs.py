"""The kinds of runs that can be followed: a log, a pipe, commands as the ranks of one run, a run folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis import logs
from gputel.analysis.formats import Format
from gputel.analysis.live import mounts, recorded
from gputel.analysis.live.commands import Command
from gputel.analysis.live.growing import GrowingFile
from gputel.analysis.live.journals import Journals
from gputel.analysis.live.kept import Piece
from gputel.analysis.live.past import Memory, Past
from gputel.analysis.live.pipes import Packed, Pipe, Source, is_packed
from gputel.analysis.live.plain import Said
from gputel.analysis.live.recorded import Output
from gputel.analysis.live.state import State
from gputel.analysis.live.streams import Stream
from gputel.analysis.live.written import Written
from gputel.analysis.parse.increments import Increment, Increments
from gputel.telemetry import filesystem

if TYPE_CHECKING:
    import polars as pl

    from gputel.telemetry.run import Segment

Formats = tuple[Format, ...] | None
EVENTS = "events of "  # before a segment's name: what its recorder told


@dataclass(frozen=True)
class News:
    """What is new of one run: rows of one of its logs, seconds of its GPUs, or events that the recorder told.

    `stream` is the log: "" where there is only one, else the rank of a command, the segment of a run folder.
    `live` is false while what was there before is caught up with; `again` is true of what an earlier follower
    has shown, which is needed to know where the run stands, and not to be shown once more.
    """

    run: Followed
    stream: str = ""
    increment: Increment | None = None
    gpu: pl.DataFrame | None = None
    happened: list[dict[str, Any]] = field(default_factory=list)
    live: bool = True
    again: bool = False


class Followed:
    """A run that is followed. `state` is what is shown of it, `notes` what a user has to know of the following."""

    def __init__(self, name: str, source: str, memory: Memory, formats: Formats) -> None:
        self.name, self.source = name, source
        self.state = memory.state(source) or State(name, source)
        self.notes: list[str] = []
        self.streams: dict[str, Stream] = {}
        self.paths: list[Path] = []  # files and folders of which changes are to be told
        self._memory, self._formats = memory, formats

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

    def read(self) -> Iterator[tuple[News, Piece | None]]:
        for stream in list(self.streams.values()):
            if found := stream.read():
                increment, piece = found
                if piece.data or not increment.is_empty:
                    yield News(self, stream.name, self._dated(stream, increment), live=piece.live), piece

    def again(self, piece: Piece, *, shown: bool) -> News | None:
        """What was read once before, and perhaps shown."""
        stream = self.streams.get(piece.stream)
        if stream is None:
            return None
        return News(self, piece.stream, stream.again(piece), live=False, again=shown)

    def past(self) -> dict[str, Past]:
        return {name: stream.past() for name, stream in self.streams.items()}

    def close(self) -> None:
        for stream in self.streams.values():
            stream.source.close()

    def _open(self, name: str, source: Callable[[Past | None], Source]) -> None:
        past = self._memory.past(self.source, name)
        self.streams[name] = Stream(self.source, name, source(past), past, self._formats)

    def _dated(self, stream: Stream, increment: Increment) -> Increment:
        return increment


class FollowedLog(Followed):
    """A log file."""

    def __init__(self, path: Path, memory: Memory, formats: Formats) -> None:
        super().__init__(logs.name_of(path), str(path), memory, formats)
        self.paths = [path]
        self._open("", lambda past: _file(path, past))
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


def _file(path: Path, past: Past | None) -> Source:
    place = past.place if past else None
    return Packed(path, place) if is_packed(path) else GrowingFile(path, place)


class FollowedPipe(Followed):
    """Standard input, or a FIFO."""

    def __init__(self, name: str, descriptor: int, memory: Memory, formats: Formats) -> None:
        super().__init__(name, name, memory, formats)
        self._open("", lambda _: Pipe(descriptor))


class FollowedCommands(Followed):
    """Several commands as the ranks of one run."""

    def __init__(self, commands: Sequence[tuple[str, list[str]]], memory: Memory, formats: Formats) -> None:
        name = commands[0][0] if len(commands) == 1 else f"{commands[0][0]}..{commands[-1][0]}"
        super().__init__(name, "; ".join(shlex.join(words) for _, words in commands), memory, formats)
        for label, words in commands:
            self._open(label, lambda past, words=words: Command(words, past.replays if past else None))  # type: ignore[misc]


class FollowedRun(Followed):
    """A run folder: its segments on all nodes, their GPUs and events."""

    def __init__(self, path: Path, memory: Memory, formats: Formats) -> None:
        super().__init__(path.resolve().name, str(path), memory, formats)
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

    def read(self) -> Iterator[tuple[News, Piece | None]]:
        yield from super().read()
        for name, journals in self._journals.items():
            live = journals.has_begun
            if (seconds := journals.read()) is not None:
                yield News(self, name, gpu=seconds, live=live), None
            happened = self._happened[name]
            if data := happened.read():
                piece = Piece(self.source, EVENTS + name, data, happened.place, None, True, False, False)
                yield News(self, name, happened=happened.told(data)), piece

    def again(self, piece: Piece, *, shown: bool) -> News | None:
        if piece.stream.startswith(EVENTS):
            name = piece.stream.removeprefix(EVENTS)
            return News(self, name, happened=self._happened[name].told(piece.data), again=shown)
        return super().again(piece, shown=shown)

    def past(self) -> dict[str, Past]:
        told = {
            EVENTS + name: Past(Increments(()), Said(), happened.place, None, False)
            for name, happened in self._happened.items()
        }
        return {**super().past(), **told}

    def close(self) -> None:
        super().close()
        for happened in self._happened.values():
            happened.close()

    def _begin(self, name: str, segment: Segment) -> None:
        def output(past: Past | None) -> Source:
            self._outputs[name] = Output(segment, past.place if past else None)
            return self._outputs[name]

        self._open(name, output)
        self._written[name] = Written(segment.output)
        told = self._memory.past(self.source, EVENTS + name)
        self._happened[name] = recorded.Happenings(segment, told.place if told else None)
        self._journals[name] = Journals(segment.gpu)
        self.paths += [segment.path, segment.gpu]

    def _is_written(self, name: str) -> bool | None:
        changed = self._outputs[name].written
        return None if changed is None else self._written[name].look(changed)

    def _dated(self, stream: Stream, increment: Increment) -> Increment:
        return increment.with_times(self._outputs[stream.name].dated)
