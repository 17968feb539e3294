"""`gputel report [RUN]`"""

from __future__ import annotations

from pathlib import Path

import click

from gputel.cli import options

NAME = "gputel-report"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("report", short_help="Say where a run's time and energy went, and what held it up.")
@click.argument("run", required=False)
@click.option("--gpu", type=FILE, metavar="FILE", help="A table of GPU readings, of nvidia-smi or your own.")
@click.option("--log", type=FILE, metavar="FILE", help="The log of the training that went on meanwhile.")
@click.option("--offset", callback=options.with_sign, metavar="TIME", help="Added to the clock of --gpu.")
@click.option("--keep-idle", is_flag=True, help="Count what is idle before and after the run too.")
@options.options
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(), metavar="PATH", help="Where to write."
)
@click.option("--force", is_flag=True, help="Overwrite files that gputel did not write.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(
    run: str | None,
    gpu: Path | None,
    log: Path | None,
    offset: float,
    keep_idle: bool,
    out: Path,
    force: bool,
    as_json: bool,
    **asked: bool,
) -> int:
    """Say what a run was, where its time and energy went, and what held it up.

    RUN is a run folder, a log, or `latest`, which is meant where nothing is named. With --gpu and --log it is a
    table of readings and a log that were never recorded together.
    """
    from gputel.analysis import report
    from gputel.analysis.report import make_report
    from gputel.cli import reporting, show

    kinds = options.checked(asked, out, NAME, {}, force=force)
    told = make_report(reporting.subject(run, gpu, log, offset), keep_idle=keep_idle)
    if kinds:
        from gputel.analysis.documents.report import report_document

        options.write(report_document(told, keep_idle=keep_idle), kinds, out, NAME, force=force)
    if as_json:
        show.as_json(report.answer(told))
    else:
        reporting.print_report(told)
    return reporting.conclude(told)
