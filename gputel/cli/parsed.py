"""What `gputel parse` says of the logs that it read: a table, rows, rejects, files, and how it ends."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.analysis import document, text
from gputel.cli import show
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.document import Document
    from gputel.analysis.exports.logs import Kind
    from gputel.analysis.logs.log import Log
    from gputel.cli.sources import RunSource

COLUMNS = (
    "run", "format", "phase", "records", "first loss", "last loss", "best validation", "tok/s", "MFU", "time",
    "status",
)  # fmt: skip
MEANT = "tok/s and MFU are means of what was printed; time is what the log counts, else by its stamps"


def read(
    paths: Sequence[str], chosen: str | None, find: Callable[[str], list[RunSource]]
) -> tuple[list[Log], list[dict[str, str]]]:
    """Every log that the paths name, and what could not be read: one fault keeps none of the others from it."""
    from gputel.analysis.logs import files

    formats = files.chosen(chosen)
    found: list[RunSource] = []
    errors: list[dict[str, str]] = []
    for word in paths:
        try:
            found += find(word)
        except GputelError as error:
            errors.append(_fault(error, word))
    read: list[Log] = []
    for log in _open(_with_progress(found), formats):
        if isinstance(log, GputelError):
            errors.append(_fault(log, ""))
            continue
        read.append(log)
        if log.fault:
            errors.append({"path": log.source, "message": log.fault})
    return read, errors


def answer(logs: list[Log], errors: list[dict[str, str]]) -> dict[str, Any]:
    from gputel.analysis.logs import summary

    return summary.answer(logs, errors)


def print_rows(logs: list[Log]) -> None:
    from gputel.analysis.logs import summary

    for log in logs:
        for row in summary.rows(log):
            sys.stdout.write(json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n")


def print_rejects(logs: list[Log]) -> None:
    from gputel.analysis.logs import summary

    for log in logs:
        for line in summary.rejects(log):
            show.say(line)


def print_table(logs: list[Log]) -> None:
    """A line per attempt of each phase; a log without any has one too."""
    rows = _table(logs)
    if rows:
        show.table(COLUMNS, rows)
        if sys.stdout.isatty():
            show.note(show.folded(MEANT))
    cautions = [(log.name, document.caution(None, composed=log.composed)) for log in logs]
    for said in dict.fromkeys(caution for _, caution in cautions if caution):
        runs = text.names(name for name, caution in cautions if caution == said)
        show.say(show.folded(f"{runs}: {said}"))


def page(logs: list[Log]) -> Document:
    """What is printed as a table, with its curves."""
    from gputel.analysis.document import Table
    from gputel.analysis.documents.parse import parse_document

    return parse_document(logs, Table("Runs", COLUMNS, _table(logs), note=f"{MEANT}."))


def write(logs: list[Log], folder: Path, kind: Kind, *, force: bool) -> None:
    from gputel.analysis.exports.logs import write

    for path in write(logs, folder, kind, force=force):
        show.note(f"wrote {path}")


def learn(logs: list[Log], path: Path, *, force: bool) -> None:
    """The format that was inferred, for its user to edit and give back with --format; never over an edited one."""
    from gputel.analysis.render import files

    learned = next((log.learned for log in logs if log.learned), None)
    if learned is None:
        raise GputelError(
            str(path),
            "nothing was inferred: the logs are of known formats, or of none",
            "see 'gputel formats'",
        )
    files.write([files.File(path, learned.encode())], force=force)
    show.note(f"wrote {path}\nnext: gputel parse LOG --format {path}")


def conclude(logs: list[Log], errors: list[dict[str, str]]) -> int:
    """What was understood, refused and not found, on standard error; and the exit code."""
    for log in logs:
        if log.inferred:
            show.note(f"{log.source}: {log.inferred}")
        if log.rejects:
            show.note(
                f"{log.source}: {len(log.rejects)} lines look like records and could not be read; see --rejects"
            )
        if log.is_empty:
            show.note(
                f"{log.source}: nothing to parse: no record, evaluation, event or GPU reading in {log.lines} lines"
            )
    for error in errors:
        show.error(f"{error['path']}: {error['message']}")
    if all(log.is_empty for log in logs):
        return 3 if logs or not errors else 1
    return 1 if errors else 0


def _open(found: Iterable[RunSource], formats: Any) -> Iterator[Log | GputelError]:
    from gputel.analysis.logs import files
    from gputel.analysis.runs import paths

    for is_stdin, sources in groupby(found, key=lambda source: source.kind == "stdin"):
        if is_stdin:
            yield from (files.stream(sys.stdin.buffer, "stdin", "-", formats) for _ in sources)
        else:
            yield from paths.read_logs((source.path for source in sources), formats)


def _fault(error: GputelError, path: str) -> dict[str, str]:
    return {"path": error.place or path, "message": error.fault + (f"; {error.hint}" if error.hint else "")}


def _with_progress(found: list[RunSource]) -> Iterator[RunSource]:
    if len(found) < 2 or not sys.stderr.isatty():
        yield from found
        return
    with click.progressbar(found, label="reading", file=sys.stderr) as bar:
        yield from bar


def _table(logs: list[Log]) -> list[list[object]]:
    from gputel.analysis.logs import summary

    held = [log for log in logs if not log.is_empty]
    return [
        [name, *row]
        for log, name in zip(held, _names(held), strict=True)
        for row in _rows(log, summary.run(log))
    ]


def _names(logs: list[Log]) -> list[str]:
    """Told apart as on the page, where several have one name."""
    own = [log.name for log in logs]
    if len(set(own)) == len(own):
        return own
    from gputel.analysis.compare import select
    from gputel.analysis.runs import RunData

    return select.names([RunData(log) for log in logs])


def _rows(log: Log, run: dict[str, Any]) -> list[list[object]]:
    phases = run["phases"] or [None]
    return [_row(log, run, phase, i == len(phases) - 1) for i, phase in enumerate(phases)]


def _row(log: Log, run: dict[str, Any], phase: dict[str, Any] | None, last: bool) -> list[object]:
    """Without the run's name."""
    if phase is None:
        known = run["telemetry"]
        rows = f"{known['rows']:,} readings" if known else None
        return [log.format, None, rows, None, None, None, None, None, None, log.status]
    metrics = phase["metrics"]
    loss = metrics.get("loss", {})
    name = phase["phase"] if phase["attempt"] == 1 else f"{phase['phase']} #{phase['attempt']}"
    return [
        log.format,
        name,
        text.step(phase["records"]),
        _plain(loss.get("first")),
        _plain(loss.get("last")),
        _best(phase["evals"]),
        _plain(_mean(metrics, "tok_per_sec"), 0),
        _plain(_mean(metrics, "mfu"), 1),
        text.duration(phase["duration_s"]) if phase["duration_s"] is not None else None,
        log.status if last else None,
    ]


def _plain(value: float | None, digits: int | None = None) -> str | None:
    """Null stays null: a page and a terminal each have their own sign for it."""
    return None if value is None else text.number(float(value), digits)


def _mean(metrics: dict[str, Any], name: str) -> float | None:
    found = metrics.get(name)
    return None if found is None else found["mean"]


def _best(evals: dict[str, Any]) -> str | None:
    """The least loss; of a log without one, whatever validation it has."""
    for name in ("val_loss", "val_bpb"):
        if name in evals and evals[name]["min"] is not None:
            return f"{evals[name]['min']:.4f} {name.removeprefix('val_')}"
    named = sorted(evals, key=lambda name: not re.search("map50_95|acc|core|hellaswag", name, re.IGNORECASE))
    return next(
        (f"{evals[name]['max']:.4f} {name}" for name in named if evals[name]["max"] is not None), None
    )
