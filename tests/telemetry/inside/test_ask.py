"""A process answers with its stacks wherever it stands; one that cannot is looked at from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputel.telemetry.inside import ask, proc
from gputel.telemetry.inside.environment import ASKED, CLOCK
from gputel.telemetry.inside.stacks import ProcessLook, parse_fault, parse_threads
from tests.recordings import is_stopped, until
from tests.telemetry.inside.pythons import environment, every_python, start

Start = Callable[..., "subprocess.Popen[str]"]

SLEEPS = """
import time, torch
def slow_read():
    print("here", flush=True)
    time.sleep(1000)
slow_read()
"""
HOLDS_THE_GIL = """
import ctypes, os, torch
def in_c():
    print("here", flush=True)
    ctypes.PyDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)
in_c()
"""


@pytest.fixture
def started(meeting: Path, stub: Path) -> Iterator[Start]:
    """Starts a script, and waits until it says that it is where it will stay."""
    processes = []

    def begin(python: Path, script: str) -> subprocess.Popen[str]:
        process = start(python, script, environment(meeting, stub), cwd=stub.parent)
        processes.append(process)
        assert process.stdout
        assert process.stdout.readline() == "here\n"
        return process

    yield begin
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _at(meeting: Path, where: tuple[int, str], answerer: str) -> ProcessLook | None:
    """The one process, once it stands there and is answered in this way: to get there takes a moment."""
    looks = ask.look(meeting, patience_s=0.2)
    there = (look for look in looks if look.threads and place(look) == where)
    return next((look for look in there if look.answered_by == answerer), None)


def place(look: ProcessLook) -> tuple[int, str]:
    """The line and function of its main thread."""
    return look.main[-1].line, look.main[-1].function


@every_python
def test_sleeping_process_answers_with_its_line(python: Path, meeting: Path, started: Start) -> None:
    process = started(python, SLEEPS)

    def asleep() -> ProcessLook | None:
        """Once its state, which is that before the question, is so, too."""
        look = _at(meeting, (5, "slow_read"), "listener")
        return look if look and look.facts.state == "S" else None

    look = until(asleep, "a process that sleeps")
    assert look
    assert look.pid == process.pid
    assert look.facts.command.endswith("train.py")


@every_python
def test_process_that_holds_the_gil_is_answered_by_faulthandler(
    python: Path, meeting: Path, started: Start
) -> None:
    started(python, HOLDS_THE_GIL)
    assert until(lambda: _at(meeting, (5, "in_c"), "faulthandler"), "a process in C")


def test_stopped_process_is_silent_and_answers_once_it_goes_on(
    meeting: Path, started: Start, this_python: Path
) -> None:
    process = started(this_python, SLEEPS)
    process.send_signal(signal.SIGSTOP)
    until(lambda: is_stopped(process.pid), "a stopped process")
    (look,) = ask.look(meeting)
    assert (look.facts.state, look.answered_by, look.threads) == ("T", None, ())
    process.send_signal(signal.SIGCONT)
    until(lambda: _answers(meeting) == ["listener"], "the answer of a process that goes on")


def test_stopped_process_with_the_number_of_one_that_has_ended_is_no_rank(meeting: Path) -> None:
    """The pipe of that one still lies there, and has no reader."""
    other = subprocess.Popen(["sleep", "1000"])
    try:
        os.mkfifo(meeting / f"{other.pid}{ASKED}")
        other.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(other.pid), "a stopped process")
        assert ask.look(meeting, patience_s=0.2) == []
    finally:
        other.kill()
        other.wait()


def test_process_that_runs_gets_no_signal(meeting: Path, started: Start, this_python: Path) -> None:
    """It has the GIL in C and runs: walking its frames could end it."""
    script = "import torch\nprint('here', flush=True)\nnumber = 7 ** 10 ** 8"
    process = started(this_python, script)
    look = until(lambda: _silent(meeting), "a process that computes")
    assert look
    assert look.threads == ()
    assert (meeting / f"{process.pid}.fault").stat().st_size == 0


def _silent(meeting: Path) -> ProcessLook | None:
    looks = ask.look(meeting, patience_s=0.2)
    return next((look for look in looks if look.answered_by is None and look.facts.state == "R"), None)


def test_process_whose_descriptors_were_closed_answers_and_keeps_its_files(
    meeting: Path, stub: Path, started: Start, this_python: Path
) -> None:
    """Its own file has the number of ours."""
    started(
        this_python,
        "import fcntl, os, time, torch\n"
        "os.closerange(3, 4096)\n"
        "file = open('mine', 'w')\n"
        "for number in range(690, 720): os.dup2(file.fileno(), number)\n"
        "pid = os.fork()\n"
        "print('here', flush=True) if pid else None\n"
        "time.sleep(1000) if pid else os._exit(0)\n",
    )
    until(
        lambda: all(_answers(meeting) == ["listener"] for _ in range(3)),
        "the child's end, the thread anew after the fork, and three answers of it",
    )
    assert (stub.parent / "mine").read_bytes() == b""


def _answers(meeting: Path) -> list[str | None]:
    return [look.answered_by for look in ask.look(meeting)]


def test_forked_worker_has_an_answer_of_its_own(meeting: Path, started: Start, this_python: Path) -> None:
    started(
        this_python,
        "import os, time, torch\n"
        "def work():\n"
        "    print('here', flush=True)\n"
        "    time.sleep(1000)\n"
        "child = os.fork()\n"
        "if not child: work()\n"
        "os.wait()\n",
    )
    looks = until(lambda: _two_at(meeting, {"<module>", "work"}), "two answers, both behind the fork")
    (parent,) = (look for look in looks if look.facts.parent == os.getpid())
    (child,) = (look for look in looks if look.facts.parent == parent.pid)
    assert place(child)[1] == "work"
    assert place(parent)[1] == "<module>"


def _two_at(meeting: Path, functions: set[str]) -> list[ProcessLook]:
    looks = _two(meeting)
    return looks if {place(look)[1] for look in looks} == functions else []


def _two(meeting: Path) -> list[ProcessLook]:
    looks = ask.look(meeting)
    return looks if len([look for look in looks if look.answered_by]) == 2 else []


def test_files_of_a_process_that_has_ended_are_removed(
    meeting: Path, started: Start, this_python: Path
) -> None:
    process = started(this_python, SLEEPS)
    assert len(list(meeting.iterdir())) > 1
    process.kill()
    process.wait()
    assert ask.look(meeting) == []
    assert [path.name for path in meeting.iterdir()] == [CLOCK]


def test_full_memory_leaves_the_training_alone(meeting: Path, stub: Path, this_python: Path) -> None:
    """A file of 0 bytes is the largest that may be written: the answer fails, and the program goes on."""
    script = (
        "import resource, signal, sys, torch\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "print('here', flush=True)\n"
        "sys.exit(5 if sys.stdin.readline() else 6)\n"
    )
    (stub.parent / "train.py").write_text(script)
    process = subprocess.Popen(
        [this_python, "train.py"],
        env=environment(meeting, stub),
        cwd=stub.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "here\n"
    ask.look(meeting, patience_s=0.2)
    out, _ = process.communicate("go on\n")
    assert (process.returncode, out) == (5, "")


def test_activity_of_a_process_that_runs_is_unknown() -> None:
    assert proc.activity(os.getpid()) is None


def test_children_are_those_that_do_not_listen_themselves() -> None:
    """Their use of the CPU stays when they have ended."""
    script = "sleep 1000 & sleep 1000 & head -c 3000000 /dev/zero > /dev/null; echo here; read line"
    shell = subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    try:
        assert shell.stdout
        assert shell.stdout.readline() == "here\n"
        found = proc.children([shell.pid])[shell.pid]
        assert len(found.pids) == 2
        (sleeper, other) = found.pids
        alone = proc.children([shell.pid, sleeper])
        assert alone[shell.pid].pids == {other}
        assert alone[sleeper].pids == set()
        os.kill(sleeper, signal.SIGKILL)
        os.kill(other, signal.SIGKILL)
        until(
            lambda: proc.children([shell.pid])[shell.pid].pids < found.pids or _zombies(found.pids),
            "their end",
        )
        assert proc.children([shell.pid])[shell.pid].cpu_s >= found.cpu_s
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()
    assert proc.children([shell.pid]) == {}


def _zombies(pids: frozenset[int]) -> bool:
    return all(proc.facts(pid) is None for pid in pids)


def test_frames_of_our_hooks_are_no_place_of_the_training() -> None:
    rows = [
        {
            "name": "MainThread",
            "main": True,
            "frames": [
                ["/me/train.py", 3, "<module>"],
                ["/env/gputel/telemetry/inside/hook/sitecustomize.py", 56, "exec_module"],
                ["/me/hook/sitecustomize.py", 1, "mine"],
            ],
        }
    ]
    (thread,) = parse_threads(rows)
    assert [frame.function for frame in thread.frames] == ["<module>", "mine"]
    text = "".join(
        f'  File "{file}", line {line} in {function}\n'
        for file, line, function in (
            ("/me/hook/sitecustomize.py", 1, "mine"),
            ("/env/gputel/telemetry/inside/hook/_gputel_steps.py", 9, "fetch"),
            ("/me/train.py", 3, "<module>"),
        )
    )
    assert parse_fault(f"Current thread 0x01 (most recent call first):\n{text}")[0].frames == thread.frames
