"""`gputel runs [PATH...]`"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.analysis import progress
from gputel.cli import options, progress_line, show
from gputel.cli.help import Command, Groups

if TYPE_CHECKING:
    from gputel.analysis.catalogue.answer import RunsQuestion
    from gputel.analysis.catalogue.compute import Engine
    from gputel.analysis.catalogue.index import Changes
    from gputel.analysis.catalogue.questions import RunRows
    from gputel.analysis.document import Document

NAME = "gputel-runs"
FEW = 3  # runs that are named without -v if they could not be read
TABLES = {"csv": "csv", "parquet": "parquet"}

EXAMPLES = (
    "gputel runs runs/ tb/",
    "gputel runs --where \"gpu = 'H100' and lr < 1e-3\" --sort val_loss_min",
    "gputel runs --by lr --columns loss,energy_j",
)
GROUPS: Groups = {
    "Which runs": ("where", "sort", "limit", "sql", "no-update", "engine", "address"),
    "Which columns": ("columns", "by"),
    "Writing": (
        ("csv parquet html", "Write the rows as CSV, as Parquet, as an offline page."),
        options.OUT,
        "json",
        "verbose",
    ),
}


def _words(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Names that are separated by commas, or given one by one."""
    return tuple(name.strip() for each in given for name in each.split(",") if name.strip())


@click.command("runs", cls=Command, examples=EXAMPLES, groups=GROUPS)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--where", metavar="CONDITION", help="Only runs that meet it: facts, settings, metrics.")
@click.option(
    "--sort", multiple=True, callback=_words, metavar="NAME,...", help="Sort by these; -NAME sorts downwards."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show at most this many rows.")
@click.option("--sql", metavar="SELECT", help="Query in SQL; the tables are runs, settings and metrics.")
@click.option("--no-update", is_flag=True, help="Use the index as it is; scan no folder.")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    help="Where new runs are computed: on the cores of this machine, or on Ray.",
)
@click.option("--address", metavar="HOST:PORT", help="A running Ray cluster that sees the same paths.")
@click.option(
    "--columns", multiple=True, callback=_words, metavar="NAME,...", help="Show these; 'all' is every fact."
)
@click.option(
    "--by",
    multiple=True,
    callback=_words,
    metavar="NAME,...",
    help="Group by these: mean and deviation of each.",
)
@click.option("--csv", is_flag=True, help="Write the rows as CSV.")
@click.option("--parquet", is_flag=True, help="Write the rows as Parquet.")
@click.option("--html", is_flag=True, help="Write one offline page.")
@options.writing
@options.json
@click.option("--verbose", "-v", is_flag=True, help="Name each run that could not be read.")
@progress_line.shown()
def command(
    paths: tuple[str, ...], out: Path, force: bool, as_json: bool, verbose: bool, **asked: Any
) -> None:
    """List every run in one table: recordings, logs, and what other tools kept.

    PATH is a folder, a run, a log, a store or an address such as s3://bucket/runs/. Without one, asks about
    every PATH that was ever given, and ./runs.
    """
    from gputel.analysis.catalogue import answer, index
    from gputel.cli import sources
    from gputel.telemetry.remote import storage

    flags = {flag: asked.pop(flag) for flag in ("html", *TABLES)}
    kinds = options.checked(flags, out, NAME, TABLES, force=force)
    if asked["sql"] and (asked["where"] or asked["by"] or asked["columns"] or asked["sort"]):
        raise click.UsageError("--sql says all of it; leave out --where, --by, --columns and --sort")
    engine = _engine(asked.pop("engine"), asked.pop("address"))
    places = tuple(Path(sources.fetched(path)).resolve() for path in paths)
    updates = not asked.pop("no_update")
    question, changes = answer.refreshed(
        answer.RunsQuestion(places, updates=updates, **asked),
        index.default_file(),
        lambda stale: progress.each(stale, "reading runs"),
        remember=not any(storage.is_address(path) for path in paths),
        engine=engine,
    )
    _note(changes, each=verbose)
    found = answer.answer(question, index.default_file())
    if any(flags.values()):
        _write(found, flags, out, force=force)
    if kinds:
        options.write(_page(question, found, out), kinds, out, NAME, force=force)
    if as_json:
        from gputel.analysis.document import as_json as strict

        show.as_json(strict(answer.as_json(found)))
    elif not any(flags.values()):
        is_asked = bool(question.sql or question.columns) and question.columns != (answer.ALL,)
        _print(found, keep_empty=is_asked)


def _engine(name: str, address: str | None) -> Engine:
    from gputel.analysis.catalogue import compute

    if name == "local":
        if address:
            raise click.UsageError("--address is of a Ray cluster; add --engine ray")
        return compute.compute_where_it_pays
    from gputel.analysis.spread_on_ray import spread_on_ray

    return lambda paths: spread_on_ray(compute.compute, paths, compute.killed, address) if paths else iter(())


def _page(question: RunsQuestion, found: RunRows, out: Path) -> Document:
    """The page of runs; of groups, or of an answer in SQL, a page of its rows."""
    from gputel.analysis.catalogue import index
    from gputel.analysis.catalogue.sweep import sweep
    from gputel.analysis.documents.runs import runs_document, runs_page

    if question.by or question.sql:
        return runs_document(found)
    return runs_page(sweep(question, index.default_file()), out.parent if out.suffix else out)


def _note(changes: Changes, *, each: bool) -> None:
    shown = changes.faults if each else changes.faults[:FEW]
    for fault in shown:
        show.note(f"left out: {fault}")
    if more := len(changes.faults) - len(shown):
        show.note(f"left out: {more:,} more; -v names them")
    if changes.away:
        show.note(f"{changes.away:,} runs are in folders that cannot be found now; see the fact 'away'")


def _write(found: RunRows, flags: dict[str, bool], out: Path, *, force: bool) -> None:
    from gputel.analysis.catalogue import answer
    from gputel.analysis.render import files

    table = answer.as_table(found)
    for kind in TABLES:
        if flags[kind]:
            path = out if out.suffix == f".{kind}" else out / f"{NAME}.{kind}"
            writer = table.write_csv if kind == "csv" else table.write_parquet
            files.write([files.File(path, writer)], force=force)
            show.note(f"wrote {path}")


def _print(found: RunRows, *, keep_empty: bool) -> None:
    """Prints the table; in a terminal as many columns as there is room for, and page by page."""
    from gputel.analysis.documents.runs import runs_document

    document = runs_document(found, keep_empty=keep_empty)
    if not found.rows:
        document = replace(document, sections=())
    if not sys.stdout.isatty():
        show.document(document)
        return
    show.document_in_pages(document)
