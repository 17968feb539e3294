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
    from gputel.analysis.parse.lines import Chunk

read: Engine = fast.read


def parser(chosen: tuple[Format, ...] | None = None, *, live: bool = False, first_line: int = 1) -> Parser:
    if chosen is not None:
        return Parser(chosen, read, live=live, first_line=first_line)
    return Parser(formats.shipped(), read, infer, live=live, first_line=first_line)


def feed_together(parsers: list[Parser], texts: list[bytes]) -> None:
    """Gives each of the parsers, all of the same formats, its text, shorter than a sample; read in one go."""
    chunks = [list(parser.split(text)) for parser, text in zip(parsers, texts, strict=True)]
    whole = [(parser, some[0]) for parser, some in zip(parsers, chunks, strict=True) if _is_ready(some)]
    pieces = [(chunk.data, chunk.starts) for _, chunk in whole if chunk.starts is not None]
    readings = fast.read_together(pieces, parsers[0].patterns) if pieces else iter(())
    for (parser, chunk), reading in zip(whole, readings, strict=True):
        parser.take(chunk, reading)
    for parser, some in zip(parsers, chunks, strict=True):
        if not _is_ready(some):
            for chunk in some:
                parser.take(chunk)


def _is_ready(chunks: list[Chunk]) -> bool:
    """Whether this is one chunk of whole lines that needed no cleaning."""
    return len(chunks) == 1 and chunks[0].starts is not None and chunks[0].data.endswith(b"\n")


def infer(sample: bytes, known: int) -> Inferred | None:
    """Imported when it is needed: most logs are of a known format."""
    from gputel.analysis.parse import infer as guess

    return guess.infer(sample, known=known)
