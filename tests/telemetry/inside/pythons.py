"""The Pythons of this machine, and a `torch` that is empty: what the hook does needs no more of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gputel.telemetry.inside.environment import HOOK

PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def _found() -> dict[str, Path]:
    """The newest patch of each minor version; this one by its own path."""
    found = {}
    for python in sorted(PYENV.glob("[23].*/bin/python")):
        major, minor, *_ = python.parts[-3].split(".")
        found[f"{major}.{minor}"] = python
    found[f"{sys.version_info[0]}.{sys.version_info[1]}"] = Path(sys.executable)
    return found


PYTHONS = {name: path for name, path in _found().items() if tuple(map(int, name.split("."))) >= (3, 8)}
OLD = {name: path for name, path in _found().items() if name not in PYTHONS}
every_python = pytest.mark.parametrize(
    "python",
    [
        pytest.param(path, id=name, marks=() if path == Path(sys.executable) else pytest.mark.long)
        for name, path in PYTHONS.items()
    ],
)


def environment(folder: Path | None, *more: Path, level: str = "stacks") -> dict[str, str]:
    """The variables of a command; with a folder those that bring the hook in."""
    path = [*more, *([HOOK] if folder else [])]
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONDONTWRITEBYTECODE": "1"}
    if path:
        env["PYTHONPATH"] = ":".join(str(each) for each in reversed(path))
    return {**env, "GPUTEL_INSIDE_AT": f"{level}:{folder}"} if folder else env


def start(
    python: Path, script: str, env: Mapping[str, str], *, cwd: Path, given: bool = False
) -> subprocess.Popen[str]:
    """Starts a script from a file; it says on its output when it is where it will stay."""
    (cwd / "train.py").write_text(script)
    return subprocess.Popen(
        [python, "train.py"],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.PIPE if given else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    python: Path, script: str, env: Mapping[str, str], *options: str, cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Runs a script from a file, so that tracebacks have its lines."""
    (cwd / "train.py").write_text(script)
    argv = [str(python), *options, "train.py"]
    return subprocess.run(argv, env=dict(env), cwd=cwd, capture_output=True, text=True, check=False)
