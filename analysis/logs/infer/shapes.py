"""Lines of an unknown log -> the few shapes that they come in: literals with values between them.

Every number, clock and placeholder of a line is masked; lines whose other parts are equal have one shape. A shape
keeps the values of some of its lines, since only values tell a counter from a measurement. The lines come without
their prefixes (`line_prefixes`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from gputel.analysis.logs import values
from gputel.analysis.logs.languages import english
from gputel.analysis.logs.line_prefixes import STAMP

KEPT_ROWS = 400
KEPT_TURNS = 5  # beyond: lines whose first value differs from that of the line before, such as a later epoch
MOST_SHAPES = 20_000
LONGEST = 4000

_UNIT = (
    rb"(?:ms|us|\xc2\xb5s|ns|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|%%|[KkMGTB]i?[Bb]|[KkMGBT]"
    rb"|[A-Za-z]{1,10}/(?:sec(?:ond)?|s|it(?:er)?|step|batch|update|gpu/s|s/gpu|GPU)|/(?:s|sec|it)|[TPG]FLOP/?S|[TPG]?FLOPs?(?:/s)?|dB|W|J|z)"
) % ()
UNIT = re.compile(  # `R:116.3 M:0.8` names the next value
    rb"(?P<gap> )?(?P<unit>%b)(?:(?<=[kKM])(?= ?/ *\Z)|(?![\w/?]|\.\d|\s*=|:\S)(?(gap)(?!: ?\Z)))" % _UNIT
)
SUFFIX = re.compile(rb"(?P<suffix>[kKMBGT])(?= ?[A-Za-z]{1,10}/s)")  # 81.2k tok/s
_COUNTED = rb"(?:epochs?|batch(?:es)?|iters?|steps?)"
COUNTED = re.compile(_COUNTED + rb"(?![\w/])")  # 1epoch, 100batch
ORDINAL = rb"(?:st|nd|rd|th)\b"  # 1st step
NUMBER = values.GRAMMAR
_RATE = rb"[kKMBGT]? ?[A-Za-z]{1,10}/(?:s|sec|it|iter|step|batch|update)\b"
# E01, B0010/0938, step100: what says the place may be glued to it
_GLUED = rb"|".join(
    rb"(?<=\b%b)" % word
    for word in (
        b"[EBSI]",
        b"[Ee]p",
        b"[Ii]t",
        b"[Ee]poch",
        b"[Ss]tep",
        b"[Ii]ter",
        b"[Bb]atch",
        b"[Ii]teration",
    )
)
_TUPLE = re.compile(rb"\(u?['\"]")
_ITEM = re.compile(rb"\(?(?:, )?(?:u?(?P<mark>['\"])(?P<said>[^'\"]*)(?P=mark))?(?:, )?\)?")
VALUE = re.compile(
    rb"(?!(?:(?<=[Tt]op[ -])|(?<=TOP[ -])|(?<=R(?:ank|ANK)-))(?:1|2|3|5|10|20|50|100)(?![\d.%%]))"  # `top 5`
    rb"(?:(?:%b)\d+(?=[]/:;,)|]|\s|$)|(?<=\be)\d+(?=[,:|\]]? +(?:(?:it|iter|batch|step)s?\b|[bs]s?(?:\b|\d)))"
    rb"|(?<=\d [bs])\d+(?=[]/:,)|]|\s|$)"  # `e01 b0010`
    rb"|(?<![\w.])(?<!\w@)(?<!cuda:)"
    rb"(?:%b|%b|(?!(?:(?<=\]\[)|(?<=\]\[ )|(?<=\]\[  ))\d+:\d+\])"  # `[Epoch 1/9][ 10:78]`
    rb"(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:\.\d+)?(?: ?[AaPp][Mm]\b)?(?![\w:])"
    % (_GLUED, STAMP, values.DURATION_GRAMMAR)
    + rb"|(?:%b)(?!(?<=\.)(?:\s+[A-Za-z]|\.))(?=(?:%b)(?![\w/])|[kKM] ?/ *\d[\d.]*[kKMB]\b"
    rb"|(?<=[\d.])%b|(?<=\d)%b\b|(?<=\d)%b|(?!\w|\.\w)))"
    % (NUMBER, _UNIT, _RATE, _COUNTED, ORDINAL)
    + rb"|(?:(?<=[=:])|(?<=[=:] ))(?:N/A|n/a|None|null|-)(?=[\s,;|)\]}]|$))"
)
PLAIN_ROW = re.compile(rb"[\d.,eE+\-naifNAIF]+")
_CELL = re.compile(rb"[^,]+")
PADDED = (b"[", b"(", b":", b"=", b"|")  # a number stands behind it with blanks or without
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
BAR = b"\x02"  # stands for a drawn bar, of whatever length
_GLYPH = rb"\xe2(?:\x94[\x80\x81\x84-\xbf]|[\x95-\x97][\x80-\xbf])"  # box drawing and blocks, but for │ and ┃
_SIGN = rb"\xe2(?:\x96[\xa0-\xbf]|\x97[\x80-\xbf])"  # `▶`, `●`, `■`: alone it draws nothing
_GLYPHS = re.compile(rb"(?:\||(?<=\[)|(?! *%b(?! *%b)))(?: *(?:%b)+)+ *\|?" % (_SIGN, _GLYPH, _GLYPH))
# `├── loss`, `═══ Epoch 3`: what a line begins with
_LEADS = re.compile(
    rb"(?:[\s|]|\xe2\x94[\x82\x83])*(?:%b){1,3}(?!%b)[\s|]*(?=[A-Za-z\[(]|\Z)" % (_GLYPH, _GLYPH)
)
_DRAWN_BAR = re.compile(
    rb"[\[|](?:[=#>.-]{5,}|=*>[. ]*)[\]|]|\[(?=[^\]]{8,}\])[=#*>-]*[ .]+\]"  # `[===      ]`
)
# `[====== 391/391 =====>]`, drawn around its count
_BAR_WITH_COUNT = re.compile(rb"\[[=#>.-]{5,} ?$|^ ?[=#>.-]{5,}\]")
_EMPTY_BAR = re.compile(rb"%\|[^|\w]*\|")
NUMBERED = re.compile(rb"[\s|>*-]*[A-Za-z_]+[\w./]*[_a-z]\d[\w./]*\s*[:=]")  # `loss_0: `, `top5=`
# `top 5`, `Rank-1` and `recall@10` are names; digits elsewhere in a text may be any
CUTOFF = rb"(?i:@|(?<![a-z])top[-_ ]?|(?<![a-z])rank-)"
_CUTOFF_SIGNS = (b"@", b"op", b"OP", b"nk-", b"NK-")  # looking for them is fast
_CUTOFF_NAME = re.compile(rb"%b(?:\d*\.)?\d+" % CUTOFF)
_COUNTS = re.compile(rb"(%b(?:\d*\.)?\d+)|\d+" % CUTOFF)
_NUMBERED_END = re.compile(rb"(?:^|(?<=[\])\t]))" + NUMBERED.pattern + rb"\Z")
_FIRST_NAME = re.compile(rb"(?:\[[\d.:/| -]+\]\s*)?(" + NUMBERED.pattern + rb")")
_ORDINAL = re.compile(b"^" + ORDINAL)
_WITHIN_DATE = re.compile(rb"[-:T]+")
_LAST_DAY, _FIRST_YEAR, _LAST_YEAR = 31, 1970, 2100
_WIDE = re.compile(rb"\t\s*|\s\s+")


@dataclass(eq=False)
class LineShape:
    """Lines that differ only in their values, with one more literal than values around them."""

    literals: tuple[bytes, ...]
    words: tuple[bytes, ...]  # the literals of the first such line, unchanged
    first: int
    cut: bool  # whether a prefix stood before it
    count: int = 0
    rows: list[list[bytes]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    begins: bytes = b""  # the last kept line as far as its first value
    last: tuple[int, bytes] = (-1, b"")

    def keep(self, number: int, rest: bytes) -> None:
        words, row = cut(rest)
        self.rows.append(row)
        self.lines.append(number)
        self.begins = words[0] + row[0] + words[1][:1]

    def column(self, at: int) -> list[bytes]:
        return [row[at] for row in self.rows]

    @property
    def example(self) -> bytes:
        """The first such line, without its prefix."""
        return self.line(self.rows[0])

    def line(self, row: list[bytes]) -> bytes:
        """A line of this shape with these values, in the words of the first."""
        return b"".join(part for pair in zip(self.words, [*row, b""], strict=True) for part in pair)

    @cached_property
    def english(self) -> tuple[bytes, ...]:
        """The words in English, as far as rules look for them."""
        return tuple(map(english, _unquoted(self.words)))

    @property
    def repeats(self) -> bool:
        """Whether few of its values differ, as where a program that is started again prints its settings."""
        return all(2 * len({*self.column(at)}) < self.count for at in range(self.slots))

    @property
    def spoken(self) -> bytes:
        """The first such line in English, without its prefix."""
        return b"".join(
            part for pair in zip(self.english, [*self.rows[0], b""], strict=True) for part in pair
        )

    @property
    def is_bar(self) -> bool:
        """Whether it is a progress bar, and no heading with a line drawn in front of it or on either side."""
        drawn = b"".join(self.literals)
        framed = drawn.lstrip().startswith(BAR) and drawn.rstrip().endswith(BAR) and drawn.count(BAR) == 2
        leads = _LEADS.match(self.words[0])
        leads = leads if BAR in self.literals[0] else None
        same = leads is not None and self.begins.startswith(leads[0])  # a bar would have grown
        return drawn.count(BAR) > same and not framed

    @property
    def is_boxed(self) -> bool:
        """Whether it is one row of a table of names and values, with `|` on either side."""
        edges = (self.words[0].lstrip()[:1], self.words[-1].rstrip()[-1:])
        return self.slots == 1 and edges == (b"|", b"|")

    @cached_property
    def dated(self) -> frozenset[int]:
        """The values of a date that stands between others, `Time: 02/05/2018--11:41`, and of its hour."""
        dated: set[int] = set()
        for at in range(self.slots - 2):
            slashed = self.words[at + 1] == self.words[at + 2] == b"/"
            if slashed and _is_date([self.column(part) for part in range(at, at + 3)]):
                hour = range(at + 3, self.slots)
                end = next(
                    (value for value in hour if not _WITHIN_DATE.fullmatch(self.words[value])), self.slots
                )
                dated.update(range(at, end))
        return frozenset(dated)

    @property
    def slots(self) -> int:
        return len(self.literals) - 1


def _is_date(columns: Sequence[Sequence[bytes]]) -> bool:
    """Whether three columns are day, month and year, or the year first."""
    if not all(value.isdigit() for column in columns for value in column):
        return False
    first, second, third = ((min(part), max(part)) for part in ([*map(int, column)] for column in columns))
    days, year = ((first, second), third) if third[0] > _LAST_DAY else ((second, third), first)
    return year[0] >= _FIRST_YEAR and year[1] < _LAST_YEAR and all(0 < a <= b <= _LAST_DAY for a, b in days)


def line_shapes(lines: Sequence[bytes], bare: Sequence[bytes]) -> list[LineShape]:
    """The shapes in order of first appearance; `bare` are the lines without prefixes."""
    shapes: dict[tuple[bytes, ...], LineShape] = {}
    by_text: dict[bytes, LineShape | None] = {}  # by line with all digits alike, most of which recur
    for number, (line, rest) in enumerate(zip(lines, bare, strict=True)):
        if len(line) > LONGEST:
            continue
        alike = _alike(rest)
        shape = by_text[alike] if alike in by_text else _shape(shapes, number, line, rest)
        if len(by_text) < MOST_SHAPES:
            by_text[alike] = shape
        if shape is None:
            continue
        shape.count += 1
        if shape.count <= KEPT_ROWS:
            shape.keep(number, rest)
        elif len(shape.rows) < KEPT_ROWS + 2 * KEPT_TURNS and not rest.startswith(shape.begins):
            before, last = shape.last
            if before > shape.lines[-1]:
                shape.keep(before, last)
            shape.keep(number, rest)
        shape.last = number, rest
    return list(shapes.values())


def _alike(text: bytes) -> bytes:
    """The text with all digits alike, but for those of a name such as `top5: `."""
    name = _FIRST_NAME.match(text)
    alike = _digits_alike(text)
    return alike[: name.start(1)] + name[1] + alike[name.end() :] if name else alike


def _digits_alike(text: bytes) -> bytes:
    """The text with all digits alike, but for those of `top 5`, `Rank-1` and `recall@10`."""
    alike = text.translate(_ALIKE)
    if any(sign in text for sign in _CUTOFF_SIGNS):
        for name in _CUTOFF_NAME.finditer(text):
            alike = alike[: name.start()] + name[0] + alike[name.end() :]
    return alike


def _shape(
    shapes: dict[tuple[bytes, ...], LineShape], number: int, line: bytes, rest: bytes
) -> LineShape | None:
    """The shape of this line; None where it has no value, or there are too many shapes already."""
    words, values = cut(rest)
    literals = masked(words)
    if values and literals not in shapes and len(shapes) < MOST_SHAPES:
        prefixed = len(rest) < len(line.lstrip())
        shapes[literals] = LineShape(literals, words, number, prefixed)
    return shapes.get(literals) if values else None


def cut(text: bytes) -> tuple[tuple[bytes, ...], list[bytes]]:
    """The values of a line, and the literals around them."""
    spans = _spans(_digits_alike(text))
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(text)]
    literals = tuple(text[start:end] for start, end in zip(starts, ends, strict=True))
    return literals, [text[start:end] for start, end in spans]


def _unquoted(words: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The words of a tuple, as Python 2 prints `print("loss at", 10, ":", 2.5)`: `('loss at', 10, ':', 2.5)`."""
    if not (_TUPLE.match(words[0]) and words[-1].endswith(b")")):
        return words
    pieces = [_ITEM.fullmatch(literal) for literal in words]
    said = [piece["said"] or b"," if piece else b"" for piece in pieces]
    whole = all(pieces) and any(piece and piece["said"] for piece in pieces[1:])
    return (*(word.strip() + b" " for word in said[:-1]), said[-1].strip(b" ,")) if whole else words


