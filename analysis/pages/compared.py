"""A comparison -> its page: curves with a switch of the axis, differences, sizes, the tables of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputel.analysis.comparing import tables
from gputel.analysis.document import Page, Section, Table
from gputel.analysis.figures import comparison, sizes

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison


def page(found: Comparison) -> Page:
    first, *others = comparison.panels(found)
    between = [panel for panel in (comparison.bands(found), comparison.differences(found)) if panel]
    told = [Table(table.title, table.columns, table.rows) for table in tables.of(found)]
    sections = [
        Section(items=(first, *between)),
        Section("Differences", told),
        Section("Across sizes", list(sizes.panels(found))),
        Section("What else was printed", others),
        Section("To know", text="\n".join(note.removeprefix("note: ") for note in tables.notes(found))),
    ]
    return Page(
        title=" and ".join(found.runs) if len(found.runs) < 4 else f"{len(found.runs)} runs",
        sections=[section for section in sections if section.items or section.text],
        about=tables.first_line(found),
        caution="; ".join(tables.cautions(found)) or None,
        runs=found.runs,
    )
