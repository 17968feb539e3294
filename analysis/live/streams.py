"""One log of a run that is followed: bytes of its source -> increments, and how far they were read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from gputel.analysis.live.commands import Command
from gputel.analysis.live.pipes import Source
from gputel.analysis.live.resume import Position
from gputel.analysis.parse.increments import Increment, Increments

if TYPE_CHECKING:
    from gputel.analysis.formats import Format

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
        self, name: str, source: Source, before: Position | None, formats: tuple[Format, ...] | None
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
        replays = self.source.replays if isinstance(self.source, Command) else None
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
