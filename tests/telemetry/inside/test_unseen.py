"""What cannot be seen of a training is said once, and the training never notices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gputel.telemetry import events
from gputel.telemetry.inside import ask, proc, unseen
from tests.telemetry.inside.pythons import environment, every_python, start

SECOND = 1_000_000_000
NO_CTYPES = "import sys\nsys.modules['ctypes'] = None\nimport torch\nprint('here', flush=True)\ninput()\n"
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
FILLED = """
import contextlib, os, subprocess, sys
from pathlib import Path
from gputel.telemetry.inside import ask, environment, unseen
root = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=17m,mode=700", "tmpfs", root], check=True)
inside = environment.enter("stacks", roots=(str(root),))
with (root / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
    while filler.write(bytes(4096)):
        pass
env = {**inside.environment(os.environ), "PYTHONDONTWRITEBYTECODE": "1"}
script = "import torch; print('here', flush=True); raise SystemExit(5 if input() else 6)"
process = subprocess.Popen([sys.executable, "-c", script], env=env, stdin=-1, stdout=-1, stderr=-1, text=True)
assert process.stdout.readline() == "here\\n"
(look,) = ask.look(inside.folder, patience_s=0.2)
assert look.threads == ()
while not unseen.failures(inside.folder):
    pass
out, err = process.communicate("go on\\n")
failure = f"process {process.pid}: no room in memory to say why"
print((process.returncode, out, err), unseen.failures(inside.folder) == [failure])
"""


def can_mount() -> bool:
    """Whether a file system can be mounted in a namespace of one's own: containers often refuse it."""
    try:
        command = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def test_first_failures_become_one_event_with_their_number(meeting: Path, tmp_path: Path) -> None:
    unseen.note(meeting, "71", "OSError: no room for api_key=sk-abcdefghijklmnop1234567890")
    unseen.note(meeting, "71", "a later failure")
    unseen.note(meeting, "72", "OSError: no room")
    for _ in range(2):
        unseen.report(tmp_path, meeting)
    (event,) = events.read(tmp_path)
    assert event["kind"] == "unseen"
    assert event["text"].startswith("no stacks of process 71: OSError: no room for ")
    assert event["text"].endswith(", and 1 more")
    assert "abcdefghijklmnop" not in event["text"]


def test_training_without_failures_has_no_event(meeting: Path, tmp_path: Path) -> None:
    unseen.report(tmp_path, meeting)
    assert list(events.read(tmp_path)) == []


@every_python
def test_python_without_ctypes_is_named_and_goes_on(python: Path, meeting: Path, stub: Path) -> None:
    process = start(python, NO_CTYPES, environment(meeting, stub), cwd=stub.parent, given=True)
    assert process.stdout
    assert process.stdout.readline() == "here\n"
    (failure,) = unseen.failures(meeting)
    assert failure.startswith(f"process {process.pid}: ")
    assert "ctypes" in failure
    process.communicate("end\n")
    assert process.returncode == 0


@pytest.mark.skipif(not can_mount(), reason="no file system can be mounted here")
def test_full_memory_is_named_and_the_training_goes_on(stub: Path) -> None:
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(stub)}
    (stub.parent / "memory").mkdir()
    command = [*NAMESPACE, sys.executable, "-c", FILLED, str(stub.parent / "memory")]
    answer = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (answer.stdout, answer.stderr) == ("(5, '', '') True\n", "")


def test_process_that_proc_hides_is_named_and_keeps_its_files(
    meeting: Path, stub: Path, this_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with hidepid."""
    script = "import torch\nprint('here', flush=True)\ninput()\n"
    process = start(this_python, script, environment(meeting, stub), cwd=stub.parent, given=True)
    assert process.stdout
    assert process.stdout.readline() == "here\n"
    monkeypatch.setattr(proc, "facts", lambda _: None)
    assert ask.look(meeting) == []
    assert unseen.failures(meeting) == [f"process {process.pid}: hidden by /proc"]
    process.communicate("end\n")
    assert process.returncode == 0
