"""What `gputel compare` says: tables for people, JSON for programs, files; and which runs its words mean."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.cli import show
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.compare import Comparison
    from gputel.analysis.document import Document
    from gputel.analysis.runs import RunData
    from gputel.cli.sources import RunSource


def read_comparison(words: Sequence[str], *, target: Sequence[tuple[str, float]], **asked: Any) -> Comparison:
    """A log that holds nothing is said to, and the others are compared."""
    from gputel.analysis import compare

    subjects = _read(words)
    return compare.compare(subjects, target=dict(target), **asked)


def print_tables(found: Comparison) -> None:
    from gputel.analysis.documents import compare
    from gputel.analysis.documents.compare import comparison_tables

    show.say(show.folded(compare.first_line(found)))
    for caution in compare.cautions(found):
        show.say(show.folded(caution))
    for table in comparison_tables(found):
        show.say(f"\n{table.title}" if table.title else "")
        show.table(table.columns, table.rows)
    show.say("")
    for note in compare.notes(found):
        show.say(show.folded(note, len("note: ")))


def print_json(found: Comparison) -> None:
    from gputel.analysis.compare.answer import comparison_json

    show.as_json(comparison_json(found))


def page(found: Comparison) -> Document:
    from gputel.analysis.documents.compare import comparison_document

    return comparison_document(found)


def write(found: Comparison, folder: Path, kind: str, *, force: bool) -> None:
    from gputel.analysis.exports import comparison

    for path in comparison.write(found, folder, kind, force=force):
        show.note(f"wrote {path}")


def _read(words: Sequence[str]) -> list[RunData]:
    from gputel.cli import sources

    named = [source for word in words for source in sources.find(word)]
    place = " ".join(words)
    if len(named) < 2:
        raise GputelError(place, "is one run, and a comparison needs two", "name another", exit_code=2)
    found: list[RunData] = []
    for source in _with_progress(named):
        subject = _subject(source)
        if subject.log.is_empty:
            show.note(f"{source.path}: nothing to compare: no record, evaluation or event in it")
        else:
            found.append(subject)
    if not found:
        raise GputelError(place, "nothing could be parsed", "try gputel parse", exit_code=3)
    if len(found) < 2:
        raise GputelError(place, "only one run could be parsed, and a comparison needs two", "name another")
    return found


def _subject(source: RunSource) -> RunData:
    from gputel.analysis import runs
    from gputel.analysis.logs import files
    from gputel.analysis.runs import read_run

    if source.kind == "stdin":
        return runs.RunData(files.stream(sys.stdin.buffer, "stdin", "-"))
    return read_run(source.path)


def _with_progress(found: list[RunSource]) -> Any:
    if len(found) < 10 or not sys.stderr.isatty():
        return found
    return click.progressbar(found, label="reading", file=sys.stderr)