@lru_cache(maxsize=4096)
def _spans(text: bytes) -> tuple[tuple[int, int], ...]:
    """Where the values of a line stand, in text whose digits are all alike."""
    value = _CELL if b"," in text and PLAIN_ROW.fullmatch(text) else VALUE
    return tuple(match.span() for match in value.finditer(text))


def without_unit(literal: bytes) -> bytes:
    """The literal behind a value, without its unit."""
    unit = UNIT.match(literal)
    return _normalized(literal[unit.end() :], after_value=True, before_value=True) if unit else literal


def numbered_name(literal: bytes) -> int:
    """Where the name with a number begins that the literal ends with, as `top5` does; else the end."""
    found = _NUMBERED_END.search(literal.rstrip())
    return found.start() if found else len(literal)


def masked(literals: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Literals with normalized blanks and digits."""
    last = len(literals) - 1
    return tuple(_normalized(literal, at > 0, at < last) for at, literal in enumerate(literals))


@lru_cache(maxsize=8192)
def _normalized(literal: bytes, after_value: bool, before_value: bool) -> bytes:
    """Normalizes blanks: padding beside a number is one blank, a gap between words is two."""
    if len(literal) < 4 and not literal.strip():
        return b" " if literal else b""
    text = _GLYPHS.sub(BAR, literal)
    text = _EMPTY_BAR.sub(b"%" + BAR, _BAR_WITH_COUNT.sub(BAR, _DRAWN_BAR.sub(BAR, text)))
    text = _ORDINAL.sub(b"th", text) if after_value else text
    name = numbered_name(text)
    text = _COUNTS.sub(lambda digits: digits[1] or b"0", text[:name]) + text[name:]
    text = _WIDE.sub(b"  ", text)
    if after_value and text[:1].isspace():
        text = b" " + text.lstrip()
    if before_value and text[-1:].isspace():
        text = text.rstrip()
        text += b"" if text.endswith(PADDED) else b" "
    return text if before_value else text.rstrip()
