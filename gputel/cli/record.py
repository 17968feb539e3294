"""`gputel record`"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.cli import guard, options, show, sync
from gputel.cli.help import Command, Groups
from gputel.telemetry.clock import SystemClock
from gputel.telemetry.errors import GputelError
from gputel.telemetry.inside import environment
from gputel.telemetry.inside.environment import LEVELS
from gputel.telemetry.user_folders import working_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gputel.telemetry.inside.environment import Inside
    from gputel.telemetry.process.children import Sample
    from gputel.telemetry.process.companions import Order
    from gputel.telemetry.process.exit_limit import ExitLimit
    from gputel.telemetry.process.viewer import CommandEnd
    from gputel.telemetry.remote.sidecar import SyncOrder
    from gputel.telemetry.run_folder import Segment
    from gputel.telemetry.sampling.status import Board

EXAMPLES = (
    "gputel record -- torchrun --nproc_per_node=8 train.py",
    "gputel record --stop-on nan,stalled --budget 1000 --price 4 -- python train.py",
)
GROUPS: Groups = {
    "What is recorded": (
        "hz",
        ("gpus no-host", "Only these GPUs, by index or UUID; no host metrics."),
        "simulate",
        "max-overhead",
        "follow",
        ("pid for", "Without a command: until process N ends, or this long."),
    ),
    "The run folder": (
        "out",
        "name",
        "tag",
        "continue",
        "no-source",
        ("share-group fsync", "Let your group read it; sync it to the disk."),
    ),
    "Sending while it records": (
        "sync",
        ("sync-rate sync-masked-output", "At most this rate; mask secrets in the output."),
        "push",
    ),
    "The command": (
        "pty",
        "inside",
        "stop-on",
        "stop-after",
        ("budget price", "Stop when this is spent; dollars per GPU hour."),
        "grace",
        "then",
        "prometheus",
    ),
    "The closing report": (*options.PAGES, "json"),
}


@click.command(
    "record",
    cls=Command,
    examples=EXAMPLES,
    groups=GROUPS,
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--hz",
    type=click.FloatRange(0, 10_000, min_open=True),
    default=100.0,
    metavar="RATE",
    help="Samples per second.  [default: 100]",
)
@click.option("--gpus", help="Sample only these GPUs, by index or UUID.", metavar="0,2")
@click.option("--no-host", is_flag=True, help="Sample no CPU, memory, disks and networks.")
@click.option(
    "--for",
    "duration",
    type=options.duration,
    help="End a recording without a command after this.",
    metavar="30s",
)
@click.option("--out", help="The run folder itself; otherwise runs/<stamp>-<name>.", metavar="DIR")
@click.option("--continue", "onto", help="Add a segment to this run: a job that resumed.", metavar="RUN")
@click.option("--name", help="Name of the run; else that of --out or COMMAND.", metavar="NAME")
@click.option("--tag", "tags", type=options.tag, multiple=True, help="Add a tag to run.json.", metavar="K=V")
@click.option("--no-source", is_flag=True, help="Save no uncommitted changes, no files of COMMAND.")
@click.option("--simulate", help="Record a simulated machine.", metavar="2xH100")
@click.option(
    "--follow",
    type=click.Path(dir_okay=False),
    help="Stamp and copy a log that is being written.",
    metavar="LOG",
)
@click.option("--pid", type=click.IntRange(1), help="End when this process ends.", metavar="N")
@click.option("--share-group", is_flag=True, help="Let your group read the run folder.")
@click.option("--fsync", is_flag=True, help="Sync output and run.json to the disk.")
@click.option("--sync", metavar="ADDRESS", help="The run folder, to s3://bucket/runs/.")
@click.option("--sync-rate", type=options.byte_rate, metavar="1MB", help="Send no more a second.")
@click.option("--sync-masked-output", is_flag=True, help="Send secrets in the output as stars.")
@click.option(
    "--push", metavar="URL", envvar="GPUTEL_PUSH", help="Each second, to Prometheus or VictoriaMetrics."
)
@click.option("--pty", is_flag=True, help="Give the command a terminal of its own.")
@click.option(
    "--inside",
    type=click.Choice(LEVELS),
    default="off",
    show_default=True,
    envvar="GPUTEL_INSIDE",
    help="Stacks of hangs; step waits.",
)
@click.option(
    "--max-overhead",
    type=options.share,
    metavar="SHARE",
    help="CPU limit: share of a core per GPU.  [default: 5%]",
)
@guard.guard_options
@options.pages
@options.json
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(argv: tuple[str, ...], as_json: bool, **asked: Any) -> None:
    """Sample the GPUs until Ctrl-C; with a COMMAND, run it and keep its output.

    The exit code is that of the command, even if the recording fails.
    """
    from gputel.telemetry.process import exit_limit

    _refuse_nonsense(argv, asked)
    orders = guard.instructions(asked, has_command=bool(argv))
    _refuse_what_cannot_start(argv, asked)
    run, segment = _folder(argv, asked)
    sending = sync.sending(asked, run, segment.path)
    beside = [guard.beside(orders, run, segment.path)] if orders else []
    beside += [sending.start] if sending else []
    limit = exit_limit.ExitLimit(run)
    outcome = _record(run, segment, argv, asked, beside, limit=limit, show=2 if as_json else 1)
    _finish(
        run,
        segment,
        outcome,
        options.wanted_outputs(asked),
        sending.sync if sending else None,
        limit=limit,
        as_json=as_json,
    )
    _exit(outcome)


def _refuse_nonsense(argv: tuple[str, ...], asked: Mapping[str, Any]) -> None:
    if argv and asked["duration"]:
        raise click.UsageError(
            "--for ends a recording without a command; put `timeout 30s` before the command"
        )
    if argv and (asked["follow"] or asked["pid"]):
        raise click.UsageError("--follow and --pid are for a job that runs already; leave out the command")
    if asked["out"] and asked["onto"]:
        raise click.UsageError("--continue goes on in the run's own folder; leave out --out")
    if (asked["simulate"] or "").startswith("-"):
        raise click.UsageError("--simulate needs a machine, such as 2xH100")
    if asked["gpus"] is not None and not asked["gpus"].strip(" ,"):
        raise click.UsageError("--gpus names no GPU; say --gpus 0,2")
    if (asked["sync_rate"] or asked["sync_masked_output"]) and not asked["sync"]:
        raise click.UsageError("--sync-rate and --sync-masked-output need --sync")
    if asked["pty"] and not argv:
        raise click.UsageError("--pty gives a terminal to a command, and there is none")


def _refuse_what_cannot_start(argv: Sequence[str], asked: Mapping[str, Any]) -> None:
    """Refuses it before there is a run folder."""
    from gputel.telemetry.process import spawn

    if asked["sync"]:
        sync.check(asked["sync"], argv, masks=asked["sync_masked_output"])
    if asked["push"]:
        sync.check_push(asked["push"])
    spawn.require_linux()
    if argv:
        spawn.check(argv)


def _record(
    run: Path,
    segment: Segment,
    argv: tuple[str, ...],
    asked: Mapping[str, Any],
    beside: Sequence[Order],
    *,
    limit: ExitLimit,
    show: int,
) -> CommandEnd:
    """Records until the end; the command's output goes to the descriptor `show`.

    The folder of a recording in which nothing happened is removed again.
    """
    from gputel.telemetry import run_folder, source_code
    from gputel.telemetry.inside import drain
    from gputel.telemetry.process import spawn, viewer

    spawn.fill_standard()
    inside = environment.enter(asked["inside"]) if argv else environment.Inside("off")
    saves_source = argv and not asked["no_source"]
    save_source = partial(source_code.start, segment.path, argv, working_folder())
    try:
        job = viewer.Job(
            segment.path,
            _sampler(segment, asked),
            argv=argv,
            env=inside.environment(_environment(run)),
            follow=Path(asked["follow"]) if asked["follow"] else None,
            pid=asked["pid"],
            duration_s=asked["duration"],
            pty=asked["pty"],
            fsync=asked["fsync"],
            show=show,
            beside=[
                *beside,
                *([guard.watching(segment.path, inside.folder)] if inside.folder and inside.looks else []),
            ],
            on_demand=[(partial(drain.is_due, inside.folder), drain.order(segment.path, inside.folder))]
            if inside.folder
            else [],
            exit_limit=limit,
            locks=() if inside.lock is None else (inside.lock,),
            save_source=save_source if saves_source else None,
        )
        with contextlib.suppress(OSError):
            run_folder.update(segment.path, inside=inside.as_json())
        outcome = viewer.record(job)
    except GputelError:
        run_folder.discard(segment)
        raise
    finally:
        _leave(segment, inside)
    if outcome.fault and not (argv or asked["follow"]):
        run_folder.discard(segment)
        usage = outcome.fault["place"].startswith("--")
        fault = dict(outcome.fault)
        if not usage:
            fault["hint"] += "; with a COMMAND its output is recorded without a GPU"
        raise GputelError(**fault, exit_code=2 if usage else 1)
    return outcome


def _leave(segment: Segment, inside: Inside) -> None:
    """Takes the last rows and failures out of the folder in memory, and removes it."""
    from gputel.telemetry.inside import drain, unseen

    if inside.folder is not None:
        with contextlib.suppress(OSError):
            drain.drain(segment.path, inside.folder)
        with contextlib.suppress(OSError):
            unseen.report(segment.path, inside.folder)
            copies = drain.step_files(segment.path)
            unseen.StepSight(segment.path, inside.folder).look(copies, at_end=True)
    environment.leave(inside)


def _folder(argv: tuple[str, ...], asked: Mapping[str, Any]) -> tuple[Path, Segment]:
    from gputel.cli import sources
    from gputel.telemetry import identity, run_folder

    out_name = Path(asked["out"]).resolve().name if asked["out"] else ""
    name = asked["name"] or out_name or default_name(argv, asked["follow"])
    facts = identity.facts(
        argv,
        env=os.environ,
        cwd=working_folder(),
        name=name,
        tags=dict(asked["tags"]),
        price=asked["price"],
        budget=asked["budget"],
    )
    node = identity.node(os.environ, argv).rank
    if asked["onto"]:
        path = sources.one_run(asked["onto"])
        return path, run_folder.add_segment(path, facts, node=node)
    path = Path(asked["out"]) if asked["out"] else run_folder.default_path(SystemClock().stamp(), name)
    mode = run_folder.SHARED if asked["share_group"] else run_folder.PRIVATE
    return path, run_folder.create(path, facts, node=node, mode=mode)


def default_name(argv: Sequence[str], follow: str | None) -> str:
    """Named after the script that runs, or the module (`python -m gputel.trainer`), or the log."""
    scripts = [word for word in argv if word.endswith((".py", ".sh"))]
    modules = [name.rpartition(".")[2] for option, name in pairwise(argv) if option == "-m"]
    word = follow or next(iter([*scripts, *modules, *argv]), "gpus")
    return Path(word).stem or "run"


def _sampler(segment: Segment, asked: Mapping[str, Any]) -> Sample:
    machine = f"simulate:{asked['simulate']}" if asked["simulate"] else "nvml"
    words = [part.strip() for part in (asked["gpus"] or "").split(",")]
    gpus = tuple(word for word in words if word) if asked["gpus"] else None

    def sample(board: Board, stops: Sequence[int]) -> int:
        from gputel.telemetry.sampling import sampler

        spec = sampler.Spec(
            segment.path, machine, asked["hz"], gpus, asked["max_overhead"], host=not asked["no_host"]
        )
        return sampler.run(spec, board, stops)

    return sample


def _environment(path: Path) -> dict[str, str]:
    """The command's environment: its prints come at once, and `gputel mark` in it finds the run."""
    unbuffered = os.environ.get("PYTHONUNBUFFERED") or "1"
    return {**os.environ, "PYTHONUNBUFFERED": unbuffered, "GPUTEL_RUN": str(path.resolve())}


