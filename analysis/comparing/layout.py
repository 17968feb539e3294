"""Tables of text about runs: few runs stand beside each other, many below, cut to the width of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

BESIDE = 4
WIDTH = 80
BETWEEN = 3  # columns of a terminal between two columns of a table
Cell: TypeAlias = "str | None"
Line: TypeAlias = "tuple[str, list[Cell]]"  # what it says, and a cell a run


class Table(NamedTuple):
    title: str
    columns: list[str]
    rows: list[list[Cell]]


def oriented(title: str, lines: Sequence[Line], runs: Sequence[str]) -> Iterator[Table]:
    """Few runs are columns, many are rows."""
    if lines and len(runs) <= BESIDE:
        yield Table(title, ["", *runs], [[name, *cells] for name, cells in lines])
    elif lines:
        yield from folded(title, "run", runs, lines)


def folded(title: str, head: str, names: Sequence[str], lines: Sequence[Line]) -> Iterator[Table]:
    """A row a name; cut into as many tables as fit the width of a terminal, each with the names again."""
    first = max(len(head), *(len(name) for name in names))
    blocks: list[list[Line]] = [[]]
    left = WIDTH - first
    for line in lines:
        wide = BETWEEN + max(len(line[0]), *(len(cell or "-") for cell in line[1]))
        if wide > left and blocks[-1]:
            blocks.append([])
            left = WIDTH - first
        blocks[-1].append(line)
        left -= wide
    for i, block in enumerate(blocks):
        rows = [[name, *(cells[j] for _, cells in block)] for j, name in enumerate(names)]
        yield Table(title if not i else "", [head, *(said for said, _ in block)], rows)


def turned(columns: Mapping[str, Sequence[Cell]]) -> list[list[Cell]]:
    """Columns as rows."""
    return [list(row) for row in zip(*columns.values(), strict=True)]
