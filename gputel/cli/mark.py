"""`gputel mark TEXT`"""

from __future__ import annotations

import click

from gputel.cli.help import Command

EXAMPLES = (
    'gputel mark "learning rate halved"',
    'gputel mark "loader restarted" --run runs/tiny',
)


@click.command("mark", cls=Command, examples=EXAMPLES)
@click.argument("text")
@click.option(
    "--run", envvar="GPUTEL_RUN", default="latest", help="The run to mark, if not the latest.", metavar="RUN"
)
def command(text: str, run: str) -> None:
    """Write a mark into the run that is being recorded, for pages and comparisons to show.

    Inside a recorded command the run is known from the environment.
    """
    from gputel.cli import show, sources
    from gputel.telemetry import events
    from gputel.telemetry.secrets import mask

    path = sources.one_run(run)
    events.mark(path, text)
    show.note(f"marked {path}: {mask(text)}")  # a recorded command's standard error is kept
