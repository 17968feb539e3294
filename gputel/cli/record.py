"""`gputel record`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gputel.cli import guard, options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gputel.telemetry.process.viewer import CommandEnd


@click.command(
    "record",
    short_help="Sample the GPUs, alone or beside a command, into a run folder.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--hz",
    type=click.FloatRange(0, 10_000, min_open=True),
    default=100.0,
    metavar="RATE",
    help="Samples a second.  [default: 100]",
)
@click.option("--gpus", help="Only these, by index or uuid.", metavar="0,2")
@click.option(
    "--for",
    "duration",
    type=options.duration,
    help="End a recording without a command after this.",
    metavar="30s",
)
@click.option("--out", help="The run folder itself; otherwise runs/<stamp>-<name>.", metavar="DIR")
@click.option("--continue", "onto", help="Go on with this run in a new segment.", metavar="RUN")
@click.option(
    "--name", help="What the run is called; otherwise as its --out, or the command.", metavar="NAME"
)
@click.option("--tag", "tags", type=options.tag, multiple=True, help="A fact for run.json.", metavar="K=V")
@click.option("--simulate", help="Record a simulated machine.", metavar="2xH100")
@click.option(
    "--follow",
    type=click.Path(dir_okay=False),
    help="Stamp and copy a log that is being written.",
    metavar="LOG",
)
@click.option("--pid", type=click.IntRange(1), help="End when this process ends.", metavar="N")
@click.option("--pty", is_flag=True, help="Give the command a terminal of its own.")
@click.option(
    "--max-overhead",
    type=options.share,
    default="2%",
    show_default=True,
    help="How much of a core calls into the driver may take.",
)
@guard.guard_options
@options.options
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(argv: tuple[str, ...], as_json: bool, **asked: Any) -> None:
    """Sample the GPUs until Ctrl-C; with a COMMAND, run it and keep its output beside them.

    The command's exit code is ours, and nothing that goes wrong here harms it.
    """
    _refuse_nonsense(argv, asked)
    orders = guard.instructions(asked, has_command=bool(argv))
    from gputel.cli import recording

    run, outcome = recording.record(argv, asked, orders, show=2 if as_json else 1)
    _report(run, outcome, options.wanted_outputs(asked), as_json=as_json)
    _end(outcome)


def _refuse_nonsense(argv: tuple[str, ...], asked: Mapping[str, Any]) -> None:
    if argv and asked["duration"]:
        raise click.UsageError(
            "--for ends a recording without a command; put `timeout 30s` before the command"
        )
    if argv and (asked["follow"] or asked["pid"]):
        raise click.UsageError("--follow and --pid are for a job that runs already; leave out the command")
    if asked["out"] and asked["onto"]:
        raise click.UsageError("--continue goes on in the run's own folder; leave out --out")
    if asked["gpus"] is not None and not asked["gpus"].strip(" ,"):
        raise click.UsageError("--gpus names no GPU; say --gpus 0,2")
    if asked["pty"] and not argv:
        raise click.UsageError("--pty gives a terminal to a command, and there is none")


def _report(run: Path, outcome: CommandEnd, kinds: list[str], *, as_json: bool) -> None:
    """Whatever goes wrong here, on a full disk or by another Ctrl-C, must not cost the command its exit code."""
    import contextlib

    from gputel.analysis.report.summary import recording_summary
    from gputel.cli import recorded, show

    try:
        for line in _shortcomings(run, outcome):
            show.note(line)
        if outcome.cut_short:
            return
        if kinds:
            _draw(run, kinds)
        told = recording_summary(run)
        if as_json:
            show.as_json(told)
        else:
            recorded.report(told)
    except (Exception, KeyboardInterrupt) as error:
        with contextlib.suppress(OSError):
            show.error(f"{run}: no report: {str(error) or 'interrupted'}; see 'gputel info {run}'")


def _draw(run: Path, kinds: list[str]) -> None:
    """Into the run's own folder: the page of `gputel report`."""
    from gputel.analysis.documents.report import report_document
    from gputel.analysis.report import make_report
    from gputel.analysis.runs import read_run

    options.write(report_document(make_report(read_run(run))), kinds, run, "gputel-report", force=True)


def _shortcomings(run: Path, outcome: CommandEnd) -> list[str]:
    lines = [f"{run}: closing was cut short; see 'gputel info {run}'"] if outcome.cut_short else []
    if outcome.lost:
        lines.append(f"{run}: {outcome.lost:,} bytes of output were lost: the disk did not take them in time")
    if outcome.left_behind:
        lines.append(f"{run}: the command has ended, but not its output; a keeper stays behind and writes on")
    return lines


def _end(outcome: CommandEnd) -> None:
    """Of the signal that the command died of, so that a shell's loop stops; else with its exit code."""
    import sys

    from gputel.telemetry.process import signals

    if outcome.signal:
        sys.stdout.flush()
        signals.end_by(outcome.signal)
    raise click.exceptions.Exit(outcome.exit_code)
