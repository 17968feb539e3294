"""`gputel report [RUN]`"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gputel.cli import options, progress_line
from gputel.cli.help import Command, Groups

if TYPE_CHECKING:
    from gputel.analysis.report.run_report import Report
    from gputel.analysis.runs import RunData

NAME = "gputel-report"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

EXAMPLES = (
    "gputel report",
    "gputel report train.log --html",
    "gputel report --gpu gpu_metrics.csv --log train.log",
)
GROUPS: Groups = {
    "What is read": ("gpu", "log", "offset", "keep-idle", "price"),
    "Writing": (*options.PAGES, options.OUT, "json"),
}


@click.command("report", cls=Command, examples=EXAMPLES, groups=GROUPS)
@click.argument("words", nargs=-1, metavar="[RUN]")
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
    keep_idle: bool,
    price: float | None,
    out: Path,
    force: bool,
    as_json: bool,
    **asked: bool,
) -> int:
    """Show what a run was, where its time and energy went, and what held it up.

    RUN is a run folder, a log, or `latest`, the default. --gpu and --log join a table of readings and a log that
    were not recorded together.
    """
    from gputel.analysis.documents.report import report_document
    from gputel.analysis.report.run_report import answer, make_report
    from gputel.cli import show

    kinds = options.checked(asked, out, NAME, {}, force=force)
    report = make_report(_run(words, gpu, log, offset), keep_idle=keep_idle)
    if kinds or not as_json:
        document = report_document(report, keep_idle=keep_idle, panels=bool(kinds), price=price)
    if kinds:
        options.write(document, kinds, out, NAME, force=force)
    if as_json:
        show.as_json(answer(report))
    else:
        show.document(document)
    return _exit_code(report)


def _run(words: tuple[str, ...], gpu: Path | None, log: Path | None, offset_s: float) -> RunData:
    """The run that the arguments name, or a table of readings beside a log."""
    from gputel.analysis import runs
    from gputel.cli import sources
    from gputel.telemetry.errors import GputelError

    run = words[0] if words else None
    if len(words) > 1:
        joined = " ".join(map(shlex.quote, words))
        hint = sources.hint_for_output(words[-1]) or (
            "a table of readings and a log are 'gputel report --gpu TABLE --log LOG', "
            f"runs are 'gputel compare {joined}'"
        )
        raise GputelError("gputel report", f"takes one run, not {len(words)}", hint, exit_code=2)
    if gpu and log and not run:
        return runs.from_table_and_log(gpu, log, offset_s)
    if log and not (run or gpu or offset_s):
        return sources.one_subject(str(log))
    if gpu or log or offset_s:
        raise GputelError(
            "gputel report", "--gpu and --log go together, and without RUN", "name both", exit_code=2
        )
    return sources.one_subject(run or "latest")


def _exit_code(report: Report) -> int:
    """1 for a table and a log that do not overlap in time."""
    if report.subject.readings is None or report.shared is None:
        return 0
    return 0 if report.shared["shared_s"] else 1
