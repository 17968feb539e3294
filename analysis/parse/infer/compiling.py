"""A named shape -> a `[[lines]]` table of a log format: one anchored pattern, as docs/log-formats.md has them.

The pattern begins where the first value that is kept has its name, so that stamps and ranks stand before it, and
ends with the last literal. Whatever is not kept is matched and forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gputel.analysis.parse import numbers, units
from gputel.analysis.parse.infer.places import Named
from gputel.analysis.parse.infer.shapes import PADDED, UNIT, Shape

_ANY = r"\S+(?: \S+)?"
_NUMBER = f"(?:{numbers.GRAMMAR.decode()}|N/A|n/a|None|null|-)"
_FORGOTTEN = {"number": _NUMBER, "clock": numbers.TIME_GRAMMAR.decode()}
_PLAIN = r"[^\s|,;]+"  # enough to recognise a torn line
_NOTHING = (b"N/A", b"n/a", b"None", b"null", b"-")
_LONGEST_END = 60
_LOOSE = re.compile(r"(\|[^|\w]*[─-▟╸][^|\w]*\||(?<=%)\|[^|\w]*\||[\[|][=#>. -]{5,}[\]|]|[─-▟╸]+|\s+|\d+|�+)")


@dataclass(frozen=True)
class Line:
    """One `[[lines]]` table."""

    name: str
    role: str
    line: str
    needle: str
    looks: str | None = None
    fractions: bool = False  # an epoch with a fraction, which is no step even where it is whole

    def toml(self) -> str:
        rows = [("name", self.name), ("role", self.role), ("needle", self.needle), ("line", self.line)]
        rows += [("looks", self.looks)] if self.looks else []
        rows += [("epochs", "fractions")] if self.fractions else []
        return "[[lines]]\n" + "".join(f"{key} = {quoted(value)}\n" for key, value in rows)


def line(
    name: str, role: str, shape: Shape, named: list[Named], *, looks: bool, unlike: Sequence[bytes] = ()
) -> Line:
    """`unlike` are lines of other kinds, which do not look like this one, however they begin."""
    kept = [one.at for one in named if one.column]
    ordinals = (at for at in range(kept[0]) if shape.words[at].endswith(b"#"))
    start, end = next(ordinals, kept[0]), kept[-1]  # `Test net output #1: loss` belongs together
    parts = [_start(shape, start)]
    literals: list[str] = [_key_text(shape, start)]
    for at in range(start, end + 1):
        parts.append(_value(shape, named[at]))
        literals.append(shape.words[at + 1].decode(errors="replace"))
        parts.append(_between(shape.words[at + 1]) if at < end else _end(shape, end))
    torn = _looks(parts, unlike) if looks and any(c.isalpha() for c in literals[0]) else None
    needle = _needle(literals[:1] if torn else literals) or _common(shape)
    fractions = any(one.column == "epoch" and _has_fractions(shape.column(one.at)) for one in named)
    return Line(name, role, "".join(parts), needle, torn, fractions)


def quoted(text: str) -> str:
    """A literal string of TOML."""
    return f"'{text}'" if "'" not in text else f"'''{text}'''"


def _has_fractions(column: list[bytes]) -> bool:
    return any(not float(value.replace(b",", b"")).is_integer() for value in column if value[-1:].isdigit())


def _start(shape: Shape, at: int) -> str:
    """The words before the first value, as far as they belong to it."""
    text = _key_text(shape, at)
    if at == 0 and not shape.cut and text == shape.words[0].decode(errors="replace").lstrip():
        return r"^\s*" + _literal(text.encode())
    return (r"(?<!\w)" if text[:1].isalnum() else "") + _literal(text.encode())


def _key_text(shape: Shape, at: int) -> str:
    if at == 0:
        return shape.words[at].decode(errors="replace").lstrip()
    unit = UNIT.match(shape.words[at])
    text = shape.words[at][unit.end() if unit else 0 :].decode(errors="replace")
    pieces = re.split(r"[|,;~{}\t•]|  |>>|->|\)\s|\]\s|\s-\s", text)
    return pieces[-1].lstrip() if any(c.isalpha() for c in pieces[-1]) else text.lstrip()


def _value(shape: Shape, one: Named) -> str:
    if one.column is None:
        return _FORGOTTEN.get(one.slot.kind, _ANY)
    unit = "clock" if one.slot.kind == "clock" else units.plain(one.unit or "")
    source = re.sub(r"[<>:]", "", one.source) if one.source != one.column else ""
    slot = "<" + f"{one.column}:{unit}:{source}".rstrip(":") + ">"
    gaps = any(value in _NOTHING for value in shape.column(one.at))
    return f"(?:{slot}|{'|'.join(word.decode() for word in _NOTHING)})" if gaps else slot


def _between(text: bytes) -> str:
    """Numbers that only a blank sets apart need it."""
    padding = r"\s*" if text.endswith(PADDED) else ""
    return _literal(text) + padding if text.strip() or not text else r"\s+"


def _literal(text: bytes) -> str:
    """Blanks and bars may differ, and digits within words; `<` would begin a value."""
    words = _LOOSE.split(text.decode(errors="replace"))
    return "".join(_piece(word, at == 0 or at == len(words) - 2) for at, word in enumerate(words))


def _piece(word: str, at_edge: bool) -> str:
    if not word:
        return ""
    if word.isspace():
        return r"\s*" if at_edge or len(word) > 1 else r"\s+"
    if word.isdigit():
        return r"\d+"
    if len(word) > 2 and word[0] in "[|" and word[-1] in "]|" and _LOOSE.fullmatch(word):
        return re.escape(word[0]) + r"[^\w|\]]*" + re.escape(word[-1])
    if "─" <= word[0] <= "▟":
        return r"\S+"
    return ".{1,4}" if word[0] == "�" else re.escape(word).replace("<", r"\x3c").replace(r"\-", "-")


def _end(shape: Shape, at: int) -> str:
    rest = shape.words[at + 1].rstrip()
    if not rest:
        return r"(?![\w.]*\w)" if shape.slots == at + 1 else ""
    whole = shape.slots == at + 1 and len(rest) <= _LONGEST_END
    return _literal(rest if whole else rest[:2].rstrip())


def _needle(literals: list[str]) -> str:
    """The longest run of letters and signs that every such line has."""
    runs = [run for text in literals for run in _LOOSE.split(text)[::2]]
    return max(runs, key=len, default="")


def _common(shape: Shape) -> str:
    """Where a row is numbers alone, a sign that all of them have."""
    rows = [shape.line(row) for row in shape.rows]
    signs = ("|", ",", "\t", ".", " ")
    return next((sign for sign in signs if all(sign.encode() in row for row in rows)), "")


def _looks(parts: list[str], unlike: Sequence[bytes]) -> str | None:
    """What a torn line of this kind still has: its beginning, with the place in it."""
    for size in range(1 if len(parts) < 5 else 3, len(parts) - 1, 2):
        head = "".join(parts[:size])
        looks = re.sub(r"<[A-Za-z]\w*(?::[\w/%]*)?(?::[^<>]+)?>", lambda _: _PLAIN, head)
        known = re.compile(looks.encode())
        if not any(known.search(other) for other in unlike):
            return looks
    return None
