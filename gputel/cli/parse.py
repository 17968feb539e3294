"""`gputel parse PATH...`"""

from __future__ import annotations

from pathlib import Path

import click

from gputel.cli import options

NAME = "gputel-parse"


@click.command("parse", short_help="Turn training logs of any framework into tables.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format", "chosen", metavar="NAME|FILE", help="Read with this format only: a name, or a TOML file."
)
@click.option(
    "--learn", type=click.Path(path_type=Path), metavar="FILE", help="Write the format that was inferred."
)
@click.option("--csv", is_flag=True, help="Write tables as CSV; the columns of old scripts stand first.")
@click.option("--parquet", is_flag=True, help="Write tables as Parquet.")
@options.options
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(), metavar="PATH", help="Where to write."
)
@click.option("--force", is_flag=True, help="Overwrite files that gputel did not write.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--rows", is_flag=True, help="Print every row as a line of JSON.")
@click.option("--rejects", is_flag=True, help="List the lines that look like records and could not be read.")
def command(
    paths: tuple[str, ...], chosen: str | None, out: Path, force: bool, learn: Path | None, **asked: bool
) -> int:
    """Turn training logs of any framework into tables.

    PATH is a log, a run folder, a folder of either, a glob, `latest`, or `-` for standard input; .gz and .zst are
    read as they are. Ends with 3 where nothing could be parsed in any of them.
    """
    from gputel.cli import parsed, show, sources

    kinds = options.checked(asked, out, NAME, {"csv": "", "parquet": ""}, force=force)
    logs, errors = parsed.read(paths, chosen, sources.find)
    if asked["csv"]:
        parsed.write(logs, out, "csv", force=force)
    if asked["parquet"]:
        parsed.write(logs, out, "parquet", force=force)
    if kinds:
        options.write(parsed.page(logs), kinds, out, NAME, force=force)
    if learn:
        parsed.learn(logs, learn, force=force)
    if asked["as_json"]:
        show.as_json(parsed.answer(logs, errors))
    elif asked["rows"]:
        parsed.print_rows(logs)
    elif asked["rejects"]:
        parsed.print_rejects(logs)
    else:
        parsed.print_table(logs)
    return parsed.conclude(logs, errors)
