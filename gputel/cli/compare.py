"""`gputel compare RUN RUN...`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.analysis import progress
from gputel.cli import options, progress_line, show
from gputel.cli.help import Command, Groups
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.document import Document
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.paths import Skipped
    from gputel.cli.sources import RunSource

NAME = "gputel-compare"
MARK = "<!-- written by gputel compare -->"
TABLES = {"csv": "", "markdown": "md"}
OF_CURVES = ("by", "metric", "phase", "target", "higher", "lower", "price", "kwh", "smooth", "group", *TABLES)
MOST_CURVES = 50  # runs, beyond which totals are compared and no curves

EXAMPLES = (
    "gputel compare runs/d16 runs/d24",
    "gputel compare logs/ --by tokens --target loss=2.9 --price 4",
    "gputel compare runs/lr* --group lr --html",
)
GROUPS: Groups = {
    "What is compared": (
        "where",
        "by",
        "metric",
        "phase",
        "target",
        "smooth",
        "group",
        ("higher lower", "Higher, or lower, values of this metric are better."),
    ),
    "Money": ("price", "kwh"),
    "Writing": (
        ("csv markdown", "Write the tables as CSV, or as one Markdown file."),
        *options.PAGES,
        options.OUT,
        "json",
    ),
}


@click.command("compare", cls=Command, examples=EXAMPLES, groups=GROUPS)
@click.argument("runs", nargs=-1, metavar="RUN...")
@click.option("--where", metavar="CONDITION", help="Take the runs that meet it, as 'gputel runs' finds them.")
@click.option(
    "--by",
    type=click.Choice(["step", "tokens", "time", "flops", "energy", "cost"]),
    default="step",
    show_default=True,
    help="Compare at equal values of this.",
)
@click.option("--metric", metavar="NAME", help="loss, val_loss, val_bpb, or any other that was printed.")
@click.option("--phase", metavar="NAME", help="Phase to compare; by default the shared one with most steps.")
@click.option(
    "--target",
    type=options.target,
    multiple=True,
    metavar="METRIC=VALUE",
    help="What each run had spent when it first reached that value.",
)
@options.directions
@options.price
@click.option("--kwh", type=options.dollars, metavar="$", help="Dollars per kWh.")
@click.option("--smooth", type=click.FloatRange(min=1), metavar="STEPS", help="Average over this many steps.")
@click.option("--group", metavar="SETTING", help="Average runs that share its value, such as seeds.")
@click.option("--csv", is_flag=True, help="Write the tables as CSV.")
@click.option("--markdown", is_flag=True, help="Write the tables as one Markdown file.")
@options.pages
@options.writing
@options.json
@progress_line.shown()
def command(
    runs: tuple[str, ...], where: str | None, out: Path, force: bool, as_json: bool, **asked: Any
) -> None:
    """Compare runs at equal steps, tokens, time, FLOPs, energy or dollars.

    RUN is a run folder, a log, a store, a folder of these, a glob, or `latest`. Differences are from the
    first. More than 50 runs are compared by their totals, without curves.
    """
    from gputel.analysis import compare
    from gputel.analysis.compare.answer import comparison_json
    from gputel.analysis.documents.compare import comparison_document

    flags = {flag: asked.pop(flag) for flag in (*options.FLAGS, *TABLES)}
    kinds = options.checked(flags, out, NAME, TABLES, force=force)
    skipped: list[Skipped] = []
    named = _named(runs, where, skipped)
    if len(named) > MOST_CURVES:
        _refuse_options_of_curves()
        _compare_totals(named, kinds, out, force=force, as_json=as_json)
        return
    place = " ".join(runs) or f"--where {where}"
    subjects = _read(named, place, skipped)
    comparison = compare.compare(subjects, target=dict(asked.pop("target")), **asked)
    document = comparison_document(comparison, drawn=bool(kinds))
    if flags["csv"]:
        from gputel.analysis.exports.tables import write_comparison

        _wrote(write_comparison(comparison, out, NAME, force=force))
    if flags["markdown"]:
        _wrote(_write_markdown(document, out, force=force))
    if kinds:
        options.write(document, kinds, out, NAME, force=force)
    if as_json:
        show.as_json(comparison_json(comparison))
    else:
        show.document(document)


def _write_markdown(document: Document, out: Path, *, force: bool) -> list[Path]:
    """`out` is a folder, or the file itself."""
    from gputel.analysis.render import files
    from gputel.analysis.render.markdown import markdown

    path = out if out.suffix == ".md" else out / f"{NAME}.md"
    ours = files.begins_with(MARK.encode())
    return files.write([files.File(path, markdown(document, MARK).encode(), ours)], force=force)


def _wrote(paths: list[Path]) -> None:
    for path in paths:
        show.note(f"wrote {path}")


def _named(words: Sequence[str], where: str | None, skipped: list[Skipped]) -> list[RunSource]:
    """The runs that the words name; with a condition, the known runs that meet it."""
    from gputel.cli import sources

    if where is None:
        if not words:
            raise click.UsageError("name runs, or say which with --where")
        return [source for word in sources.in_natural_order(words) for source in sources.find(word, skipped)]
    from gputel.analysis.catalogue import answer, index

    chosen = answer.chosen_paths(where, [Path(word).resolve() for word in words], index.default_file())
    return [source for path in chosen for source in sources.find(str(path))[:1]]


def _refuse_options_of_curves() -> None:
    """Ends with a line if an option was typed that totals alone cannot answer."""
    typed = [f"--{name}" for name in OF_CURVES if options.was_typed(name)]
    if typed:
        raise click.UsageError(
            f"{', '.join(typed)} needs the curves, which are compared of at most {MOST_CURVES} runs; "
            "name fewer, or see 'gputel runs'"
        )


def _compare_totals(
    named: Sequence[RunSource], kinds: list[str], out: Path, *, force: bool, as_json: bool
) -> None:
    """Puts the totals of many runs beside each other, by their facts."""
    from gputel.analysis import document
    from gputel.analysis.catalogue import answer, index
    from gputel.analysis.documents.runs import runs_document

    paths = [source.path for source in named if source.kind != "stdin"]
    totals = answer.totals(paths, index.default_file(), lambda stale: progress.each(stale, "reading runs"))
    note = f"{len(totals.rows):,} runs: totals, by their facts; curves are drawn of at most {MOST_CURVES}"
    show.note(note)
    if kinds:
        options.write(runs_document(totals), kinds, out, NAME, force=force)
    if as_json:
        show.as_json(document.as_json({**answer.as_json(totals), "notes": [note]}))
    else:
        show.document(runs_document(totals))


def _read(named: Sequence[RunSource], place: str, skipped: list[Skipped]) -> list[RunData]:
    """Every run that is not empty, once; a note names the others."""
    from gputel.analysis.runs.paths import Skipped
    from gputel.cli import sources

    if len(named) < 2:
        raise GputelError(place, "is one run, and a comparison needs two", "name another", exit_code=2)
    with sources.reading(named):
        read = list(zip(named, sources.subjects(named), strict=True))
    for source, subject in read:
        if subject.log.is_empty and source.within:
            skipped.append(Skipped(source.path, subject.log.binary or "no record, evaluation or event in it"))
        elif subject.log.is_empty:
            show.note(f"{source.path}: nothing to compare: no record, evaluation or event in it")
    logs, copied = sources.without_copies(
        [(source, subject.log) for source, subject in read if not subject.log.is_empty]
    )
    kept = {id(log) for log in logs}
    subjects = [subject for _, subject in read if id(subject.log) in kept]
    show.skipped([*skipped, *copied])
    if not subjects:
        raise GputelError(place, "nothing could be parsed", "try gputel parse", exit_code=3)
    if len(subjects) < 2:
        raise GputelError(place, "only one run could be parsed, and a comparison needs two", "name another")
    return subjects
