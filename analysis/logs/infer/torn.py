"""Lines that are a record in pieces: one that breaks off, and one with other text right behind it."""

from __future__ import annotations

from gputel.analysis.logs.infer.shapes import LineShape


def is_torn(shape: LineShape, whole: LineShape) -> bool:
    """Whether it is a record that breaks off, has a `?` for a number, or text at the end of its last one.

    Such a line is a reject and no shape of its own.
    """
    if shape.count > 2 or whole.count < 50 * shape.count or shape.first < whole.first:
        return False
    questioned = tuple(literal.replace(b"?", b"") for literal in shape.literals) == whole.literals
    *same, end = shape.literals
    begins = (*same,) == whole.literals[: shape.slots]
    is_cut = begins and whole.literals[shape.slots].startswith(end)
    runs_on = begins and shape.slots == whole.slots and end.startswith(whole.literals[-1])
    return is_cut or questioned or runs_on


def is_glued(shape: LineShape, whole: LineShape) -> bool:
    """Whether it is a record with other text right behind it: the pattern of the records reads it."""
    if shape.count > 2 or whole.count < 50 * shape.count or shape.slots <= whole.slots:
        return False
    *same, end = shape.literals[1 : whole.slots + 1]
    begins = shape.literals[0].strip() == whole.literals[0].strip()
    last = whole.literals[-1]
    glued = bool(last.strip()) and end.startswith(last) and end[len(last) :][:1].isalnum()
    return begins and glued and (*same,) == whole.literals[1:-1]
