"""One log of a run that is followed: bytes of its source -> increments, each with the piece to remember it by."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from gputel.analysis.live.commands import Command
from gputel.analysis.live.kept import Piece
from gputel.analysis.live.past import Past
from gputel.analysis.live.pipes import Source
from gputel.analysis.live.plain import Said
from gputel.analysis.parse.increments import Increment, Increments

if TYPE_CHECKING:
    from gputel.analysis.formats import Format

PIECE = 4 << 20


class Stream:
    """One log of a run: its bytes and its rows. `said` is for whoever says these one by one."""

    def __init__(
        self, run: str, name: str, source: Source, past: Past | None, formats: tuple[Format, ...] | None
    ) -> None:
        self.run, self.name, self.source = run, name, source
        self.increments = past.increments if past else Increments(formats)
        self.said = past.said if past else Said()
        self.finished = past.finished if past else False
        self.caught_up = False  # whether all that was there at first has been read

    def read(self) -> tuple[Increment, Piece] | None:
        """What is new; None where nothing is."""
        data = self.source.read(PIECE)
        over = self.source.is_over and not data and not self.finished
        if not data and not over and not self.increments.is_puzzled:
            return None
        increment = self._taken(data, self.source.written, over, None)
        place = getattr(self.source, "place", None)
        guessed, live = self.increments.guessed, self.caught_up
        piece = Piece(self.run, self.name, data, place, self.source.written, live, guessed, over)
        self.caught_up = self.caught_up or len(data) < PIECE
        return increment, piece

    def again(self, piece: Piece) -> Increment:
        """As it was read once before."""
        if isinstance(self.source, Command):
            self.source.replays.feed(piece.data)
        return self._taken(piece.data, piece.latest, piece.finished, piece.guessed)

    def past(self) -> Past:
        replays = self.source.replays if isinstance(self.source, Command) else None
        place = getattr(self.source, "place", None)
        return Past(self.increments, self.said, place, replays, self.finished)

    def _taken(self, data: bytes, latest: float | None, over: bool, guess: bool | None) -> Increment:
        if data:
            self.increments.feed(data)
        if over:
            self.increments.finish()
            self.finished = True
        written = None if latest is None else datetime.fromtimestamp(latest, timezone.utc)
        return self.increments.take(written, guess=guess)
