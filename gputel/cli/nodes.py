"""`gputel nodes RUN`"""

from __future__ import annotations

import click

from gputel.cli import options, show
from gputel.cli.help import Command

EXAMPLES = (
    "gputel nodes latest",
    "gputel nodes s3://bucket/runs/d16 --json",
)


@click.command("nodes", cls=Command, examples=EXAMPLES)
@click.argument("run", default="latest")
@options.json
def command(run: str, as_json: bool) -> None:
    """List the nodes of a run: GPUs, segments, how often each finishes a step last, clock offsets.

    RUN is a run folder, the address of one in object storage, or `latest`.
    """
    from gputel.analysis.documents.nodes import nodes_document
    from gputel.analysis.report.nodes import node_rows
    from gputel.analysis.runs import read_run
    from gputel.cli import sources

    subject = read_run(sources.one_run(sources.fetched(run)))
    rows = node_rows(subject)
    if as_json:
        show.as_json({"schema": 1, "run": subject.name, "nodes": [row.as_json() for row in rows]})
    else:
        show.document(nodes_document(subject.name, rows))
