"""`gputel trust [FILE]`"""

from __future__ import annotations

from pathlib import Path

import click

from gputel.cli.help import Command
from gputel.telemetry.errors import GputelError

EXAMPLES = (
    "gputel trust",
    "gputel trust project/gputel.toml --revoke",
)


@click.command("trust", cls=Command, examples=EXAMPLES)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--revoke", is_flag=True, help="End the trust.")
def command(file: Path | None, revoke: bool) -> None:
    """Let a folder's settings file set everything: commands, paths and addresses, too.

    FILE is a gputel.toml or pyproject.toml, else the nearest one from here upwards. Trust ends when its settings
    change, or the file moves.
    """
    from gputel.cli import show
    from gputel.telemetry import settings

    path = file or settings.nearest_file(Path.cwd())
    if path is None:
        raise GputelError("gputel trust", "no settings file is here or above", "name one")
    path = path.absolute()
    tables = settings.one_file(path)
    if revoke:
        ended = settings.distrust(path, tables)
        show.note(f"{path}: " + ("is no longer trusted" if ended else "was not trusted"))
        return
    for table, facts in tables.items():
        for key, value in facts.items() if isinstance(facts, dict) else ():
            show.say(f"[{table}] {key} = {value!r}")
    settings.trust(path, tables)
    show.note(f"{path}: trusted with these settings until they change, or 'gputel trust --revoke {path}'")
