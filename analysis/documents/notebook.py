"""A comparison as a notebook shows it: its tables as HTML, in which whatever came from a log is text."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from gputel.analysis.documents import compare
from gputel.analysis.documents.compare import comparison_tables

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison
    from gputel.analysis.documents.compare import Cell, ComparisonTable


def html(found: Comparison) -> str:
    said = [compare.first_line(found), *compare.cautions(found)]
    drawn = [_table(table) for table in comparison_tables(found)]
    return "".join([*map(_line, said), *drawn, *map(_line, compare.notes(found))])


def _table(table: ComparisonTable) -> str:
    rows = "".join(f"<tr>{_cells('td', row)}</tr>" for row in table.rows)
    head = f"<thead><tr>{_cells('th', table.columns)}</tr></thead>"
    return f"<table><caption>{escape(table.title)}</caption>{head}<tbody>{rows}</tbody></table>"


def _cells(kind: str, cells: list[str] | list[Cell]) -> str:
    return "".join(f"<{kind}>{escape('-' if cell is None else cell)}</{kind}>" for cell in cells)


def _line(text: str) -> str:
    return f"<p>{escape(text)}</p>"
