"""A comparison as a notebook shows it: its tables as HTML, in which whatever came from a log is text."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from gputel.analysis.comparing import tables

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison
    from gputel.analysis.comparing.layout import Cell, Table


def html(found: Comparison) -> str:
    said = [tables.first_line(found), *tables.cautions(found)]
    drawn = [_table(table) for table in tables.of(found)]
    return "".join([*map(_line, said), *drawn, *map(_line, tables.notes(found))])


def _table(table: Table) -> str:
    rows = "".join(f"<tr>{_cells('td', row)}</tr>" for row in table.rows)
    head = f"<thead><tr>{_cells('th', table.columns)}</tr></thead>"
    return f"<table><caption>{escape(table.title)}</caption>{head}<tbody>{rows}</tbody></table>"


def _cells(kind: str, cells: list[str] | list[Cell]) -> str:
    return "".join(f"<{kind}>{escape('-' if cell is None else cell)}</{kind}>" for cell in cells)


def _line(text: str) -> str:
    return f"<p>{escape(text)}</p>"
