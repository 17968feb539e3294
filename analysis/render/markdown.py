"""A document -> Markdown: its words, facts and tables; what came from a log is text and never markup."""

from __future__ import annotations

from collections.abc import Iterator

from gputel.analysis import text
from gputel.analysis.document import Document, FactList, Table

SIGNS = (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("*", "\\*"), ("`", "\\`"))


def markdown(document: Document, mark: str = "") -> str:
    """`mark` is a comment in the first line, by which gputel knows its own file again."""
    parts = [mark, f"**{_text(document.about or document.title)}**", _text(document.caution or "")]
    parts += [_text(f"doubt: {doubt}") for doubt in document.doubts]
    for section in document.without_code().sections:
        if section.title and section.text:
            parts.append(f"### {_text(section.title)}")
        parts += [_text(line) for line in section.text.splitlines()]
        for item in section.items:
            if isinstance(item, Table):
                parts += _table(item)
            elif isinstance(item, FactList):
                parts.append("\n".join(_fact(name, words) for name, words in item.known().items()))
    return "\n\n".join(part for part in parts if part) + "\n"


def _fact(name: str, words: str) -> str:
    return f"- {_text(name)}: {'; '.join(map(_text, words.splitlines()))}"


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"### {_text(table.title)}"
    below = ["---", *["---:"] * (len(table.columns) - 1)]
    rows = [
        [_text(name) for name in table.columns],
        below,
        *([_cell(cell) for cell in row] for row in table.rows),
    ]
    yield "\n".join("| " + " | ".join(row) + " |" for row in rows)
    if table.note:
        yield _text(table.note)


def _cell(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        return text.number(cell)
    return _text(str(cell))


def _text(words: str) -> str:
    plain = " ".join(words.split())
    for sign, written in SIGNS:
        plain = plain.replace(sign, written)
    return plain
