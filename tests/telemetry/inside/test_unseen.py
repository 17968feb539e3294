"""What cannot be seen of a training is said once, and the training never notices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.telemetry import events
from gputel.telemetry.clock import SECOND
from gputel.telemetry.host import process_names as proc_names
from gputel.telemetry.inside import ask, drain, proc, step_records, unseen
from gputel.telemetry.inside.stacks import ProcessFacts
from tests.telemetry.inside.pythons import environment, every_python, start

NO_CTYPES = "import sys\nsys.modules['ctypes'] = None\nimport torch\nprint('here', flush=True)\ninput()\n"
SYSTEM_PYTHON = Path("/usr/bin/python3")
"""One that every user can run."""
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


def test_python_of_another_user_is_found_by_its_environment(tmp_path: Path) -> None:
    """As after `setpriv` or `su` in a container whose recorder is root's."""
    entries = {
        71: (b"/usr/bin/python3\0train.py\0", b"A=1\0AT=steps:/memory/one\0"),
        72: (b"python\0", b"AT=steps:/memory/other\0"),
        73: (b"sleep\0python\0", b"AT=steps:/memory/one\0"),
    }
    for pid, (words, variables) in entries.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes(words)
        (tmp_path / str(pid) / "environ").write_bytes(variables)
    (tmp_path / "74").mkdir()  # has ended
    us = os.getuid()
    assert list(proc.foreign_pythons(b"AT=", b"/memory/one", tmp_path, us + 1)) == [71]
    assert list(proc.foreign_pythons(b"AT=", b"/memory/one", tmp_path, us)) == []


@pytest.mark.skipif(
    os.getuid() != 0 or not SYSTEM_PYTHON.exists(), reason="only root can start a Python of another user"
)
def test_training_of_another_user_is_named(meeting: Path, stub: Path) -> None:
    script = "import sys; print('here', flush=True); sys.exit(5 if input() else 6)"
    env = {"PATH": os.environ["PATH"], "GPUTEL_INSIDE_AT": f"stacks:{meeting}"}
    process = subprocess.Popen(
        [SYSTEM_PYTHON, "-c", script], env=env, user=65534, cwd="/", stdin=-1, stdout=-1, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "here\n"
    assert ask.look(meeting) == []
    expected = f"process {process.pid}: another user's, and cannot be entered"
    assert unseen.failures(meeting) == [expected]
    process.communicate("go on\n")
    assert process.returncode == 5


class Ranks:
    """Records of steps in a run folder, and a clock that is set by hand."""

    def __init__(self, segment: Path, folder: Path) -> None:
        self._segment, self.now = segment, 0.0
        (segment / drain.NAME).mkdir()
        self._sight = unseen.StepSight(segment, folder, lambda: self.now)

    def take(self, rank: int, count: int, *, flags: int = 0, pid: int = 70, world: int = 4) -> None:
        path = self._segment / drain.NAME / f"{pid + rank}-5{step_records.ENDING}"
        if not path.exists():
            path.write_bytes(step_records.HEADER.pack(step_records.MAGIC, 0, rank, world))
        row = step_records.StepRecord(0, 40 * SECOND, 10 * SECOND, 0, 0, 0, 12, 24, 0, flags, 0)
        with path.open("ab") as file:
            file.write(step_records.RECORD.pack(*row) * count)

    def look(self, seconds: float = 0.0, *, at_end: bool = False) -> list[str]:
        """What is said after these seconds."""
        before = len(list(events.read(self._segment)))
        self.now += seconds
        self._sight.look(drain.step_files(self._segment), at_end=at_end)
        return [event["text"] for event in events.read(self._segment)][before:]


@pytest.fixture
def ranks(tmp_path: Path, meeting: Path) -> Ranks:
    (tmp_path / "segment").mkdir()
    return Ranks(tmp_path / "segment", meeting)


WORK = "no optimizer of PyTorch took one; 12 batches and 24 backwards in 40 s, 25 % of it waiting for data"


def test_rank_without_steps_is_named_once_with_what_it_did(
    ranks: Ranks, meeting: Path, tmp_path: Path
) -> None:
    ranks.take(0, 10)
    ranks.take(3, 5, flags=step_records.OPEN)
    assert ranks.look() == []
    assert ranks.look(61) == [f"rank 3 (process 73): steps are not seen: {WORK}"]
    assert ranks.look(61) == []
    again = unseen.StepSight(tmp_path / "segment", meeting)  # as of the recorder, at the end
    again.look(drain.step_files(tmp_path / "segment"), at_end=True)
    assert len(list(events.read(tmp_path / "segment"))) == 1


def test_rank_whose_first_step_comes_late_is_not_named(ranks: Ranks) -> None:
    ranks.take(0, 10)
    ranks.take(3, 5, flags=step_records.OPEN)
    assert ranks.look() == []
    ranks.take(3, 1)
    ranks.take(3, 1, flags=step_records.OPEN)
    assert ranks.look(61) == ranks.look(at_end=True) == []


def test_where_no_rank_has_steps_the_end_or_a_quarter_of_an_hour_says_so(ranks: Ranks) -> None:
    ranks.take(0, 5, flags=step_records.OPEN)
    assert ranks.look(61) == []
    assert ranks.look(840) == [f"rank 0 (process 70): steps are not seen: {WORK}"]
    ranks.take(1, 5, flags=step_records.OPEN)
    assert ranks.look(at_end=True) == [f"rank 1 (process 71): steps are not seen: {WORK}"]


def test_rank_that_listens_and_writes_nothing_is_named_by_its_environment(
    ranks: Ranks, meeting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But no launcher of ranks, no worker of one, and no process of another world."""
    parents = {9: 1, 70: 9, 73: 9, 74: 73, 75: 70, 80: 1}
    numbers = {9: (0, 4), 70: (0, 4), 73: (3, 4), 74: (3, 4), 75: (1, 4), 80: (5, 8)}
    facts = {pid: ProcessFacts(parent, 0, "S", "", None, 0.0, 0) for pid, parent in parents.items()}
    monkeypatch.setattr(proc, "facts", facts.get)
    monkeypatch.setattr(proc, "number", lambda pid, names: numbers[pid][names is not proc_names.RANKS])
    for pid in parents:
        (meeting / f"{pid}.ask").touch()
    ranks.take(0, 10)
    assert ranks.look() == []
    why = "no optimizer of PyTorch took one while others took 10 and more"
    assert ranks.look(61) == [f"rank 3 (process 73): steps are not seen: {why}"]
    assert ranks.look(61) == []


def test_failure_of_steps_names_the_rank() -> None:
    failure = "process 73: steps of rank 3: OSError: no space left in memory"
    expected = "rank 3 (process 73): steps are not seen: OSError: no space left in memory"
    assert unseen.sentence(failure) == expected
