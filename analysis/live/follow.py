"""Follows runs as they happen: what is new of each, and what is known of it altogether.

`Follower.read` looks at everything once and never waits; `wait` sleeps until there may be more. A path that is not
there yet is waited for; a folder and a glob are looked through every second for logs and runs that have appeared.
"""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis import logs
from gputel.analysis.live import mounts, recorded
from gputel.analysis.live.commands import Command
from gputel.analysis.live.growing import GrowingFile
from gputel.analysis.live.journals import Journals
from gputel.analysis.live.pipes import Pipe, Source
from gputel.analysis.live.recorded import Output
from gputel.analysis.live.state import State
from gputel.analysis.live.watch import Watch
from gputel.analysis.parse.increments import Increment, Increments

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.formats import Format

PIECE = 4 << 20
LOOK_S = 1.0
PAUSE_S = 0.025  # between two readings, so that many lines are read at once where many come
BUSY = (
    20  # readings in a row that found something: from there on the clock wakes, and nobody tells of changes
)
HEAD = 4096


@dataclass(frozen=True)
class News:
    """What is new of one run: rows of one of its logs, seconds of its GPUs, or events that the recorder told.

    `stream` is the log: "" where there is only one, else the rank of a command, the segment of a run folder.
    `live` is false while what was there before is caught up with.
    """

    run: Followed
    stream: str = ""
    increment: Increment | None = None
    gpu: pl.DataFrame | None = None
    happened: list[dict[str, Any]] = field(default_factory=list)
    live: bool = True


class Stream:
    """One log of a run: bytes, and the rows that they turn out to be."""

    def __init__(self, name: str, source: Source, formats: tuple[Format, ...] | None) -> None:
        self.name, self.source = name, source
        self.increments = Increments(formats)
        self.finished = False
        self.caught_up = False  # whether all that was there at first has been read

    def read(self) -> tuple[Increment | None, int]:
        """What is new, and how many bytes that was; None where nothing has changed."""
        data = self.source.read(PIECE)
        over = self.source.is_over and not data and not self.finished
        if data:
            self.increments.feed(data)
        if over:
            self.increments.finish()
            self.finished = True
        if not data and not over and not self.increments.is_puzzled:
            return None, 0
        written = self.source.written
        latest = datetime.fromtimestamp(written, timezone.utc) if written else None
        return self.increments.take(latest), len(data)


class Followed:
    """A run that is followed. `state` is what is shown of it, `notes` what a user has to know of the following."""

    def __init__(self, name: str, source: str, formats: tuple[Format, ...] | None = None) -> None:
        self.name, self.source = name, source
        self.state = State(name, source)
        self.notes: list[str] = []
        self.streams: dict[str, Stream] = {}
        self.formats = formats

    @property
    def paths(self) -> list[Path]:
        """Files and folders of which changes are to be told."""
        return []

    @property
    def trouble(self) -> str | None:
        told = [f"{s.name}: {s.source.trouble}" if s.name else s.source.trouble for s in self._troubled()]
        return "; ".join(filter(None, told)) or None

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return bool(self.streams) and all(stream.finished for stream in self.streams.values())

    def look(self) -> None:
        """Once a second: what changes without a byte of a log."""

    def read(self) -> Iterator[tuple[News, int]]:
        for stream in list(self.streams.values()):
            increment, size = stream.read()
            if increment is not None and (size or not increment.is_empty):
                yield News(self, stream.name, self.dated(stream, increment), live=stream.caught_up), size
            stream.caught_up = stream.caught_up or size < PIECE

    def dated(self, stream: Stream, increment: Increment) -> Increment:
        return increment

    def close(self) -> None:
        for stream in self.streams.values():
            stream.source.close()

    def _troubled(self) -> list[Stream]:
        return [stream for stream in self.streams.values() if stream.source.trouble]


class FollowedLog(Followed):
    """A log file."""

    def __init__(self, path: Path, formats: tuple[Format, ...] | None = None) -> None:
        super().__init__(logs.name_of(path), str(path), formats)
        self._path = path
        self.streams[""] = Stream("", GrowingFile(path), formats)
        if said := mounts.said(path, mounts.kind(path)):
            self.notes.append(said)

    @property
    def paths(self) -> list[Path]:
        return [self._path]


class FollowedPipe(Followed):
    """Standard input."""

    def __init__(self, descriptor: int = 0, formats: tuple[Format, ...] | None = None) -> None:
        super().__init__("-", "standard input", formats)
        self.streams[""] = Stream("", Pipe(descriptor), formats)


class FollowedCommands(Followed):
    """Several commands as the ranks of one run."""

    def __init__(
        self, commands: Sequence[tuple[str, list[str]]], formats: tuple[Format, ...] | None = None
    ) -> None:
        name = commands[0][0] if len(commands) == 1 else f"{commands[0][0]}..{commands[-1][0]}"
        super().__init__(name, "; ".join(" ".join(words) for _, words in commands), formats)
        for label, words in commands:
            self.streams[label] = Stream(label, Command(words), formats)


