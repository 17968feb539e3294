"""Text of a CSV's cells, so that a spreadsheet runs none of it.

Excel, LibreOffice and Google Sheets take a cell that begins with `=`, `+`, `-` or `@` for a formula, which may send
what other cells hold or start a program. Such text gets an apostrophe before it. Numbers stay as they are.
"""

from __future__ import annotations

from typing import TypeVar

import polars as pl
import polars.selectors as cs

Table = TypeVar("Table", pl.DataFrame, pl.LazyFrame)
FORMULA = r"^[=+\-@\t\r\n]"
NUMBER = r"^[+-]?(\d[\d,]*\.?\d*|\.\d+)([eE][+-]?\d+)?%?$|^[+-]?(inf|nan)$"


def safe(table: Table) -> Table:
    """The table with an apostrophe before each text and each name of a column that would be a formula."""
    is_formula = cs.string().str.contains(FORMULA) & ~cs.string().str.contains(NUMBER)
    quoted = pl.when(is_formula).then(pl.lit("'") + cs.string()).otherwise(cs.string())
    return table.with_columns(quoted.name.keep()).rename(_safe_name)


def _safe_name(name: str) -> str:
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else name
