"""What `gputel record` was asked -> the recording itself: the run's folder, and what came of it.

The folder is there before anything is sampled; where that was all, it is taken back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.cli import guard, sources
from gputel.telemetry import events, identity, run_folder
from gputel.telemetry.clock import SystemClock
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process import spawn, viewer

if TYPE_CHECKING:
    from gputel.analysis.live.instructions import Instructions
    from gputel.telemetry.process.children import Sample
    from gputel.telemetry.sampling.status import Board


def record(
    argv: tuple[str, ...], asked: Mapping[str, Any], orders: Instructions | None, *, show: int
) -> tuple[Path, viewer.CommandEnd]:
    """Returns when it has ended; the command's output goes to the descriptor `show`."""
    spawn.require_linux()
    if argv:
        spawn.check(argv)
    path, segment = _folder(argv, asked)
    outcome = viewer.record(
        viewer.Job(
            segment.path,
            _sampler(segment, asked),
            argv=argv,
            env=_environment(path),
            follow=Path(asked["follow"]) if asked["follow"] else None,
            pid=asked["pid"],
            duration_s=asked["duration"],
            pty=asked["pty"],
            show=show,
            beside=guard.beside(orders, path, segment.path) if orders else None,
        )
    )
    if outcome.fault and not (argv or asked["follow"]):
        _abandon(segment, outcome.fault)
    return path, outcome


def _folder(argv: tuple[str, ...], asked: Mapping[str, Any]) -> tuple[Path, run_folder.Segment]:
    own = Path(asked["out"]).resolve().name if asked["out"] else ""
    name = asked["name"] or own or _named_after(argv, asked["follow"])
    facts = identity.facts(argv, env=os.environ, cwd=Path.cwd(), name=name, tags=dict(asked["tags"]))
    node = identity.node(os.environ).rank
    if asked["onto"]:
        path = sources.one_run(asked["onto"])
        return path, run_folder.add_segment(path, facts, node=node)
    path = Path(asked["out"]) if asked["out"] else run_folder.default_path(SystemClock().stamp(), name)
    return path, run_folder.create(path, facts, node=node)


def _named_after(argv: tuple[str, ...], follow: str | None) -> str:
    """The script that runs, or the module (`python -m gputel.trainer`), or the log."""
    scripts = [word for word in argv if word.endswith((".py", ".sh"))]
    modules = [name.rpartition(".")[2] for option, name in pairwise(argv) if option == "-m"]
    word = follow or next(iter([*scripts, *modules, *argv]), "gpus")
    return Path(word).stem or "run"


def _sampler(segment: run_folder.Segment, asked: Mapping[str, Any]) -> Sample:
    machine = f"simulate:{asked['simulate']}" if asked["simulate"] else "nvml"
    words = [part.strip() for part in (asked["gpus"] or "").split(",")]
    gpus = tuple(word for word in words if word) if asked["gpus"] else None

    def sample(board: Board, stops: Sequence[int]) -> int:
        from gputel.telemetry.sampling import sampler

        spec = sampler.Spec(segment.path, machine, asked["hz"], gpus, asked["max_overhead"])
        return sampler.run(spec, board, stops)

    return sample


def _environment(path: Path) -> dict[str, str]:
    """The command's: its prints come at once, and `gputel mark` in it finds the run."""
    unbuffered = os.environ.get("PYTHONUNBUFFERED") or "1"
    return {**os.environ, "PYTHONUNBUFFERED": unbuffered, "GPUTEL_RUN": str(path.resolve())}


def _abandon(segment: run_folder.Segment, fault: dict[str, str]) -> None:
    """Nothing was recorded: take back what was made for it, and nothing else."""
    shutil.rmtree(segment.gpu, ignore_errors=True)
    for name in (events.NAME, f".{run_folder.DESCRIPTION}.lock", run_folder.DESCRIPTION):
        (segment.path / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        segment.path.rmdir()
    usage = fault["place"].startswith("--")
    raise GputelError(fault["place"], fault["fault"], fault["mend"], exit_code=2 if usage else 1)
