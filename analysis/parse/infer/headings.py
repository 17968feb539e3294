"""Rows of bare numbers -> columns named by the heading above them: CSV, `|` between cells, or blanks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputel.analysis.parse.infer.naming import name_as
from gputel.analysis.parse.infer.places import Named
from gputel.analysis.parse.infer.shapes import Shape
from gputel.analysis.parse.names import Vocabulary

ABOVE = 6  # lines between a heading and its first row: rules, a blank line, a warning
_BETWEEN = re.compile(rb"(?:[\s|,;]|\xe2\x94[\x82\x83])*")


def name(shape: Shape, lines: Sequence[bytes], words: Vocabulary) -> list[Named] | None:
    """None where the numbers have words of their own, or nothing above names as many columns."""
    if shape.slots < 2 or not all(_BETWEEN.fullmatch(literal) for literal in shape.literals):
        return None
    first = shape.lines[0]
    for line in reversed(lines[max(0, first - ABOVE) : first]):
        cells = _cells(line, shape.slots)
        if cells:
            return name_as(shape, cells, words)
    return None


def _cells(line: bytes, width: int) -> list[str] | None:
    text = re.sub("[│┃]", "|", line.decode(errors="replace")).strip().strip("|").strip()
    for between in (",", r"\|", "\t", r"\s{2,}", r"\s+"):
        cells = [cell.strip(" \"'") for cell in re.split(between, text)]
        if len(cells) == width and all(cell == "#" or any(c.isalpha() for c in cell) for cell in cells):
            return cells
    return None
