"""`gputel report [RUN]...`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.cli import options, progress_line, reports, show, sources
from gputel.cli.help import Command, Groups
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.report.run_report import Report
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.paths import Skipped
    from gputel.cli.reports import WantedReport
    from gputel.cli.sources import RunSource

NAME = "gputel-report"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

EXAMPLES = (
    "gputel report",
    "gputel report train.log --html",
    "gputel report runs/* --html --out runs",
    "gputel report --gpu gpu_metrics.csv --log train.log",
)
GROUPS: Groups = {
    "What is read": ("gpu", "log", "offset", "keep-idle", "price"),
    "Writing": (*options.PAGES, options.OUT, "json"),
}


@click.command("report", cls=Command, examples=EXAMPLES, groups=GROUPS)
@click.argument("words", nargs=-1, metavar="[RUN]...")
@click.option("--gpu", type=FILE, metavar="FILE", help="A table of GPU readings, of nvidia-smi or your own.")
@click.option("--log", type=FILE, metavar="FILE", help="The log of the training that ran at the same time.")
@click.option("--offset", callback=options.with_sign, metavar="TIME", help="Added to the clock of --gpu.")
@click.option("--keep-idle", is_flag=True, help="Count idle time before and after the run too.")
@options.price
@options.pages
@options.writing
@options.json
@progress_line.shown()
def command(
    words: tuple[str, ...],
    gpu: Path | None,
    log: Path | None,
    offset: float,
    out: Path,
    **asked: Any,
) -> int:
    """Show what a run was, where its time and energy went, and what held it up.

    RUN is a run folder, a log, a store, a folder of these, or `latest`, the default. Several runs have a line
    each, and with --html a page each. --gpu and --log join a table of readings and a log that were not recorded
    together.
    """
    flags = {flag: asked.pop(flag) for flag in options.FLAGS}
    kinds = options.checked(flags, out, NAME, {}, force=asked["force"])
    wanted = reports.WantedReport(NAME, kinds, options.picture_look(), **asked)
    if gpu or log or offset:
        return _show(_beside_each_other(words, gpu, log, offset), out, wanted)
    named, faults = _named(words or ("latest",))
    if len(named) + len(faults) > 1:
        return reports.show_reports(named, faults, out, wanted)
    return _show(sources.parsed_subject(named[0], *words), out, wanted)


def _show(run: RunData, out: Path, wanted: WantedReport) -> int:
    """Prints and writes the report of one run."""
    from gputel.analysis.documents.report import report_document
    from gputel.analysis.report.run_report import answer, make_report

    report = make_report(run, keep_idle=wanted.keep_idle)
    if wanted.kinds or not wanted.as_json:
        document = report_document(
            report, keep_idle=wanted.keep_idle, panels=bool(wanted.kinds), price=wanted.price
        )
    if wanted.kinds:
        options.write(document, wanted.kinds, out, NAME, force=wanted.force)
    if wanted.as_json:
        show.as_json(answer(report))
    else:
        show.document(document)
    return _exit_code(report)


def _named(words: Sequence[str]) -> tuple[list[RunSource], list[GputelError]]:
    """Every run that the words name, and the faults of those that name none; of one word that is raised."""
    named: list[RunSource] = []
    faults: list[GputelError] = []
    skipped: list[Skipped] = []
    for word in sources.in_natural_order(words):
        try:
            named += sources.find(word, skipped)
        except GputelError as error:
            faults.append(error)
    show.skipped(skipped)
    if not named and len(faults) == 1:
        raise faults[0]
    return named, faults


def _beside_each_other(words: Sequence[str], gpu: Path | None, log: Path | None, offset_s: float) -> RunData:
    """The run of a table of readings beside a log."""
    from gputel.analysis.runs import from_table_and_log

    if gpu and log and not words:
        return from_table_and_log(gpu, log, offset_s)
    if log and not (words or gpu or offset_s):
        return sources.one_subject(str(log))
    raise GputelError(
        "gputel report", "--gpu and --log go together, and without RUN", "name both", exit_code=2
    )


def _exit_code(report: Report) -> int:
    """1 for a table and a log that do not overlap in time."""
    if report.subject.readings is None or report.shared is None:
        return 0
    return 0 if report.shared["shared_s"] else 1
