"""`gputel demo`: each act is a command as one would type it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gputel import demo
from gputel.cli import compare, report, show
from gputel.cli.help import Command
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError

GPUTEL = (sys.executable, "-m", "gputel")

EXAMPLES = (
    "gputel demo",
    "gputel demo --steps 3 --out /tmp/demo",
)


@click.command("demo", cls=Command, examples=EXAMPLES)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("gputel-demo"), show_default=True, metavar="DIR",
    help="Folder to write to; an earlier demo in it is replaced.",
)  # fmt: skip
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    metavar="N",
    help="Steps of each training.",
)
def command(out: Path, steps: int) -> int:
    """Record, follow and compare two small trainings, in one minute, and write their pages.

    Downloads nothing. Without torch, logs of such trainings are played in real time; without a GPU, one is
    simulated. The exit code is the first one that is not 0.
    """
    machine = _simulated_machine()
    first, second = (out / f"depth-{depth}" for depth in demo.DEPTHS)
    _clear(out, (first, second))
    how = (
        "trained on this machine's CPU" if demo.can_train() else "played from logs, as torch is not installed"
    )
    gpus = "simulated, as there is none here" if machine else "this machine's"
    show.note(f"two small trainings, {how}; the GPUs are {gpus}")
    code = _run_act(
        ["record", *machine, "--out", first, "--", *_training(0, steps, out)], "a command, recorded"
    )
    if code == 0:
        with _recording([*machine, "--out", second, "--", *_training(1, steps, out)]):
            follow = ["tail", "--plain", "--fresh", second]
            code = _run_act(follow, "another one, recorded in the background and followed from here")
    acts = (
        (["compare", first, second, "--html", "--out", out], "side by side"),
        (["report", second, "--html", "--out", out], "what its steps cost, and what held it up"),
    )
    for words, about in acts:
        code = code or _run_act(words, about)
    if code == 0:
        pages = ", ".join(str(out / f"{each.NAME}.html") for each in (compare, report))
        show.note("")
        show.note(f"open: {pages}, in any browser, offline")
        show.note(f"next: gputel tail {second}")
    return code


def _simulated_machine() -> list[str]:
    """The option that simulates GPUs; empty where there is a real one."""
    from gputel.telemetry.nvml import library

    try:
        library.load().stop()
    except GputelError:
        return ["--simulate", "2xH100"]
    return []


def _training(number: int, steps: int, out: Path) -> list[str]:
    depth = demo.DEPTHS[number]
    if demo.can_train():
        return demo.training(depth, steps, str(out / "checkpoints" / f"depth-{depth}"))
    return demo.replay(depth, steps)


def _clear(out: Path, folders: tuple[Path, ...]) -> None:
    """Removes what an earlier demo made; anything else in its place is an error."""
    if out.exists() and not out.is_dir():
        raise GputelError(str(out), "is a file, not a folder", "choose another --out")
    for folder in folders:
        if folder.exists() and not run_folder.is_run(folder):
            raise GputelError(str(folder), "is not a run of an earlier demo", "choose another --out")
    for folder in (*folders, out / "checkpoints"):
        shutil.rmtree(folder, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)


def _run_act(words: list[object], about: str) -> int:
    """Prints the command as one would type it, then runs it."""
    typed = [str(word) for word in words]
    show.note("")
    show.note(f"# {about}", bold=True)
    show.note("$ gputel " + shlex.join(["python" if w == sys.executable else w for w in typed]), fg="cyan")
    return subprocess.run([*GPUTEL, *typed], check=False).returncode


@contextmanager
def _recording(words: list[object]) -> Iterator[None]:
    """Records in the background, as from another terminal."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*GPUTEL, "record", *map(str, words)], **quiet):  # type: ignore[call-overload]
        yield
