"""A shape with names -> a `[[lines]]` table of a log format (docs/log-formats.md): one anchored pattern.

It begins at the name of the first value that is kept, so timestamps and ranks stand before it, and ends with the
last literal. Values that are not kept are matched and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gputel.analysis.logs import values
from gputel.analysis.logs.infer.counters import has_fractions
from gputel.analysis.logs.infer.named import SETTING, Named, is_place
from gputel.analysis.logs.infer.shapes import CUTOFF, ORDINAL, PADDED, UNIT, LineShape, numbered_name

_ANY = r"\S+(?: \S+)?"
# the rest of a date that another process wrote into the number: `2.042026-05-31 10:15:32`
_DATE = r"-\d\d-\d\d[ T]"
_GLUED = "[A-Z]{4,}:"  # a line of another program that begins behind the last figure: `0.85WARNING:`
_NUMBER = f"(?:{values.GRAMMAR.decode()}|N/A|n/a|None|null|-)"
_IGNORED = {"number": _NUMBER, "clock": values.TIME_GRAMMAR.decode()}
_PLAIN = r"[^\s|,;]+"  # enough to recognize a torn line
_NOTHING = (b"N/A", b"n/a", b"None", b"null", b"-")
_ORDINAL = re.compile(ORDINAL)
_CUTOFF = re.compile(CUTOFF.decode() + r"(?:\d*\.)?$")
_LONGEST_END = 60
_SLOT = re.compile(r"<[^\W\d_]\w*(?::[\w/%]*)?(?::[^<>]+)?>")
_LONGER = re.compile(rb"[A-Za-z][A-Za-z _-]*[ _-]\Z")  # words right before a name
_EPOCH = re.compile(r"(?i)\bepochs?\W*$")
_LETTERS = re.compile(r"[^\W\d_]+(?:[ _-][^\W\d_]+)*")
_ROW = r"^[-+.\d]+[eE\d.+-]*(?:,[-+.\deEnaif]*){2,}$"  # of a table, with more cells or fewer
_LOOSE = re.compile(r"(\|[^|\w]*[─-▟╸][^|\w]*\||(?<=%)\|[^|\w]*\||[\[|][=#>. -]{5,}[\]|]|[─-▟╸]+|\s+|\d+|�+)")


@dataclass(frozen=True)
class LineTable:
    """One `[[lines]]` table of a format."""

    name: str
    role: str
    line: str
    needle: str
    looks: str | None = None
    fractions: bool = False  # whether epochs have fractions, so that none is a step
    is_record: bool = False  # whatever it gives
    total: int | None = None  # of the records, where it announces a loop of another one
    ends: int | None = None  # the first epoch, where it stands below the records of its epoch
    is_of_above: bool = False  # whether an evaluation without a step is of the record above it
    unless: str | None = None  # what another name before the same words looks like

    def toml(self) -> str:
        rows = [("name", self.name), ("role", self.role), ("needle", self.needle), ("line", self.line)]
        rows += [("looks", self.looks)] if self.looks else []
        rows += [("unless", self.unless)] if self.unless else []
        rows += [("epochs", "fraction")] if self.fractions else []
        rows += [("record", "always")] if self.is_record else []
        rows += [("of", "above")] if self.is_of_above else []
        counts = [("total", self.total), ("ends", self.ends)]
        return "".join(
            [
                "[[lines]]\n",
                *(f"{key} = {quoted(value)}\n" for key, value in rows),
                *(f"{key} = {value}\n" for key, value in counts if value is not None),
            ]
        )


def compile_line(
    name: str, role: str, shape: LineShape, named: list[Named], *, looks: bool, unlike: Sequence[bytes] = ()
) -> LineTable:
    """Compiles a shape; `unlike` are lines of other kinds, which `looks` must not match."""
    used = [cell.at for cell in named if cell.column or cell.only]
    named_before = (
        cell.at
        for cell in named[: used[0]]
        if cell.slot.column in ("counted", SETTING) or shape.words[cell.at].endswith(b"#")
    )
    # `Test net output #1: loss`, `accuracy: 1/2=0.5`, `accuracy (IoU=0.5): 0.31`
    start, end = next(named_before, used[0]), used[-1]
    if role == "eval_bar" and not any(map(str.isalpha, _key_text(shape, start))):
        start = max(start - 1, 0)  # `valid:  50%|###  | 4/8`, beside a bar that begins with `train:`
    parts = [_start(shape, start)]
    literals: list[str] = [_key_text(shape, start)]
    for at in range(start, end + 1):
        parts.append(_value(shape, named[at]))
        literals.append(shape.words[at + 1].decode(errors="replace"))
        parts.append(_between(shape.words[at + 1]) if at < end else _end(shape, end))
    torn = _looks(parts, unlike) if looks and any(c.isalpha() for c in literals[0]) else None
    torn = _ROW if looks and _is_row(shape) else torn
    needle = _needle(literals[:1] if torn and torn != _ROW else literals) or _common(shape)
    fractions = any(cell.column == "epoch" and has_fractions(shape.column(cell.at)) for cell in named)
    return LineTable(name, role, "".join(parts), needle, torn, fractions)


def longer_names(line: str, others: Sequence[LineShape]) -> str | None:
    """A regex for longer names in lines of other kinds in which `line` is found: `Avg Loss:` for `Loss:`."""
    regex = re.compile(_SLOT.sub(lambda _: _PLAIN, line).encode())
    names: dict[str, None] = {}
    for shape in others:
        found = regex.search(shape.example)
        end = 0
        for word, value in zip(shape.words, shape.rows[0], strict=False):
            begin, end = end, end + len(word)
            longer = _LONGER.search(word[: found.start() - begin]) if found and found.start() < end else None
            if longer:
                names[_loose(word[longer.start() :])] = None
            if found and found.start() < end:
                break
            end += len(value)
    return "|".join(names) or None


def without_numbers(text: str) -> str:
    """The text of a heading, with which `compile_words` takes any numbers in the place of its own."""
    return re.sub(r"\d+", "0", text)


def compile_words(name: str, role: str, words: str) -> LineTable | None:
    """Compiles a line of words, in which `0` stands for any number, or the epoch; None if it has no needle."""
    needle = max(_LETTERS.findall(words), key=len, default="")
    if not needle or "�" in words:
        return None
    first, *parts = [re.escape(part).replace("<", r"\x3c").replace(r"\-", "-") for part in words.split("0")]
    epoch = "<epoch>" if _EPOCH.search(first) else r"\d+"
    line = first + (epoch + r"\d+".join(parts) if parts else "")
    return LineTable(name, role, line.replace(r"\ ", " "), needle)


def quoted(text: str) -> str:
    """A literal string of TOML."""
    return f"'{text}'" if "'" not in text else f"'''{text}'''"


def _start(shape: LineShape, at: int) -> str:
    """The words before the first value that belong to it, as a regex."""
    text = _key_text(shape, at)
    if at == 0 and not shape.cut and text == shape.words[0].decode(errors="replace").lstrip():
        return r"^\s*" + _literal(text.encode())
    if not text:
        return r"(?<!\d)(?:(?<!\d:)|(?<=:\d\d:\d\d:))"  # not within the clock before the row
    return (r"(?<!\w)" if text[:1].isalnum() else "") + _literal(text.encode())


def _key_text(shape: LineShape, at: int) -> str:
    if at == 0:
        return shape.words[at].decode(errors="replace").lstrip()
    unit = UNIT.match(shape.words[at])
    text = shape.words[at][unit.end() if unit else 0 :].decode(errors="replace")
    pieces = re.split(r"[|,;~{}\t•]|  |>>|->|\)\s|\]\s|\s-\s", text)
    return pieces[-1].lstrip() if any(c.isalpha() for c in pieces[-1]) else text.lstrip()


def _value(shape: LineShape, cell: Named) -> str:
    if cell.only:
        return "0*" + re.escape(cell.only)
    if cell.column is None:
        return _IGNORED.get(cell.slot.kind, _ANY)
    unit = "clock" if cell.slot.kind == "clock" else values.plain(cell.unit or "")
    source = re.sub(r"[<>:]", "", cell.source) if cell.source != cell.column else ""
    slot = "<" + f"{cell.column}:{unit}:{source}".rstrip(":") + ">"
    if is_place(cell) and all(value.endswith(b".0") for value in shape.column(cell.at)):
        return slot + r"\.0"
    if cell.never:
        slot = rf"(?!{re.escape(cell.never)}(?![\w.])){slot}"
    gaps = any(value in _NOTHING for value in shape.column(cell.at))
    return f"(?:{slot}|{'|'.join(word.decode() for word in _NOTHING)})" if gaps else slot


def _between(text: bytes) -> str:
    """The literal between two values; a blank is required where nothing else separates them."""
    padding = r"\s*" if text.endswith(PADDED) else ""
    return _literal(text) + padding if text.strip() or not text else r"\s+"


def _literal(text: bytes) -> str:
    """A regex for the text, in which blanks, bars and digits within words may differ; escapes `<`."""
    ordinal = _ORDINAL.match(text)
    if ordinal:
        return "(?:st|nd|rd|th)" + _literal(text[ordinal.end() :])
    name = numbered_name(text)
    if 0 < name < len(text):
        return _loose(text[:name]) + _loose(text[name:], exact=True)
    return _loose(text, exact=name == 0)


def _loose(text: bytes, *, exact: bool = False) -> str:
    words = _LOOSE.split(text.decode(errors="replace"))
    pieces = []
    for at, word in enumerate(words):
        is_name = exact or _CUTOFF.search("".join(words[max(0, at - 4) : at])) is not None
        pieces.append(_piece(word, at == 0 or at == len(words) - 2, is_name))
    return "".join(pieces)


def _piece(word: str, at_edge: bool, exact: bool) -> str:
    if not word:
        return ""
    if word.isspace():
        return r"\s*" if at_edge or len(word) > 1 else r"\s+"
    if word.isdigit():
        return word if exact else r"\d+"
    if len(word) > 2 and word[0] in "[|" and word[-1] in "]|" and _LOOSE.fullmatch(word):
        return re.escape(word[0]) + r"[^\w|\]]*" + re.escape(word[-1])
    if "─" <= word[0] <= "▟":
        return r"\S+"
    return ".{1,4}" if word[0] == "�" else re.escape(word).replace("<", r"\x3c").replace(r"\-", "-")


def _end(shape: LineShape, at: int) -> str:
    rest = shape.words[at + 1].rstrip()
    if not rest:
        if shape.slots > at + 1:
            return ""
        return r"(?![\w.,+-]*\w)" if _is_row(shape) else rf"(?!(?!{_GLUED})[\w.]*\w|{_DATE})"
    whole = shape.slots == at + 1 and len(rest) <= _LONGEST_END
    return _literal(rest if whole else rest[:2].rstrip())


def _is_row(shape: LineShape) -> bool:
    """Whether it is numbers with commas between them."""
    return set(shape.literals[1:-1]) == {b","} and not shape.words[0]


def _needle(literals: list[str]) -> str:
    """The longest run of letters and signs in the literals: every such line has it."""
    runs = [run for text in literals for run in _LOOSE.split(text)[::2]]
    return max(runs, key=len, default="")


def _common(shape: LineShape) -> str:
    """A sign that all lines have, where they are numbers alone."""
    rows = [shape.line(row) for row in shape.rows]
    signs = ("|", ",", "\t", ".", " ")
    return next((sign for sign in signs if all(sign.encode() in row for row in rows)), "")


def _looks(parts: list[str], unlike: Sequence[bytes]) -> str | None:
    """A regex for the beginning of the line, which a torn line still has; None if other lines match it."""
    for size in range(1 if len(parts) < 5 else 3, len(parts) - 1, 2):
        head = "".join(parts[:size])
        looks = _SLOT.sub(lambda _: _PLAIN, head)
        regex = re.compile(looks.encode())
        if not any(regex.search(other) for other in unlike):
            return looks
    return None
