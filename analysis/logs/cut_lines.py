"""Lines that a terminal cut at its last column: many end there, and each elsewhere in its words and numbers."""

from __future__ import annotations

from collections.abc import Sequence

from gputel.analysis.logs.patterns import lazy_regex

FEWEST = 10  # lines that end at the column
SHARE = 0.3  # of all lines
KINDS = 3  # of ends
_END = 6  # bytes
_MEANT = lazy_regex(rb"  .{0,12}$| $|[\])}]$")  # rows of a table have one width, and a bar closes its bracket
_DIGIT, _LETTER = lazy_regex(rb"\d"), lazy_regex(rb"[A-Za-z\x80-\xff]")


def cut_column(lines: Sequence[bytes]) -> int | None:
    """The width at which these lines were cut; None if they end where they were meant to."""
    width = max(map(len, lines), default=0)
    longest = [line for line in lines if len(line) == width and _DIGIT.search(line)]
    if len(longest) < max(FEWEST, SHARE * len(lines)):
        return None
    if 2 * sum(_MEANT.search(line) is not None for line in longest) > len(longest):
        return None
    kinds = {_LETTER.sub(b"a", _DIGIT.sub(b"0", line[-_END:])) for line in longest}
    return width if len(kinds) >= KINDS else None
