"""Lines of an unknown log -> the few shapes that they come in: literals with numbers between them.

Every number, clock and placeholder of a line is masked; lines with equal rests are of one shape. A shape keeps the
values of some of its lines, since only values tell a counter from a measurement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from gputel.analysis.parse import numbers
from gputel.analysis.parse.infer.margins import STAMP

KEPT_ROWS = 400
MOST_SHAPES = 20_000
LONGEST = 4000

_UNIT = (
    rb"(?:ms|us|\xc2\xb5s|ns|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|%%|[KkMGTB]i?[Bb]|[KkMGBT]"
    rb"|[A-Za-z]{1,10}/(?:sec(?:ond)?|s|it(?:er)?|step|batch|gpu/s|s/gpu|GPU)|/(?:s|sec|it)|[TPG]FLOP/?S|[TPG]?FLOPs?(?:/s)?|W|J|z)"
) % ()
UNIT = re.compile(rb" ?(?P<unit>%b)(?![\w/?]|\.\d|\s*=|:\S)" % _UNIT)
SUFFIX = re.compile(rb"(?P<suffix>[kKMBGT])(?= ?[A-Za-z]{1,10}/s)")  # 81.2k tok/s
_COUNTED = rb"(?:epochs?|batch(?:es)?|iters?|steps?)"
COUNTED = re.compile(_COUNTED + rb"(?![\w/])")  # 1epoch, 100batch
NUMBER = numbers.GRAMMAR
_RATE = rb"[kKMBGT]? ?[A-Za-z]{1,10}/(?:s|sec|it|iter|step|batch)\b"
# E01, B0010/0938, step100: what says the place may be glued to it
_GLUED = rb"|".join(
    rb"(?<=\b%b)" % word for word in (b"[EBSI]", b"[Ee]p", b"[Ii]t", b"[Ee]poch", b"[Ss]tep", b"[Ii]ter")
)
VALUE = re.compile(
    rb"(?:%b)\d+(?=[]/:,)|]|\s|$)|(?<![\w.])(?<!\w@)(?<!cuda:)"
    rb"(?:%b|%b|(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:\.\d+)?(?![\w:])"
    % (_GLUED, STAMP, numbers.DURATION_GRAMMAR)
    + rb"|(?:%b)(?!(?<=\.)\s+[A-Za-z])(?=(?:%b)(?![\w/])|(?<=[\d.])%b|(?<=\d)%b\b|(?!\w|\.\w)))"
    % (NUMBER, _UNIT, _RATE, _COUNTED)
    + rb"|(?:(?<=[=:])|(?<=[=:] ))(?:N/A|n/a|None|null|-)(?=[\s,;|)\]}]|$)"
)
_PLAIN_ROW = re.compile(rb"[\d.,eE+\-naifNAIF]+")
_CELL = re.compile(rb"[^,]+")
PADDED = (b"[", b"(", b":", b"=", b"|")  # a number stands behind it with blanks or without
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
BAR = b"\x02"  # stands for a drawn bar, of whatever length
_GLYPH = rb"\xe2(?:\x94[\x80\x81\x84-\xbf]|[\x95-\x97][\x80-\xbf])"  # box drawing and blocks, but for │ and ┃
_GLYPHS = re.compile(rb"\|?(?: *(?:%b)+)+ *\|?" % _GLYPH)
_DRAWN_BAR = re.compile(rb"[\[|](?:[=#>.-]{5,}|=*>[. ]*)[\]|]")
_EMPTY_BAR = re.compile(rb"%\|[^|\w]*\|")
_WIDE = re.compile(rb"\t\s*|\s\s+")


@dataclass(eq=False)
class Shape:
    """`literals` stand around the values: one more of them than of values."""

    literals: tuple[bytes, ...]
    words: tuple[bytes, ...]  # the literals of the first such line as they stand there
    first: int
    cut: bool  # whether a prefix stood before it
    count: int = 0
    rows: list[list[bytes]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def column(self, at: int) -> list[bytes]:
        return [row[at] for row in self.rows]

    @property
    def example(self) -> bytes:
        """The first such line, without its margin."""
        return self.line(self.rows[0])

    def line(self, row: list[bytes]) -> bytes:
        """A line of this shape with these values, in the words of the first."""
        return b"".join(part for pair in zip(self.words, [*row, b""], strict=True) for part in pair)

    @property
    def is_bar(self) -> bool:
        """A progress bar, which is drawn again and again."""
        return any(BAR in literal for literal in self.literals)

    @property
    def is_boxed(self) -> bool:
        """One row of a table of names and values, with a rule on either side."""
        edges = (self.words[0].lstrip()[:1], self.words[-1].rstrip()[-1:])
        return self.slots == 1 and edges == (b"|", b"|")

    @property
    def slots(self) -> int:
        return len(self.literals) - 1


def shapes(lines: Sequence[bytes], bare: Sequence[bytes]) -> list[Shape]:
    """In the order of first appearance; `bare` are the lines without what stands before their records."""
    found: dict[tuple[bytes, ...], Shape] = {}
    known: dict[
        bytes, Shape | None
    ] = {}  # by lines with all digits alike, most of which come again and again
    for number, (line, rest) in enumerate(zip(lines, bare, strict=True)):
        if len(line) > LONGEST:
            continue
        alike = rest.translate(_ALIKE)
        shape = known[alike] if alike in known else _shape(found, number, line, rest)
        if len(known) < MOST_SHAPES:
            known[alike] = shape
        if shape is None:
            continue
        shape.count += 1
        if shape.count <= KEPT_ROWS:
            shape.rows.append(cut(rest)[1])
            shape.lines.append(number)
    return list(found.values())


def _shape(found: dict[tuple[bytes, ...], Shape], number: int, line: bytes, rest: bytes) -> Shape | None:
    """That of this line; None where it has no value, or there are too many shapes already."""
    words, values = cut(rest)
    literals = masked(words)
    if values and literals not in found and len(found) < MOST_SHAPES:
        prefixed = len(rest) < len(line.lstrip())
        found[literals] = Shape(literals, words, number, prefixed)
    return found.get(literals) if values else None


def cut(text: bytes) -> tuple[tuple[bytes, ...], list[bytes]]:
    """The values of a line, and the literals around them."""
    spans = _spans(text.translate(_ALIKE))
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(text)]
    literals = tuple(text[start:end] for start, end in zip(starts, ends, strict=True))
    return literals, [text[start:end] for start, end in spans]


@lru_cache(maxsize=4096)
def _spans(text: bytes) -> tuple[tuple[int, int], ...]:
    """Where the values of a line stand; which digits they are made of makes no difference."""
    value = _CELL if b"," in text and _PLAIN_ROW.fullmatch(text) else VALUE
    return tuple(found.span() for found in value.finditer(text))


def without_unit(literal: bytes) -> bytes:
    """What stands behind a value, but for its unit."""
    unit = UNIT.match(literal)
    return literal[unit.end() :] if unit else literal


def masked(literals: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Literals with their blanks and digits evened out."""
    last = len(literals) - 1
    return tuple(_even(literal, at > 0, at < last) for at, literal in enumerate(literals))


@lru_cache(maxsize=8192)
def _even(literal: bytes, after_value: bool, before_value: bool) -> bytes:
    """Blanks beside a number are padding; two of them between words set columns apart, as a tab does."""
    if len(literal) < 4 and not literal.strip():
        return b" " if literal else b""
    text = _GLYPHS.sub(BAR, literal)
    text = _EMPTY_BAR.sub(b"%" + BAR, _DRAWN_BAR.sub(BAR, text))
    text = re.sub(rb"\d+", b"0", text)
    text = _WIDE.sub(b"  ", text)
    if after_value and text[:1].isspace():
        text = b" " + text.lstrip()
    if before_value and text[-1:].isspace():
        text = text.rstrip()
        text += b"" if text.endswith(PADDED) else b" "
    return text if before_value else text.rstrip()
