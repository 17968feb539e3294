"""Rows of the catalogue -> a Document with one table, and the cells of it as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gputel.analysis import text
from gputel.analysis.catalogue.facts import FACTS
from gputel.analysis.document import Document, Section, Table

SECONDS = ("duration_s", "downtime_s", "throttled_s")
EMPTY_TITLE = "no run"
HEADERS = {"duration_s": "duration", "downtime_s": "downtime", "energy_j": "energy", "tok_per_sec": "tok/s"}


def runs_document(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Document:
    """Makes the document of the rows; a terminal leaves out columns without a value in any of them."""
    cells = [[shown(name, cell) for name, cell in zip(columns, row, strict=True)] for row in rows]
    title = f"{len(rows):,} run{'' if len(rows) == 1 else 's'}" if rows else EMPTY_TITLE
    table = Table("", [_header(name) for name in columns], cells)
    return Document(title=title, sections=(Section(items=(table,)),), about=title)


def _header(name: str) -> str:
    return HEADERS.get(name, name)


def shown(name: str, cell: Any) -> str | float | None:
    """A cell as people read it: durations and energies in units, times to the second."""
    if cell is None:
        return None
    if FACTS.get(name) == "time":
        return str(cell)[:19].replace("T", " ")
    if name in SECONDS and isinstance(cell, (int, float)):
        return text.duration(cell)
    if name in ("energy_j", "energy_counter_j") and isinstance(cell, (int, float)):
        return text.energy(cell)
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
    is_count = isinstance(cell, int) and FACTS.get(name) == "whole" and name != "exit_code"
    return f"{cell:,}" if is_count else str(cell)
