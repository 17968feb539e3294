"""The training is as it would be without the hook: output, exit code, traceback, path, warnings, forks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gputel.telemetry.inside.environment import CLOCK
from tests.telemetry.inside.pythons import OLD, PYTHONS, environment, every_python, run

SCRIPTS = {
    "ends": "import sys, torch; print(torch.ones, sys.path, [type(each).__name__ for each in sys.meta_path])",
    "raises": "import torch\ndef step():\n    raise ValueError('loss')\nstep()",
    "exits": "import sys, torch; sys.exit(7)",
    "lacks torch": "import torch.nothing",
    "threads": "import threading, torch; print(threading.active_count(), threading.enumerate()[0].name)",
    "closes descriptors": "import os, torch\nos.closerange(3, 4096)\nfile = open('x', 'w')\nprint(file.fileno())",
    "forks": """
import os, sys, torch
for number in range(5):
    pid = os.fork()
    if pid == 0:
        os._exit(number)
    print(os.waitpid(pid, 0)[1])
""",
    "starts processes": """
import multiprocessing, subprocess, torch
def work(number):
    import sys
    return number, sys.path
if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(1) as pool:
            print(pool.map(work, [1]))
    subprocess.run(["true"], preexec_fn=lambda: None)
""",
    "becomes another": "import os, sys, torch; os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])",
    "waits for a signal": """
import os, signal, torch
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait({signal.SIGUSR1}))
""",
}
SITECUSTOMIZE = {
    "works": "import sys; sys.users = 1",
    "raises": "raise RuntimeError('mine')",
    "imports what is missing": "import not_there",
}


def same(python: Path, script: str, meeting: Path, stub: Path, *options: str) -> None:
    """Runs a script with and without the hook."""
    plain, hooked = (
        run(python, script, environment(folder, stub), *options, cwd=stub.parent)
        for folder in (None, meeting)
    )
    assert (hooked.stdout, hooked.stderr, hooked.returncode) == (plain.stdout, plain.stderr, plain.returncode)


@every_python
@pytest.mark.parametrize("name", SCRIPTS)
def test_training_is_as_without_the_hook(python: Path, name: str, meeting: Path, stub: Path) -> None:
    same(python, SCRIPTS[name], meeting, stub, "-W", "error")


@every_python
@pytest.mark.parametrize("name", SITECUSTOMIZE)
def test_own_sitecustomize_of_the_user_is_as_without_the_hook(
    python: Path, name: str, meeting: Path, stub: Path
) -> None:
    (stub / "sitecustomize.py").write_text(SITECUSTOMIZE[name])
    same(python, "import sys, torch; print(sys.path, getattr(sys, 'users', 0))", meeting, stub)


@every_python
def test_python_that_ignores_its_environment_is_not_entered(
    python: Path, meeting: Path, tmp_path: Path
) -> None:
    for option in ("-I", "-E"):
        answer = run(python, "import sys; print(sys.path)", environment(meeting), option, cwd=tmp_path)
        assert (answer.returncode, answer.stderr) == (0, "")
        assert "inside/hook" not in answer.stdout
    assert [path.name for path in meeting.iterdir()] == [CLOCK]


@pytest.mark.parametrize("python", OLD.values(), ids=OLD)
def test_python_before_3_8_is_not_entered(python: Path, meeting: Path, stub: Path) -> None:
    same(python, "import sys, torch; print(sys.path)", meeting, stub)
    assert [path.name for path in meeting.iterdir()] == [CLOCK]


@every_python
def test_python_without_a_framework_is_not_entered(python: Path, meeting: Path, tmp_path: Path) -> None:
    assert run(python, "import json", environment(meeting), cwd=tmp_path).returncode == 0
    assert [path.name for path in meeting.iterdir()] == [CLOCK]


@every_python
def test_folder_that_is_gone_is_silence(python: Path, meeting: Path, stub: Path) -> None:
    shutil.rmtree(meeting)
    same(python, SCRIPTS["forks"], meeting, stub)
    assert not meeting.exists()


@every_python
def test_folder_that_goes_during_the_run_is_silence(python: Path, meeting: Path, stub: Path) -> None:
    script = "import shutil, torch\nshutil.rmtree({!r}, True)\n" + SCRIPTS["forks"]
    same(python, script.format(str(meeting)), meeting, stub)


@every_python
def test_finder_of_an_editable_install_is_asked_once(python: Path, meeting: Path, stub: Path) -> None:
    # as jax, since the environment of the tests has a torch
    (stub / "torch.py").rename(stub / "elsewhere.py")
    script = """
import importlib.util, sys
class Editable:
    asked = 0
    def find_spec(self, name, path=None, target=None):
        if name == "jax":
            self.asked += 1
            return importlib.util.spec_from_file_location(name, "stub/elsewhere.py")
editable = Editable()
sys.meta_path.append(editable)
import jax
print(jax.__file__, jax.__spec__.name, editable.asked)
"""
    same(python, script, meeting, stub)


def test_hook_is_read_by_each_python_that_it_may_meet(tmp_path: Path) -> None:
    """The first file by any, the others by 3.8 and later."""
    from gputel.telemetry.inside.environment import HOOK

    for names, pythons in (
        ("sitecustomize", {**OLD, **PYTHONS}),
        ("_gputel_inside", PYTHONS),
        ("_gputel_steps", PYTHONS),
    ):
        for python in pythons.values():
            compile_it = f"compile(open({str(HOOK / names)!r} + '.py').read(), 'x', 'exec')"
            assert subprocess.run([python, "-c", compile_it], cwd=tmp_path).returncode == 0
