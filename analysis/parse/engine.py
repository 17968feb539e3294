"""Which engine reads, with which formats: all that are shipped and a guess at unknown ones, unless chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputel.analysis import formats
from gputel.analysis.parse import fast
from gputel.analysis.parse.parser import Parser
from gputel.analysis.parse.patterns import Engine

if TYPE_CHECKING:
    from gputel.analysis.formats import Format
    from gputel.analysis.parse.infer import Inferred

read: Engine = fast.read


def parser(chosen: tuple[Format, ...] | None = None, *, live: bool = False) -> Parser:
    if chosen is not None:
        return Parser(chosen, read, live=live)
    return Parser(formats.shipped(), read, infer, live=live)


def infer(sample: bytes, known: int) -> Inferred | None:
    """Imported when it is needed: most logs are of a known format."""
    from gputel.analysis.parse import infer as guess

    return guess.infer(sample, known=known)
