"""Boxes: a line drawn above and below the rows of a record, `| loss | 2.5 |`, parts it from the next one.

Some boxes lack rows that others begin with, so that no row says where a record begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.infer.line_tables import LineTable
from gputel.analysis.logs.patterns import lazy_regex

_BORDER = lazy_regex(rb"\s*[-+=*_]{5,}\s*")
_ROW = lazy_regex(rb"\s*\|.*\|\s*")
_DRAWN = "-=*_"  # the longest run of one of them is looked for first
_SHORTEST = 5


def border(chosen: Sequence[Candidate], main: Candidate, lines: Sequence[bytes]) -> LineTable | None:
    """The line around the boxes, where the step stands in one box with what the training gives.

    Not in all of them: a box of an evaluation may have the step and lack the speed.
    """
    rows = [line for line in chosen if line.shape.is_boxed and line.role in ("train", "part")]
    header = next((line for line in rows if line.place), None)
    if header is None or main.shape not in [line.shape for line in rows]:
        return None
    last = min(line.shape.lines[-1] for line in rows if line.evidence or line is header)
    boxes = list(_boxes(lines[: last + 1]))
    steps = {number for number in header.shape.lines if number <= last}
    stepped = [box for _, box in boxes if steps.intersection(box)]
    given = ({*line.shape.lines} for line in rows if line.evidence)
    together = [sum(not one.isdisjoint(box) for box in stepped) for one in given]
    if len(stepped) < len(steps) or not all(together) or 2 * max(together, default=0) <= len(stepped):
        return None
    return _table({edge for edge, _ in boxes})


def without_opener(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Any row may be the first of its record, where borders part them."""
    return [replace(c, role="part") if c.role == "train" and c.shape.is_boxed else c for c in chosen]


def _boxes(lines: Sequence[bytes]) -> Iterator[tuple[bytes, range]]:
    """The border above each box, and the numbers of its rows."""
    edge, first = b"", 0
    for number, line in enumerate([*lines, b""]):
        if not _ROW.fullmatch(line):
            if edge and number > first:
                yield edge, range(first, number)
            edge, first = (line.strip() if _BORDER.fullmatch(line) else b""), number + 1


def _table(borders: set[bytes]) -> LineTable | None:
    """A pattern for the borders, which may differ in length; None if one sign alone is not found in all of them."""
    signs = (sign * _SHORTEST for sign in _DRAWN)
    needle = next((sign for sign in signs if all(sign.encode() in line for line in borders)), None)
    used = re.escape("".join(sorted({*b"".join(borders).decode()})))
    return LineTable("border", "border", rf"(?<!\S)[{used}]{{{_SHORTEST},}}\s*$", needle) if needle else None