class FollowedRun(Followed):
    """A run folder: its segments on all nodes, their GPUs and events."""

    def __init__(self, path: Path, formats: tuple[Format, ...] | None = None) -> None:
        super().__init__(path.resolve().name, str(path), formats)
        self._path = path
        self._journals: dict[str, Journals] = {}
        self._happened: dict[str, recorded.Happenings] = {}
        if said := mounts.said(path, mounts.kind(path)):
            self.notes.append(said)
        self.look()

    @property
    def paths(self) -> list[Path]:
        return [self._path / name for name in self._happened]

    def look(self) -> None:
        """Segments that have begun, and descriptions that have changed."""
        segments, facts = recorded.descriptions(self._path)
        for segment, fact in zip(segments, facts, strict=True):
            name = str(segment.path.relative_to(self._path)) if segment.path != self._path else ""
            if name not in self.streams:
                self._happened[name] = recorded.Happenings(segment)
                self._journals[name] = Journals(segment.gpu)
                self.streams[name] = Stream(name, Output(segment), self.formats)
            self.streams[name].source.is_over = bool(fact.get("ended"))
        self.state.describe(facts)

    def read(self) -> Iterator[tuple[News, int]]:
        yield from super().read()
        for name, journals in self._journals.items():
            seconds = journals.read()
            happened = self._happened[name].read()
            if seconds is not None or happened:
                yield News(self, name, gpu=seconds, happened=happened), 0

    def dated(self, stream: Stream, increment: Increment) -> Increment:
        assert isinstance(stream.source, Output)
        return increment.with_times(stream.source.dated)

    def close(self) -> None:
        super().close()
        for happened in self._happened.values():
            happened.close()


class Follower:
    """`runs` are those that are followed, `waiting` the words that name nothing yet."""

    def __init__(
        self,
        words: Sequence[str],
        commands: Sequence[tuple[str, list[str]]] = (),
        formats: tuple[Format, ...] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runs: list[Followed] = []
        self.waiting: list[str] = []
        self._words, self._formats, self._now = list(words), formats, now
        self._known: set[Path] = set()
        self._watch = Watch()
        self._looked = self._read_at = float("-inf")
        self._in_a_row = 0
        if "-" in self._words:
            self.runs.append(FollowedPipe(formats=formats))
        if commands:
            self.runs.append(FollowedCommands(commands, formats))

    @property
    def is_over(self) -> bool:
        return bool(self.runs) and not self.waiting and all(run.is_over for run in self.runs)

    def news(self, stop: Callable[[], bool] = lambda: False) -> Iterator[list[News]]:
        """Until everything is over or `stop` says so; an empty list at least once a second."""
        while not stop():
            yield self.read()
            if self.is_over:
                return
            self.wait()

    def read(self) -> list[News]:
        """What is new now, of each log a few megabytes at most."""
        self._read_at = self._now()
        if self._read_at - self._looked >= LOOK_S:
            self._look()
        found = [news for run in self.runs for news in run.read()]
        self._in_a_row = self._in_a_row + 1 if found else 0
        self._full = any(size >= PIECE for _, size in found)
        for news, _ in found:
            news.run.state.take(news)
        return [news for news, _ in found]

    def wait(self, timeout_s: float = LOOK_S) -> None:
        """Until there may be more, or the time is over."""
        if self._full:
            return
        if self._in_a_row == BUSY:
            self._watch.pause()
        elif not self._in_a_row and self._watch.paused:
            self._watch.resume()
        self._watch.descriptors(
            file for run in self.runs for stream in run.streams.values() for file in stream.source.descriptors
        )
        pause = self._read_at + PAUSE_S - self._now()
        if self._watch.paused:
            timeout_s = PAUSE_S
        if self._watch.wait(timeout_s) and pause > 0:
            time.sleep(max(self._read_at + PAUSE_S - self._now(), 0))

    def wake(self) -> None:
        """Ends a `wait` from another thread or a signal."""
        self._watch.wake()

    def close(self) -> None:
        for run in self.runs:
            run.close()
        self._watch.close()

    def _look(self) -> None:
        """For runs that have appeared, and what changes without a byte."""
        self._looked = self._now()
        self.waiting = []
        for word in self._words:
            if word != "-":
                self._find(word)
        for run in self.runs:
            run.look()
        places = [
            Path(word).parent if word in self.waiting else Path(word) for word in self._words if word != "-"
        ]
        self._watch.files([*(path for run in self.runs for path in run.paths), *places])

    def _find(self, word: str) -> None:
        path = Path(word)
        named = (
            [path] if path.exists() else [Path(found) for found in sorted(glob.glob(word, recursive=True))]
        )
        found = [place for one in named for place in logs.walk(one)]
        for place in found:
            if place.resolve() not in self._known and (place == path or _is_log(place)):
                self._known.add(place.resolve())
                self.runs.append(_followed(place, self._formats))
        if not found:
            self.waiting.append(word)


def _followed(path: Path, formats: tuple[Format, ...] | None) -> Followed:
    if path.is_dir():
        return FollowedRun(path, formats)
    return FollowedLog(path, formats)


def _is_log(path: Path) -> bool:
    """A run folder, or text; of a folder's files checkpoints and the like are nobody's logs."""
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return b"\0" not in file.read(HEAD)
    except OSError:
        return False
