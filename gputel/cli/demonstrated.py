"""The acts of `gputel demo`, each a command that its reader could type, run as they would run it."""

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
from gputel.cli import show
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError

GPUTEL = (sys.executable, "-m", "gputel")


def show_all(out: Path, steps: int) -> int:
    """Ends with the first code that is not 0."""
    machine = _machine()
    first, second = (out / f"depth-{depth}" for depth in demo.DEPTHS)
    _clear(out, (first, second))
    said = (
        "trained on this machine's CPU" if demo.can_train() else "played from logs, as torch is not installed"
    )
    gpus = "SIMULATED, as there is none here" if machine else "this machine's"
    show.note(f"two small trainings, {said}; the GPUs are {gpus}")
    code = _say(["record", *machine, "--out", first, "--", *_command(0, steps, out)], "a command, recorded")
    if code == 0:
        with _recording([*machine, "--out", second, "--", *_command(1, steps, out)]):
            code = _say(
                ["tail", "--plain", "--fresh", second],
                "another one, recorded elsewhere and followed from here",
            )
    acts = (
        (["compare", first, second, "--html", "--out", out], "beside each other"),
        (["report", second, "--html", "--out", out], "what its steps cost, and what held it up"),
    )
    for words, about in acts:
        code = code or _say(words, about)
    if code == 0:
        show.note(
            f"\nopen     {out / 'gputel-compare.html'}, {out / 'gputel-report.html'}: in any browser, offline"
        )
        show.note(f"next     gputel tail {second}")
    return code


def _machine() -> list[str]:
    """What stands in for GPUs where there are none."""
    from gputel.telemetry.nvml import library

    try:
        library.load().stop()
    except GputelError:
        return ["--simulate", "2xH100"]
    return []


def _command(number: int, steps: int, out: Path) -> list[str]:
    depth = demo.DEPTHS[number]
    if demo.can_train():
        return demo.training(depth, steps, str(out / "checkpoints" / f"depth-{depth}"))
    return demo.replay(depth, steps)


def _clear(out: Path, folders: tuple[Path, ...]) -> None:
    """What an earlier demo made goes; anything else is somebody's."""
    if out.exists() and not out.is_dir():
        raise GputelError(str(out), "is a file, not a folder", "choose another --out")
    for folder in folders:
        if folder.exists() and not run_folder.is_run(folder):
            raise GputelError(str(folder), "is no run of a demo", "choose another --out")
    for folder in (*folders, out / "checkpoints"):
        shutil.rmtree(folder, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)


def _say(words: list[object], about: str) -> int:
    """The command as it would be typed, and what it prints."""
    typed = [str(word) for word in words]
    show.note("\n" + click.style(f"# {about}", bold=True))
    show.note(
        click.style(
            "$ gputel " + shlex.join(["python" if w == sys.executable else w for w in typed]), fg="cyan"
        )
    )
    return subprocess.run([*GPUTEL, *typed], check=False).returncode


@contextmanager
def _recording(words: list[object]) -> Iterator[None]:
    """In the background, as if in another terminal."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*GPUTEL, "record", *map(str, words)], **quiet):  # type: ignore[call-overload]
        yield
