"""`gputel demo`"""

from __future__ import annotations

from pathlib import Path

import click


@click.command("demo", short_help="In one minute: two small trainings, recorded and compared.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("gputel-demo"), show_default=True, metavar="DIR",
    help="A folder for what it makes; its own may be there already.",
)  # fmt: skip
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    metavar="N",
    help="Steps of each training.",
)
def command(out: Path, steps: int) -> int:
    """In one minute: two small trainings, recorded, followed, compared, and their page.

    Nothing is downloaded. Without torch, logs of such trainings are played in real time; without a GPU one is
    simulated; and it says so.
    """
    from gputel.cli import demonstrated

    return demonstrated.show_all(out, steps)