def _finish(
    run: Path,
    segment: Segment,
    outcome: CommandEnd,
    kinds: list[str],
    sending: SyncOrder | None = None,
    *,
    limit: ExitLimit | None = None,
    as_json: bool,
) -> None:
    """Compacts, prints the report, sends the rest. Whatever goes wrong must not cost the command its exit code."""
    from gputel.cli import final_report
    from gputel.telemetry.store import compact

    fault = None
    try:
        for line in _shortcomings(run, outcome):
            show.note(line)
        if not outcome.cut_short:
            look = asdict(options.picture_look()) if kinds else {}
            tables = [str(table) for table in compact.tables(segment.path, sampled=outcome.sampled)]
            order = final_report.ReportOrder(str(run), tables, kinds, as_json, look, sending)
            short = not outcome.sampled and final_report.show_short(order)
            fault = None if short else final_report.show_report(order, limit)
            if fault and final_report.has_journals(order):
                show.note(final_report.not_compacted(str(run), fault))
    except (Exception, KeyboardInterrupt) as error:
        fault = final_report.why(error)
    if fault:
        with contextlib.suppress(Exception, KeyboardInterrupt):
            show.error(final_report.no_report(str(run), fault))


def _shortcomings(run: Path, outcome: CommandEnd) -> list[str]:
    lines = [f"{run}: closing was cut short; see 'gputel info {run}'"] if outcome.cut_short else []
    if outcome.lost:
        lines.append(f"{run}: {outcome.lost:,} bytes of output were lost: neither disk nor memory took them")
    if outcome.missing:
        lines.append(f"{run}: {outcome.missing:,} bytes of output are not in output.log: the disk was full")
    if outcome.unsealed:
        lines.append(f"{run}: {outcome.unsealed}; samples of the last seconds may be missing")
    if outcome.left_behind:
        lines.append(f"{run}: the command has ended, but not its output; a keeper stays behind and writes on")
    return lines


def _exit(outcome: CommandEnd) -> None:
    """Ends by the signal that ended the command, so that a shell's loop stops; else with its exit code."""
    from gputel.telemetry.process import signals

    if outcome.signal:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        signals.end_by(outcome.signal)
    raise click.exceptions.Exit(outcome.exit_code)
