"""Rows of bare numbers -> columns named by the heading above them: CSV, `|` between cells, or blanks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputel.analysis.parse.infer.naming import name_as
from gputel.analysis.parse.infer.places import Named
from gputel.analysis.parse.infer.shapes import UNIT, Shape
from gputel.analysis.parse.names import Vocabulary

ABOVE = 6  # lines between a heading and its first row: rules, a warning
FURTHEST = 400
_BETWEEN = re.compile(rb"(?:[\s|,;\[\]]|\xe2\x94[\x82\x83])*")
_REDRAWN = re.compile(
    rb"\d%|\xe2\x96[\x80-\x9f]|^\s*$"
)  # bars and blank lines do not part a heading from its rows


def name(shape: Shape, lines: Sequence[bytes], words: Vocabulary) -> list[Named] | None:
    """None where the numbers have words of their own, or nothing above names as many columns."""
    if shape.slots < 2 or not all(_BETWEEN.fullmatch(_without_unit(literal)) for literal in shape.literals):
        return None
    first = shape.lines[0]
    above = [line for line in lines[max(0, first - FURTHEST) : first] if not _REDRAWN.search(line)]
    places = _places(shape)
    for line in reversed(above[-ABOVE:]):
        cells = _cells(line, places[-1] + 1)
        if cells:
            return name_as(shape, [cells[place] for place in places[:-1]], words)
    return None


def _places(shape: Shape) -> list[int]:
    """Which column each value stands in, and then which is the last: between commas there may be nothing."""
    if not any(b"," in literal for literal in shape.literals):
        return [*range(shape.slots), shape.slots - 1]
    commas = [literal.count(b",") for literal in shape.literals]
    return [sum(commas[: at + 1]) for at in range(shape.slots + 1)]


def _without_unit(literal: bytes) -> bytes:
    unit = UNIT.match(literal)
    return literal[unit.end() :] if unit else literal


def _cells(line: bytes, width: int) -> list[str] | None:
    text = re.sub("[│┃]", "|", line.decode(errors="replace")).strip().strip("|").strip()
    if text.startswith("# "):  # a comment, as numpy writes one over its columns; or the name of the first
        return _split(text[1:].strip(), width) or _split(text, width)
    return _split(text, width)


def _split(text: str, width: int) -> list[str] | None:
    for between in (",", r"\|", "\t", r"\s{2,}", r"\s+"):
        cells = [cell.strip(" \"'") for cell in re.split(between, text)]
        if len(cells) == width and all(cell == "#" or any(c.isalpha() for c in cell) for cell in cells):
            return cells
    return None
