"""Reports of several runs: a line each, and a page each where pages are asked for; on all cores where that pays.

A run that cannot be reported, or that kills the process which reads it, is named and stops none of the others.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis import progress
from gputel.cli import options, show, sources
from gputel.cli.sources import RunSource
from gputel.telemetry.errors import GputelError, reason
from gputel.telemetry.file_names import file_names

if TYPE_CHECKING:
    from gputel.analysis.documents.reports import Lines
    from gputel.analysis.render.style import PictureLook

SCHEMA = 1
NOTHING = 3  # the exit code of a run in which nothing could be parsed


@dataclass(frozen=True)
class WantedReport:
    """What each report is made with, and which files of it are written."""

    name: str
    kinds: Sequence[str]
    look: PictureLook
    keep_idle: bool
    price: float | None
    as_json: bool
    force: bool


@dataclass(frozen=True)
class RunToReport:
    """A run, and the folder for the files of its report."""

    source: RunSource
    folder: Path


@dataclass(frozen=True)
class RunReport:
    """One of several reports, small enough to come back from another process; or the fault, why there is none."""

    source: RunSource
    lines: Lines | None = None
    answer: dict[str, Any] | None = None
    files: Sequence[Path] = ()
    fault: GputelError | None = None
    is_table: bool = False


def show_reports(
    named: Sequence[RunSource], faults: Sequence[GputelError], out: Path, wanted: WantedReport
) -> int:
    """Prints and writes the reports; `faults` are of runs that were not found. Returns the exit code."""
    from gputel.analysis.spread import alike, spread_where_it_pays

    runs = _placed(named, out, wanted)
    results = spread_where_it_pays(partial(make_reports, wanted=wanted), runs, alike, _killed)
    made = [result for _, result in zip(progress.each(runs, "reporting runs"), results, strict=True)]
    done = [each for each in made if each.fault is None]
    faults = [*faults, *(each.fault for each in made if each.fault)]
    if done or wanted.as_json:
        _write_and_print(done, faults, out, wanted)
    for fault in faults:
        if fault.exit_code == NOTHING:
            show.note(f"{fault}")
        else:
            show.error(f"{fault}")
    if all(fault.exit_code == NOTHING for fault in faults):
        return 0 if done else NOTHING
    return 1


def _placed(named: Sequence[RunSource], out: Path, wanted: WantedReport) -> list[RunToReport]:
    """Gives each run a folder of its own, and refuses before any work what could not be written there."""
    from gputel.analysis.render import files

    if any(source.kind == "stdin" for source in named):
        raise GputelError("-", "standard input is reported alone", "leave out the others", exit_code=2)
    folders = [out / name for name in file_names([source.name for source in named])]
    if wanted.kinds:
        if out.suffix.lstrip(".") in files.KINDS and not out.is_dir():
            fault = f"is one file, and {len(named)} reports were asked for"
            raise GputelError(f"{out}", fault, "name a folder", exit_code=2)
        for folder in folders:
            files.check(wanted.kinds, folder, wanted.name, force=wanted.force)
    return [RunToReport(source, folder) for source, folder in zip(named, folders, strict=True)]


def make_reports(runs: Sequence[RunToReport], wanted: WantedReport) -> Iterator[RunReport]:
    """Yields the report of each run, with its files written."""
    for run in runs:
        try:
            yield _made(run, wanted)
        except GputelError as error:
            yield RunReport(run.source, fault=error)
        except OSError as error:
            yield RunReport(run.source, fault=GputelError(f"{run.source.path}", reason(error)))


def _made(run: RunToReport, wanted: WantedReport) -> RunReport:
    from gputel.analysis.documents.report import report_document
    from gputel.analysis.documents.reports import report_lines
    from gputel.analysis.render import files
    from gputel.analysis.report.run_report import answer, make_report

    subject = sources.parsed_subject(run.source)
    report = make_report(subject, keep_idle=wanted.keep_idle)
    written: Sequence[Path] = ()
    if wanted.kinds:
        document = report_document(report, keep_idle=wanted.keep_idle, price=wanted.price)
        written = files.write_page(
            document, wanted.kinds, run.folder, wanted.name, wanted.look, force=wanted.force
        )
    return RunReport(
        run.source,
        report_lines(report, wanted.price),
        answer(report) if wanted.as_json else None,
        written,
        is_table=subject.log.telemetry is not None and subject.log.records.is_empty(),
    )


def _killed(run: RunToReport) -> RunReport:
    fault = GputelError(
        f"{run.source.path}", "reporting it killed the process that did", "is there enough memory?"
    )
    return RunReport(run.source, fault=fault)


def _write_and_print(
    done: Sequence[RunReport], faults: Sequence[GputelError], out: Path, wanted: WantedReport
) -> None:
    from gputel.analysis.documents.reports import reports_document, reports_page

    paths, lines = [each.source.path for each in done], [each.lines or {} for each in done]
    for file in (file for each in done for file in each.files):
        show.note(f"wrote {file}")
    if done and "html" in wanted.kinds:
        page = reports_page(lines, paths, [_address(each, out) for each in done])
        options.write(page, ["html"], out, wanted.name, force=wanted.force)
    if wanted.as_json:
        errors = [fault.as_json() for fault in faults]
        show.as_json({"schema": SCHEMA, "reports": [each.answer for each in done], "errors": errors})
    else:
        show.document(reports_document(lines, paths))
    for each in done:
        if each.is_table:
            table = shlex.quote(f"{each.source.path}")
            show.note(
                f"{table} has GPU readings only: gputel report --gpu {table} --log LOG joins it with a log"
            )


def _address(made: RunReport, out: Path) -> str | None:
    """The address of a run's page, relative to the page of all."""
    page = next((path for path in made.files if path.suffix == ".html"), None)
    return page.relative_to(out).as_posix() if page else None
