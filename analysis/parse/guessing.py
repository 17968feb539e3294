"""A log that grows, read while nobody knows yet in what format it is.

Beside the parser of all known formats there is another, which also has the format that would be inferred if the log
ended now. Which of the two is believed may change until the log is long enough to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gputel.analysis.parse import engine

if TYPE_CHECKING:
    from gputel.analysis.formats import Format
    from gputel.analysis.parse.parser import Parser

SHARE = 1 / 50  # of the time that goes by may be spent on guessing


class Guessing:
    """Bytes of one log in any pieces; `parser` is the one that is believed now."""

    def __init__(
        self, formats: tuple[Format, ...] | None, now: Callable[[], float], first_line: int = 1
    ) -> None:
        self._main = engine.parser(formats, live=True, first_line=first_line)
        self._other: Parser | None = None
        self._now = now
        self._asked_bytes, self._ask_after = 0, float("-inf")

    @property
    def parser(self) -> Parser:
        return self._other or self._main

    @property
    def is_settled(self) -> bool:
        """Whether nothing that was read will be read again in another format."""
        return self._main.is_settled

    @property
    def is_due(self) -> bool:
        """As often as what it costs allows; and where the unknown has doubled."""
        strange = self._main.strange_bytes
        if self.is_settled or strange == self._asked_bytes:
            return False
        return self._now() >= self._ask_after or strange >= 2 * self._asked_bytes

    def feed(self, data: bytes) -> None:
        self._main.feed(data)
        if self._other and self.is_settled:
            self._other = None
        if self._other:
            self._other.feed(data)

    def finish(self) -> None:
        """The log has ended."""
        self._main.finish()
        self._other = None

    def guess(self) -> None:
        """Asks once more what the log is."""
        strange, now = self._main.strange_bytes, self._now()
        other = self._main.tentative()
        if other and not self._other:
            self._main.afresh()  # of its rows some have been handed out
        self._asked_bytes = strange
        self._ask_after = self._now() + (self._now() - now) / SHARE
        if _understood(other) != _understood(self._other):
            self._other = other


def _understood(parser: Parser | None) -> str | None:
    return parser.inferred.text if parser and parser.inferred else None
