"""Reports of several runs -> a Document: a few lines of each in a terminal, on a page a table that links theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis import text
from gputel.analysis.document import Document, FactList, Section, Table
from gputel.analysis.documents.headline import headline
from gputel.analysis.report.verdicts import MFU_QUESTION, UNKNOWN

if TYPE_CHECKING:
    from gputel.analysis.report.run_report import Report

Lines = Mapping[str, str]
COLUMNS = (
    "run", "status", "loss", "speed", "energy", "peaks", "cost",
    "findings", "hung", "not seen", "ended by", "caution", "doubts",
)  # fmt: skip


def report_lines(report: Report, price: float | None = None) -> Lines:
    """What a report says first, its verdicts, and what may be wrong with it; each under the name of its column."""
    first, name = headline(report, price).known(), report.subject.name
    lines = {
        **first,
        "run": name,
        "status": first["run"].removeprefix(name).removeprefix(": "),
        "findings": _findings(report),
        "caution": report.subject.caution,
        "doubts": "\n".join(doubt.text for doubt in report.doubts),
    }
    return {column: words for column in COLUMNS if (words := lines.get(column))}


def _findings(report: Report) -> str:
    """`bottleneck input; overfitting no`; without the MFU, which stands beside the speed, and what is unknown."""
    known = (each for each in report.verdicts if each.question != MFU_QUESTION and each.answer != UNKNOWN)
    return "; ".join(f"{each.question} {each.answer}" for each in known)


def reports_document(reports: Sequence[Lines], paths: Sequence[Path]) -> Document:
    """Makes the document of a terminal."""
    blocks = [
        FactList({name: words for name, words in each.items() if name != "run"}, title=each["run"])
        for each in _distinct(reports, paths)
    ]
    title = text.counted(len(reports), "report")
    return Document(title=title, sections=[Section(items=blocks)], about=title)


def reports_page(reports: Sequence[Lines], paths: Sequence[Path], pages: Sequence[str | None]) -> Document:
    """Makes the page: a row for each run; `pages` are the addresses of the reports, relative to it."""
    columns = [name for name in COLUMNS if any(name in each for each in reports)]
    rows = [[each.get(name) for name in columns] for each in _distinct(reports, paths)]
    title = text.counted(len(reports), "report")
    return Document(title=title, sections=[Section(items=(Table("", columns, rows, links=pages),))])


def _distinct(reports: Sequence[Lines], paths: Sequence[Path]) -> list[Lines]:
    """The lines with runs of the same name called by their paths."""
    times = Counter(each["run"] for each in reports)
    return [
        {**each, "run": f"{path}"} if times[each["run"]] > 1 else each
        for each, path in zip(reports, paths, strict=True)
    ]
