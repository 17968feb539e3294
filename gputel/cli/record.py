"""`gputel record`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gputel.cli import attended, drawn, values

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gputel.telemetry.board import Board
    from gputel.telemetry.process.viewer import Outcome
    from gputel.telemetry.run import Segment


@click.command("record", context_settings={"allow_interspersed_args": False})
@click.option(
    "--hz",
    type=click.FloatRange(0, 10_000, min_open=True),
    default=100.0,
    show_default=True,
    help="Samples a second.",
)
@click.option("--gpus", help="Only these, by index or uuid.", metavar="0,2")
@click.option(
    "--for",
    "duration",
    type=values.duration,
    help="End a recording without a command after this.",
    metavar="30s",
)
@click.option("--out", help="The run folder itself; otherwise runs/<stamp>-<name>.", metavar="DIR")
@click.option("--continue", "onto", help="Go on with this run in a new segment.", metavar="RUN")
@click.option("--name", help="What the run is called; otherwise after the command.", metavar="NAME")
@click.option("--tag", "tags", type=values.tag, multiple=True, help="A fact for run.json.", metavar="K=V")
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
    type=values.share,
    default="2%",
    show_default=True,
    help="Of a core, for calls into the driver.",
)
@attended.options
@drawn.options
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    argv: tuple[str, ...],
    hz: float,
    gpus: str | None,
    duration: float | None,
    out: str | None,
    onto: str | None,
    name: str | None,
    tags: tuple[tuple[str, str], ...],
    simulate: str | None,
    follow: str | None,
    pid: int | None,
    pty: bool,
    max_overhead: float,
    as_json: bool,
    **asked: Any,
) -> None:
    """Sample the GPUs until Ctrl-C; with a COMMAND, run it and keep its output beside them.

    The command's exit code is ours, and nothing that goes wrong here harms it.
    """
    _refuse_nonsense(argv, duration, out, onto, follow, pid, pty)
    orders = attended.orders(asked, has_command=bool(argv))
    from pathlib import Path

    from gputel.telemetry.process import launch, viewer
    from gputel.telemetry.process.command import check

    launch.require_linux()
    if argv:
        check(argv)
    run, segment = _folder(argv, out, onto, name or _named_after(argv, follow), dict(tags))
    machine = f"simulate:{simulate}" if simulate else "nvml"
    wanted = tuple(part.strip() for part in gpus.split(",") if part.strip()) if gpus else None

    def sample(board: Board, stops: Sequence[int]) -> int:
        from gputel.telemetry.sampling import sampler

        return sampler.run(sampler.Spec(segment.path, machine, hz, wanted, max_overhead), board, stops)

    outcome = viewer.record(
        viewer.Job(
            segment.path,
            sample,
            argv=argv,
            env=_environment(run),
            follow=Path(follow) if follow else None,
            pid=pid,
            duration_s=duration,
            pty=pty,
            show=2 if as_json else 1,
            beside=attended.beside(orders, run, segment.path) if orders else None,
        )
    )
    if outcome.fault and not (argv or follow):
        _abandon(segment, outcome.fault)
    _report(run, outcome, drawn.asked(asked), as_json=as_json)
    _end(outcome)


def _refuse_nonsense(
    argv: tuple[str, ...],
    duration: float | None,
    out: str | None,
    onto: str | None,
    follow: str | None,
    pid: int | None,
    pty: bool,
) -> None:
    if argv and duration:
        raise click.UsageError(
            "--for ends a recording without a command; put `timeout 30s` before the command"
        )
    if argv and (follow or pid):
        raise click.UsageError("--follow and --pid are for a job that runs already; leave out the command")
    if out and onto:
        raise click.UsageError("--continue goes on in the run's own folder; leave out --out")
    if pty and not argv:
        raise click.UsageError("--pty gives a terminal to a command, and there is none")


def _named_after(argv: tuple[str, ...], follow: str | None) -> str:
    """The script that runs, or the log."""
    from pathlib import Path

    scripts = [word for word in argv if word.endswith((".py", ".sh"))]
    word = follow or next(iter([*scripts, *argv]), "gpus")
    return Path(word).stem or "run"


def _folder(
    argv: tuple[str, ...], out: str | None, onto: str | None, name: str, tags: dict[str, str]
) -> tuple[Path, Segment]:
    import os
    from pathlib import Path

    from gputel.cli import sources
    from gputel.telemetry import identity, run
    from gputel.telemetry.clock import SystemClock

    facts = identity.facts(argv, env=os.environ, cwd=Path.cwd(), name=name, tags=tags)
    node = identity.node(os.environ).rank
    if onto:
        path = sources.one_run(onto)
        return path, run.add_segment(path, facts, node=node)
    path = Path(out) if out else run.default_path(SystemClock().stamp(), name)
    return path, run.create(path, facts, node=node)


def _environment(run: Path) -> dict[str, str]:
    """The command's: its prints come at once, and `gputel mark` in it finds the run."""
    import os

    unbuffered = os.environ.get("PYTHONUNBUFFERED") or "1"
    return {**os.environ, "PYTHONUNBUFFERED": unbuffered, "GPUTEL_RUN": str(run.resolve())}


def _abandon(segment: Segment, fault: dict[str, str]) -> None:
    """Nothing was recorded: take back what was made for it, and nothing else."""
    import contextlib
    import shutil

    from gputel.telemetry import events, run
    from gputel.telemetry.errors import GputelError

    shutil.rmtree(segment.gpu, ignore_errors=True)
    for name in (events.NAME, f".{run.DESCRIPTION}.lock", run.DESCRIPTION):
        (segment.path / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        segment.path.rmdir()
    raise GputelError(fault["place"], fault["fault"], fault["mend"])


def _report(run: Path, outcome: Outcome, kinds: list[str], *, as_json: bool) -> None:
    """Whatever goes wrong here, on a full disk or by another Ctrl-C, must not cost the command its exit code."""
    import contextlib

    from gputel.analysis import recorded as account
    from gputel.cli import recorded, show

    try:
        for line in _shortcomings(run, outcome):
            show.note(line)
        if outcome.cut_short:
            return
        told = account.of(run)
        if as_json:
            show.as_json(told)
        else:
            recorded.report(told)
        if kinds:
            _draw(run, kinds)
    except (Exception, KeyboardInterrupt) as error:
        with contextlib.suppress(OSError):
            show.error(f"{run}: no report: {str(error) or 'interrupted'}; see 'gputel info {run}'")


def _draw(run: Path, kinds: list[str]) -> None:
    """Into the run's own folder: the page of `gputel report`."""
    from gputel.analysis import reported, subjects
    from gputel.analysis.pages import recorded

    drawn.write(recorded.page(reported.of(subjects.of(run))), kinds, run, "gputel-report", force=True)


def _shortcomings(run: Path, outcome: Outcome) -> list[str]:
    lines = [f"{run}: closing was cut short; see 'gputel info {run}'"] if outcome.cut_short else []
    if outcome.lost:
        lines.append(f"{run}: {outcome.lost:,} bytes of output were lost: the disk did not take them in time")
    if outcome.left_behind:
        lines.append(f"{run}: the command has ended, but not its output; a keeper stays behind and writes on")
    return lines


def _end(outcome: Outcome) -> None:
    """Of the signal that the command died of, so that a shell's loop stops; else with its exit code."""
    import sys

    from gputel.telemetry.process import signals

    if outcome.signal:
        sys.stdout.flush()
        signals.end_by(outcome.signal)
    raise click.exceptions.Exit(outcome.exit_code)
