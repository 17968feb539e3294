"""A table of a document -> its HTML: a caption, heads that name columns and rows, figures to the right."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import zip_longest
from urllib.parse import quote

import numpy as np

from gputel.analysis import text
from gputel.analysis.document import Table
from gputel.telemetry import secrets

LONGEST_NUMBER = 24  # letters of a cell that is kept on one line; a sentence may begin with a digit too
# CSS pixels: of a letter, beside a cell, beside the head of a table that sorts
LETTER, PADDING, ARROW = (
    7.4,
    14,
    16,
)
LEAST_HEAD, HALF = 62, 640  # CSS pixels: of a column, of half a window
FEW_COLUMNS = 5  # of short cells: such a table leaves room for a plot beside it


def html_table(table: Table, level: int) -> str:
    """A folded table is shown when asked for; a narrow one may stand beside what follows."""
    label = f' aria-label="{escaped(table.title or "figures")}"' if table.folded or not table.title else ""
    caption = "" if label else f"<caption>{heading(table.title, level)}</caption>"
    figures = [_is_numeric(cells) for cells in zip(*table.rows, strict=True)] or [False] * len(table.columns)
    inside = f"{caption}{_head(table, figures)}{_body(table, figures)}"
    body = f'<div class="scroll" tabindex="0"><table{label}>{inside}</table></div>'
    note = f'<p class="note">{escaped(table.note)}</p>' if table.note else ""
    if table.folded:
        return f'<details class="table"><summary>{escaped(table.title)}</summary>{body}{note}</details>'
    target = f' data-target="{escaped(table.target)}"' if table.target else ""
    width = " narrow" if _is_narrow(table) else " half" if _pixels(table) <= HALF else ""
    return f'<div class="table{width}"{target}>{body}{note}</div>'


def heading(title: str, level: int) -> str:
    """The title as a heading; nothing without a title."""
    return f"<h{level}>{escaped(title)}</h{level}>" if title else ""


def escaped(words: str) -> str:
    """Text of a log as HTML: never markup, and with what looks like a key masked."""
    return escape(secrets.mask(words))


def _head(table: Table, figures: Sequence[bool]) -> str:
    cells = []
    for name, is_figure in zip(table.columns, figures, strict=True):
        words = escaped(name)
        cells.append(f'<th scope="col"{_kind(is_figure)}>{words}</th>' if words else "<td></td>")
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def _body(table: Table, figures: Sequence[bool]) -> str:
    """The first cell names its row, unless it is a number."""
    rows = []
    for (first, *rest), link in zip_longest(table.rows, table.links):
        name = first if isinstance(first, str) and first and (link or not _is_figure(first)) else None
        begin = _cell(first, figures[0]) if name is None else _name(name, link)
        rows.append(f"<tr>{begin}{''.join(map(_cell, rest, figures[1:]))}</tr>")
    return f"<tbody>{''.join(rows)}</tbody>"


def _name(name: str, link: str | None = None) -> str:
    kind = ' class="short"' if len(name) <= LONGEST_NUMBER else ""
    words = f'<a href="{escape(quote(link))}">{escaped(name)}</a>' if link else escaped(name)
    return f'<th scope="row"{kind}>{words}</th>'


def _cell(cell: object, in_figures: bool) -> str:
    if cell is None or (isinstance(cell, float) and not np.isfinite(cell)):
        return f"<td{_kind(in_figures)}>–</td>"
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        return f'<td class="number">{text.number(cell)}</td>'
    words = str(cell)
    short = len(words) <= LONGEST_NUMBER
    return f"<td{_kind(_is_figure(words) or (in_figures and short))}>{escaped(words)}</td>"


def _kind(is_figure: bool) -> str:
    return ' class="number"' if is_figure else ""


def _is_figure(words: str) -> bool:
    numeric = words[:1].isdigit() or (words[:1] in "$~+-−" and words[1:2].isdigit())
    return numeric and len(words) <= LONGEST_NUMBER


def _is_numeric(cells: Sequence[object]) -> bool:
    """Whether more than half of a column's known cells are numbers; an empty column counts as numeric."""
    known = [cell for cell in cells if cell is not None]
    figures = sum(not isinstance(cell, str) or _is_figure(cell) for cell in known)
    return 2 * figures > len(known) or not known


def _is_narrow(table: Table) -> bool:
    """Whether a table has few columns of short cells; long row names are wrapped."""
    cells = [cell for row in table.rows for cell in row[1:]]
    short = all(len(str(cell)) <= LONGEST_NUMBER for cell in cells if isinstance(cell, str))
    return short and 1 < len(table.columns) <= FEW_COLUMNS


def _pixels(table: Table) -> float:
    """About how wide it is; heads are broken between words."""
    arrow = ARROW if len(table.rows) > 2 else 0
    heads = (max(map(len, head.split()), default=0) * LETTER + arrow for head in table.columns)
    cells = (max(map(_letters, column)) * LETTER for column in zip(*table.rows, strict=True))
    return sum(
        max(LEAST_HEAD, head + PADDING, cell + PADDING) for head, cell in zip(heads, cells, strict=False)
    )


def _letters(cell: object) -> int:
    return len(
        cell if isinstance(cell, str) else text.number(cell) if isinstance(cell, (int, float)) else "–"
    )
