"""Records of several lines: a header that says the step, and indented or bulleted lines below it.

The lines below a header are its body. A shape whose lines all stand in bodies is a part of the record, however
many of its lines one body has; a shape that also stands elsewhere (under the heading of an evaluation) is nline.
"""

from __future__ import annotations

from collections.abc import Sequence

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.patterns import lazy_regex

# indented, or behind a bullet; \xe2 begins drawn ones
_INSIDE = lazy_regex(rb"\s+\S|\s*(?:[|>*+\xe2]|-+[ >])")
_PAIR = lazy_regex(rb"\s*['\"]?[A-Za-z][\w./ -]*['\"]?:\s+[^\s,{}\[\]]+,?\s*")
_LONGEST = 200  # lines of a body
_MOSTLY = 0.8


def header_above(
    candidates: Sequence[Candidate], main: Candidate, lines: Sequence[bytes]
) -> Candidate | None:
    """The header of the blocks that the lines of `main` stand in; `lines` keep their indentation."""
    headers = [
        line
        for line in candidates
        if line.place
        and line.place.column != "epoch"
        and not line.shape.is_bar
        and not line.shape.is_boxed
        and not line.metrics
    ]
    below = [line for line in headers if line.shape.count > 1 and len(members([main], line, lines)) == 1]
    return max(below, key=lambda line: (-line.place_rank, line.shape.count), default=None)


def members(candidates: Sequence[Candidate], header: Candidate, lines: Sequence[bytes]) -> list[Candidate]:
    """The shapes whose lines stand in the bodies of the header."""
    bodies: set[int] = set()
    for number in header.shape.lines:
        bodies.update(_body(lines, number))
    last = header.shape.lines[-1] + _LONGEST
    inside = [
        (line, [number for number in line.shape.lines if number <= last])
        for line in candidates
        if line is not header and not line.place
    ]
    return [
        line
        for line, numbers in inside
        if numbers and len(bodies.intersection(numbers)) >= _MOSTLY * len(numbers)
    ]


def _body(lines: Sequence[bytes], number: int) -> range:
    """The numbers of the lines below a header that are indented further or bulleted."""
    end, margin = number + 1, _margin(lines[number])
    while end < min(len(lines), number + _LONGEST) and _is_inside(lines[end], margin):
        end += 1
    return range(number + 1, end if end > number + 2 else number + 1)


def _is_inside(line: bytes, margin: int) -> bool:
    return _INSIDE.match(line) is not None and (margin == 0 or _margin(line) > margin)


def _margin(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def stands_above(line: Candidate, header: Candidate, lines: Sequence[bytes]) -> bool:
    """Whether it is a pair of a document, as the header is, and stands above the header in each record."""
    first, count = line.shape.first, line.shape.count - header.shape.count
    pairs = [lines[first], lines[header.shape.first]]
    margin = _margin(pairs[1])
    if first > header.shape.first or _margin(pairs[0]) != margin or not all(map(_PAIR.fullmatch, pairs)):
        return False
    ends = [*line.shape.lines[1:], len(lines)]
    rows = list(zip(line.shape.lines, header.shape.lines, ends, strict=False))
    return (
        count in (0, 1)
        and all(  # 1: the log ends within a record
            a < b < c and not _parted(lines[a:b], margin) and (c == len(lines) or _parted(lines[b:c], margin))
            for a, b, c in rows
        )
    )


def _parted(between: Sequence[bytes], margin: int) -> bool:
    """Whether a document ends: a line is blank, stands further left, or is no pair where nothing is indented."""
    return any(
        not line.strip() or _margin(line) < margin or (margin == 0 and not _PAIR.fullmatch(line))
        for line in between
    )
