"""What the lines of a log were taken for: for a terminal, where a format was inferred; as a table, for a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gputel.analysis import text
from gputel.analysis.document import Section, Table
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

MOST_LOGS = 3  # whose lines a terminal shows
MOST_KINDS = 6  # of each
MOST_FIGURES = 12
WIDEST = 110  # letters of a line


def section(subjects: Sequence[RunData], names: Sequence[str]) -> list[Section]:
    """A line of each kind above its figures, of logs whose format was inferred; nothing where there are many."""
    inferred = [pair for pair in zip(subjects, names, strict=True) if pair[0].log.inferred]
    if not 0 < len(inferred) <= MOST_LOGS:
        return []
    shown = ["\n".join(_shown(own, name if len(subjects) > 1 else "")) for own, name in inferred]
    return [Section("How the lines were read", text="\n".join(shown), code=True)]


def table(subjects: Sequence[RunData], names: Sequence[str]) -> Table:
    rows = [
        (name, kind.line, kind.lines, kind.read_as, kind.text, kind.given())
        for own, name in zip(subjects, names, strict=True)
        for kind in own.log.read_kinds
    ]
    columns = ("run", "line", "lines", "read as", "one of the first", "its figures")
    return Table("How the lines were read", columns, rows, folded=True)


def _shown(own: RunData, name: str) -> Iterator[str]:
    if name:
        yield name
    kinds = [kind for kind in own.log.read_kinds if not kind.is_part]
    for kind in kinds[:MOST_KINDS]:
        like = f", {kind.lines - 1:,} more like it" if kind.lines > 1 else ""
        yield f"  line {kind.line:,}{like}: {kind.read_as}"
        yield f"    {_cut(mask(kind.text))}"
        yield f"    = {kind.given(MOST_FIGURES)}"
    if len(kinds) > MOST_KINDS:
        yield f"  and {text.counted(len(kinds) - MOST_KINDS, 'more kind')}; --read lists all"


def _cut(line: str) -> str:
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…"
