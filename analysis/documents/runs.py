"""Rows of the catalogue -> a Document with one table, and the cells of it as people read them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gputel.analysis import text
from gputel.analysis.catalogue.facts import FACTS
from gputel.analysis.document import Document, FactList, Item, Section, Table
from gputel.telemetry.file_names import unique_names

if TYPE_CHECKING:
    from gputel.analysis.catalogue.questions import RunRows
    from gputel.analysis.catalogue.sweep import Sweep

SECONDS = ("duration_s", "downtime_s", "throttled_s")
EMPTY_TITLE = "no run"
REPORT = "gputel-report.html"
NO_TARGET = "no figure"
HOW = (
    "The share of the order of runs that a setting explains: adjusted η² of ranks in at most six bins. It is clear "
    "where at most 1 % of 200 shuffles reach it. Of settings that move together which one matters cannot be said."
)
HEADERS = {"duration_s": "duration", "downtime_s": "downtime", "energy_j": "energy", "tok_per_sec": "tok/s"}


def runs_document(found: RunRows, *, keep_empty: bool = False) -> Document:
    """Makes the document of the rows; a terminal shows columns without any value only with `keep_empty`.

    Runs of one name are distinguished by the folders above, as in `compare`.
    """
    columns = [_cells(found, at) for at in range(len(found.columns))]
    title = text.counted(len(found.rows), "run") if found.rows else EMPTY_TITLE
    heads = [_header(name) for name in found.columns]
    table = Table("", heads, list(zip(*columns, strict=True)), keep_empty=keep_empty)
    return Document(title=title, sections=(Section(items=(table,)),), about=title)


def _cells(found: RunRows, at: int) -> Sequence[str | float | None]:
    cells, name = [row[at] for row in found.rows], found.columns[at]
    if name == "run" and found.paths:
        return unique_names([str(cell) for cell in cells], [Path(path) for path in found.paths])
    return [shown(name, cell) for cell in cells]


def runs_page(sweep: Sweep, out: Path) -> Document:
    """Makes the page: every run with its settings, a link to its report where there is one, and what matters.

    `out` is the folder that the page is written into.
    """
    document = runs_document(sweep.found)
    (table,) = document.sections[0].items
    links = [_link(path, out) for path in sweep.found.paths]
    runs = replace(cast("Table", table), target=_header(sweep.target) or NO_TARGET, links=links)
    matter = Section(f"What matters for {sweep.target}", _matter(sweep)) if sweep.target else None
    return replace(document, sections=[Section(items=(runs,)), *([matter] if matter else [])])


def _link(run: str, out: Path) -> str | None:
    report = Path(run) / REPORT
    return os.path.relpath(report, out.resolve()) if report.is_file() else None


def _matter(sweep: Sweep) -> Sequence[Item]:
    if sweep.why_not:
        return (FactList({"importance": sweep.why_not}),)
    rows = [
        (
            each.setting,
            f"{100 * each.explained:.0f} %" if each.is_clear else None,
            "yes"
            if each.is_clear
            else f"no: chance explains as much in {100 * each.chance:.0f} % of shuffles",
            each.runs,
            each.values,
            ", ".join(each.together) or None,
        )
        for each in sweep.matter
    ]
    heads = ("setting", "explains", "clear", "runs", "values", "moves together with")
    return (Table("", heads, rows, note=HOW),)


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
