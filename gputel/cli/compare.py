"""`gputel compare RUN RUN...`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gputel.cli import options

NAME = "gputel-compare"
TABLES = {"csv": "", "markdown": "md"}


@click.command("compare", short_help="Put runs beside each other at equal steps, tokens, time or cost.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--by",
    type=click.Choice(["step", "tokens", "time", "flops", "energy", "cost"]),
    default="step",
    show_default=True,
    help="What the runs are to be equal in.",
)
@click.option("--metric", metavar="NAME", help="loss, val_loss, val_bpb, or any other that was printed.")
@click.option("--phase", metavar="NAME", help="The phase; else the shared one with most steps.")
@click.option(
    "--target",
    type=options.target,
    multiple=True,
    metavar="METRIC=VALUE",
    help="What each run had spent when it first got there.",
)
@options.directions
@click.option("--price", type=click.FloatRange(min=0), metavar="$", help="Dollars for an hour of a GPU.")
@click.option("--kwh", type=click.FloatRange(min=0), metavar="$", help="Dollars for a kWh.")
@click.option(
    "--smooth", type=click.FloatRange(min=1), metavar="STEPS", help="Take the mean of the last so many steps."
)
@click.option("--group", metavar="SETTING", help="Runs that share it are seeds: their mean and band.")
@click.option("--csv", is_flag=True, help="Write the tables as CSV.")
@click.option("--markdown", is_flag=True, help="Write the tables as one Markdown file.")
@options.options
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(), metavar="PATH", help="Where to write."
)
@click.option("--force", is_flag=True, help="Overwrite files that gputel did not write.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(runs: tuple[str, ...], out: Path, force: bool, as_json: bool, **asked: Any) -> None:
    """Put runs beside each other at equal steps, tokens, time, FLOPs, energy or dollars.

    RUN is a run folder, a log, a folder of either, a glob, or `latest`. The first is what the others differ from.
    """
    from gputel.cli import compared
    from gputel.cli.compared import read_comparison

    flags = {flag: asked.pop(flag) for flag in (*options.FLAGS, *TABLES)}
    kinds = options.checked(flags, out, NAME, TABLES, force=force)
    found = read_comparison(runs, **asked)
    for kind in TABLES:
        if flags[kind]:
            compared.write(found, out, kind, force=force)
    if kinds:
        options.write(compared.page(found), kinds, out, NAME, force=force)
    if as_json:
        compared.print_json(found)
    else:
        compared.print_tables(found)
