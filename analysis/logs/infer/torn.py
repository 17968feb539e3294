"""Lines that are a record in pieces: one that breaks off, and one with other text right behind it."""

from __future__ import annotations

from gputel.analysis.logs import values
from gputel.analysis.logs.infer.shapes import LineShape, without_unit


def is_torn(shape: LineShape, whole: LineShape) -> bool:
    """Whether it is a record that breaks off, has a `?` for a number, or text at the end of its last one.

    Such a line is a reject and no shape of its own. A unit is no text: `remaining: 0us` beside `1m 2s`.
    """
    if shape.count > 2 or whole.count < 50 * shape.count or shape.first < whole.first:
        return False
    questioned = tuple(literal.replace(b"?", b"") for literal in shape.literals) == whole.literals
    *same, end = shape.literals
    begins = (*same,) == whole.literals[: shape.slots]
    is_cut = begins and whole.literals[shape.slots].startswith(end)
    runs_on = begins and shape.slots == whole.slots and end.startswith(whole.literals[-1])
    return is_cut or questioned or (runs_on and not _is_shorter_time(end, whole))


def _is_shorter_time(end: bytes, whole: LineShape) -> bool:
    """Whether a line ends with a number and its unit where the records end with a time of two units."""
    spelt = values.DURATION.fullmatch(whole.rows[0][-1]) is not None
    return spelt and without_unit(end) == whole.literals[-1] != end


def is_glued(shape: LineShape, whole: LineShape) -> bool:
    """Whether it is a record with other text right behind it: the pattern of the records reads it."""
    if shape.count > 2 or whole.count < 50 * shape.count or shape.slots <= whole.slots:
        return False
    *same, end = shape.literals[1 : whole.slots + 1]
    begins = shape.literals[0].strip() == whole.literals[0].strip()
    last = whole.literals[-1]
    glued = bool(last.strip()) and end.startswith(last) and end[len(last) :][:1].isalnum()
    return begins and glued and (*same,) == whole.literals[1:-1]
