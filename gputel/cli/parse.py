"""`gputel parse PATH...`"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.analysis import text
from gputel.cli import options, progress_line, show
from gputel.cli.help import Command, Groups
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.document import Document
    from gputel.analysis.exports.tables import TableKind
    from gputel.analysis.logs.files import Limits
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs.paths import Skipped
    from gputel.cli.sources import RunSource

NAME = "gputel-parse"
TABLES: tuple[TableKind, ...] = ("csv", "parquet")
LINES = ("unread", "rejects", "read")  # which are listed
MANY_ROWS = 10_000  # that are printed at once
SAMPLES = 3  # records and evaluations that a learned format has as its samples
FEW = 3  # files that are named without -v

EXAMPLES = (
    "gputel parse train.log",
    "gputel parse runs/ --csv --out tables",
    "cat train.log | gputel parse - --json",
)
GROUPS: Groups = {
    "Reading": ("format", "learn", "max-bytes", "strict"),
    "Printing": ("json", "rows", "read", "rejects", "unread", "verbose"),
    "Writing": (
        ("csv parquet", "Write tables; a CSV begins with the columns of older scripts."),
        *options.PAGES,
        options.OUT,
    ),
}


@click.command("parse", cls=Command, examples=EXAMPLES, groups=GROUPS)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format", "chosen", metavar="NAME|FILE", help="Read with this format only: a name, or a TOML file."
)
@click.option(
    "--learn", type=click.Path(path_type=Path), metavar="FILE", help="Write the format that was inferred."
)
@click.option("--csv", is_flag=True, help="Write tables as CSV; the columns of old scripts stand first.")
@click.option("--parquet", is_flag=True, help="Write tables as Parquet.")
@options.pages
@options.writing
@options.json
@click.option("--rows", is_flag=True, help="Print every row as a line of JSON.")
@click.option(
    "--strict", is_flag=True, help="End with 4 if a reading is doubtful; the answer is printed anyway."
)
@click.option(
    "--max-bytes",
    type=options.count,
    default="64G",
    show_default=True,
    metavar="N",
    help="Read at most this much of each file, counted after decompression.",
)
@click.option("--verbose", "-v", is_flag=True, help="Name each file that was skipped or held nothing.")
@click.option("--read", is_flag=True, help="List a line of each kind that was read, with its figures.")
@click.option("--rejects", is_flag=True, help="List the lines that look like records and could not be read.")
@click.option("--unread", is_flag=True, help="List kinds of lines whose figures were not read.")
@progress_line.shown()
def command(
    paths: tuple[str, ...],
    chosen: str | None,
    out: Path,
    force: bool,
    learn: Path | None,
    max_bytes: int,
    **asked: bool,
) -> int:
    """Turn training logs of any framework into tables.

    PATH is a log, a run folder, a folder of either, a glob, `latest`, or `-` for standard input; .gz and .zst are
    read as they are. In a folder, binary files are skipped, and a run that several files print is read once. Ends
    with 3 if nothing could be parsed.
    """
    kinds = options.checked(asked, out, NAME, dict.fromkeys(TABLES, ""), force=force)
    logs, errors, skipped = _read(paths, chosen, max_bytes)
    for kind in TABLES:
        if asked[kind]:
            _write_tables(logs, out, kind, force=force)
    document = _document(logs, drawn=bool(kinds)) if kinds or not _prints_data(asked) else None
    if document and kinds:
        options.write(document, kinds, out, NAME, force=force)
    if learn:
        _write_format(logs, learn, force=force)
    if asked["as_json"]:
        _print_json(logs, errors, skipped)
    elif asked["rows"]:
        _print_rows(logs)
    elif kinds_of_lines := [flag for flag in LINES if asked[flag]]:
        _print_lines(logs, kinds_of_lines[0])
    elif document:
        printed = [section for at, section in enumerate(document.sections) if not at or section.code]
        show.document(replace(document, sections=printed))
    _print_notes(logs, skipped, verbose=asked["verbose"])
    for error in errors:
        show.error(f"{error['path']}: {error['message']}")
    return _exit_code(logs, errors, strict=asked["strict"])


def _document(logs: list[Log], *, drawn: bool) -> Document:
    from gputel.analysis.documents.parse import parse_document

    return parse_document(logs, drawn=drawn)


def _prints_data(asked: Mapping[str, bool]) -> bool:
    """Whether rows, lines or JSON are printed in place of the table of runs."""
    return any(asked[flag] for flag in ("as_json", "rows", *LINES))


def _read(
    words: Sequence[str], chosen: str | None, max_bytes: int
) -> tuple[list[Log], list[dict[str, str]], list[Skipped]]:
    """Every log that the words name, what could not be read, and what was skipped.

    One unreadable path does not stop the others.
    """
    from gputel.analysis.logs import files
    from gputel.analysis.runs.paths import Skipped
    from gputel.cli import sources

    formats = files.chosen(chosen)
    named: list[RunSource] = []
    errors: list[dict[str, str]] = []
    skipped: list[Skipped] = []
    for word in sources.in_natural_order(words):
        try:
            named += sources.find(word, skipped)
        except GputelError as error:
            errors.append(error.as_json())
    limits = files.Limits(max_bytes, show.note)
    read: list[tuple[RunSource, Log]] = []
    with sources.reading(named):
        for source, log in zip(named, _open(named, formats, limits), strict=True):
            if isinstance(log, GputelError):
                errors.append(log.as_json())
            elif log.binary:
                skipped.append(Skipped(source.path, log.binary))
            else:
                read.append((source, log))
                errors += [{"path": log.source, "message": log.fault}] if log.fault else []
    logs, copied = sources.without_copies(read)
    return logs, errors, [*skipped, *copied]


def _open(named: Iterable[RunSource], formats: Any, limits: Limits) -> Iterator[Log | GputelError]:
    from gputel.analysis.logs import files
    from gputel.analysis.runs.paths import read_many

    for is_stdin, group in groupby(named, key=lambda source: source.kind == "stdin"):
        if is_stdin:
            yield from (files.stream(sys.stdin.buffer, "stdin", "-", formats, limits=limits) for _ in group)
        else:
            yield from read_many([source.path for source in group], formats, limits)


def _write_tables(logs: list[Log], folder: Path, kind: TableKind, *, force: bool) -> None:
    from gputel.analysis.exports.tables import write_logs

    for path in write_logs(logs, folder, kind, force=force):
        show.note(f"wrote {path}")


def _write_format(logs: list[Log], path: Path, *, force: bool) -> None:
    """Writes the inferred format, for its user to edit and give back with --format; never over an edited one."""
    from gputel.analysis.render import files

    log = next((log for log in logs if log.learned), None)
    if log is None or log.learned is None:
        fault = "nothing was inferred: the logs are of known formats, or of none"
        raise GputelError(str(path), fault, "see 'gputel formats'")
    learned = log.learned + "".join(_samples(log, log.learned))
    files.write([files.File(path, learned.encode())], force=force)
    show.note(f"wrote {path}")
    show.note(f"next: {shlex.join(['gputel', 'parse', log.source, '--format', str(path)])}")


def _print_json(logs: list[Log], errors: list[dict[str, str]], skipped: list[Skipped]) -> None:
    from gputel.analysis.logs import summary
    from gputel.analysis.runs import of_log
    from gputel.analysis.runs.log_doubts import log_doubts

    doubts = [log_doubts(of_log(log)) for log in logs]
    show.as_json(summary.answer(logs, errors, doubts, [each.as_json() for each in skipped]))


def _samples(log: Log, learned: str) -> Iterator[str]:
    """The first records and evaluations of a log that can be read again, as samples of its format."""
    from gputel.analysis.logs import files, formats
    from gputel.analysis.logs.formats import samples

    path = Path(log.source)
    if not path.is_file():
        return
    known = formats.load(learned, path.stem, str(path))
    numbers = {*log.records["line"][:SAMPLES], *log.evals["line"][:SAMPLES]}
    last = max(numbers, default=0)
    with path.open("rb") as raw:
        head, _ = files.plain(raw)
    lines = head.decode(errors="replace").split("\n")[:-1][:last]
    chosen = [line for number, line in enumerate(lines, start=1) if number in numbers]
    whole = lines[min(numbers, default=1) - 1 :]  # where a record spans several lines
    unread = samples.unlike(head.decode(errors="replace").split("\n")[:-1], known)[:SAMPLES]
    choices = ([*chosen, *unread], chosen, whole)
    for sample in filter(None, (samples.compose(part, known) for part in choices)):
        if not samples.check(formats.load(learned + sample, path.stem, str(path))):
            yield sample
            return


def _print_rows(logs: list[Log]) -> None:
    import json

    from gputel.analysis.logs import summary

    for log in logs:
        lines = (json.dumps(row, allow_nan=False, ensure_ascii=False) for row in summary.rows(log))
        while piece := list(islice(lines, MANY_ROWS)):
            show.rows(piece, as_json=True)


def _print_lines(logs: list[Log], which: str) -> None:
    from gputel.analysis.logs import summary

    lines = {"read": summary.read, "rejects": summary.rejects, "unread": summary.unread}[which]
    for log in logs:
        for line in lines(log):
            show.say(line)


def _print_notes(logs: list[Log], skipped: list[Skipped], *, verbose: bool) -> None:
    """Prints what was inferred, rejected or not understood, on standard error."""
    for log in logs:
        if log.inferred:
            show.note(f"{log.source}: {log.inferred}")
        for note in log.notes:
            show.note(f"{log.source}: {note}")
        if log.rejects:
            show.note(f"{log.source}: {_refused(log)}, see --rejects")
        if kinds := len(log.unread_kinds):
            show.note(
                f"{log.source}: figures of {text.counted(kinds, 'kind')} of lines were not read, see --unread"
            )
    empty = [log for log in logs if log.is_empty]
    if len(empty) <= FEW or verbose:
        for log in empty:
            show.note(
                f"{log.source}: nothing to parse: no record, evaluation, event or GPU reading{_in_lines(log)}"
            )
    else:
        show.note(f"nothing to parse in {len(empty):,} of {len(logs):,} files; -v names them")
    show.skipped(skipped, each=verbose)


def _in_lines(log: Log) -> str:
    return "" if log.lines is None else f" in {text.counted(log.lines, 'line')}"


def _refused(log: Log) -> str:
    """How many lines of a log, or records of a store, were not taken."""
    count = len(log.rejects)
    if log.lines is None:
        return text.counted(count, "damaged record")
    many = "lines look like records" if count > 1 else "line looks like a record"
    return f"{count:,} {many} and could not be read"


def _exit_code(logs: list[Log], errors: list[dict[str, str]], *, strict: bool) -> int:
    if all(log.is_empty for log in logs):
        return 3 if logs or not errors else 1
    if errors:
        return 1
    return 4 if strict and any(log.doubts for log in logs) else 0
