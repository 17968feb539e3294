"""`gputel info RUN`"""

from __future__ import annotations

import click

from gputel.cli import options, show
from gputel.cli.help import Command

EXAMPLES = (
    "gputel info",
    "gputel info runs/tiny --json",
)


@click.command("info", cls=Command, examples=EXAMPLES)
@click.argument("run", default="latest")
@options.json
def command(run: str, as_json: bool) -> None:
    """Show what a run folder holds: what ran, on which GPUs, what was recorded.

    RUN is a run folder, or `latest`.
    """
    from gputel.analysis.documents.record import info_document
    from gputel.analysis.report.summary import run_contents
    from gputel.cli import sources

    contents = run_contents(sources.one_run(sources.fetched(run)))
    if as_json:
        show.as_json(contents.as_json())
    else:
        show.document(info_document(contents))
