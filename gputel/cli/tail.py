"""`gputel tail PATH...`"""

from __future__ import annotations

from typing import Any

import click

from gputel.cli import alarms, served


@click.command("tail", short_help="Follow runs as they happen, with alarms.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--from",
    "commands",
    multiple=True,
    metavar="RANK=COMMAND",
    help="Follow what a command prints as a rank.",
)
@click.option("--format", "chosen", metavar="NAME|FILE", help="Read with this format only.")
@click.option("--plain", is_flag=True, help="Print a line for each record, for pipes and files.")
@click.option("--json", "as_json", is_flag=True, help="Print each row as a line of JSON.")
@click.option("--fresh", is_flag=True, help="Begin at the first line, whatever was shown before.")
@click.option("--web", is_flag=True, help="Serve a live page for the browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="The page's.  [default: 8765, or a free one]",
)
@click.option("--host", metavar="ADDRESS", help="Serve it there, behind a token.  [default: 127.0.0.1]")
@alarms.options
def command(**asked: Any) -> int:
    """Follow runs as they happen.

    PATH is a log, a run folder, a folder in which new ones appear, a glob, `latest`, or `-` for standard input.
    """
    alarms.check(asked)
    served.check(asked)
    from gputel.cli import followed

    return served.shown(asked) if asked["web"] else followed.shown(asked)
