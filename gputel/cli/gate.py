"""`gputel gate RUN`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gputel.cli import options, progress_line, show
from gputel.cli.help import Command, Groups

EXAMPLES = (
    "gputel gate runs/new --baseline runs/old --max-regress loss=1%",
    "gputel gate latest --target val_loss=2.9 --junit gate.xml",
)
GROUPS: Groups = {
    "What is judged": (
        "baseline",
        "max-regress",
        "target",
        "phase",
        "warmup",
        ("higher lower", "Higher, or lower, values of this metric are better."),
    ),
    "Writing": ("json", "junit", "force"),
}


@click.command("gate", cls=Command, examples=EXAMPLES, groups=GROUPS)
@click.argument("run")
@click.option("--baseline", metavar="RUN", help="The run to compare with.")
@click.option(
    "--max-regress",
    type=options.limit,
    multiple=True,
    metavar="METRIC=3%",
    help="How much worse than the baseline it may be.",
)
@click.option(
    "--target", type=options.target, multiple=True, metavar="METRIC=VALUE", help="What the run must reach."
)
@options.directions
@click.option("--phase", metavar="NAME", help="Phase to judge; by default the one with most steps.")
@click.option(
    "--warmup", default=10, show_default=True, metavar="STEPS", help="Steps at the start that do not count."
)
@options.json
@click.option(
    "--junit",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the verdicts as JUnit XML, for CI.",
)
@click.option("--force", is_flag=True, help="Overwrite a FILE that gputel did not write.")
@progress_line.shown()
def command(
    run: str,
    baseline: str | None,
    max_regress: tuple[tuple[str, float], ...],
    target: tuple[tuple[str, float], ...],
    lower: tuple[str, ...],
    higher: tuple[str, ...],
    phase: str | None,
    warmup: int,
    as_json: bool,
    junit: Path | None,
    force: bool,
) -> int:
    """Check whether a run got worse than its baseline, for CI.

    The exit code is 4 if a limit is broken, and 5 if there is too little data to tell.
    """
    from gputel.analysis.compare import gate
    from gputel.analysis.document import as_json as plain
    from gputel.analysis.documents.gate import gate_document
    from gputel.analysis.exports.junit import write_junit
    from gputel.cli import sources

    limits, targets = dict(max_regress), dict(target)
    if not limits and not targets:
        raise click.UsageError("say what to judge: --max-regress METRIC=3% or --target METRIC=VALUE")
    if limits and baseline is None:
        raise click.UsageError("--max-regress needs a --baseline")
    other = None if baseline is None else sources.one_subject(baseline).log
    log = sources.one_subject(run).log
    checks = gate.judge(log, other, limits, targets, warmup=warmup, phase=phase, lower=lower, higher=higher)
    code = gate.exit_code(checks)
    if junit is not None:
        write_junit(run, checks, junit, force=force)
        show.note(f"wrote {junit}")
    if as_json:
        answer = {"schema": 1, "run": run, "exit_code": code, "checks": [asdict(check) for check in checks]}
        show.as_json(plain(answer))
    else:
        show.document(gate_document(run, baseline, checks))
    return code
