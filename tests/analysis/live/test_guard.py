"""A command is stopped once, by real signals to real processes."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gputel.analysis.live.guard import Stopper, descendants, limit_text

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="recording is for Linux")

STUBBORN = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
while True:
    signal.pause()
"""
POLITE = "import signal\nprint('ready', flush=True)\nsignal.pause()"

Process = subprocess.Popen[str]


def start(code: str) -> Process:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def word(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def polite() -> Iterator[Process]:
    with start(POLITE) as process:
        assert word(process) == "ready"
        yield process
        process.kill()


def test_term_goes_to_the_recorder_and_only_once(polite: Process) -> None:
    with start(POLITE) as recorder:
        assert word(recorder) == "ready"
        stopper = Stopper(polite.pid, recorder.pid, grace_s=600)
        assert stopper.ask(0.0)
        assert not stopper.ask(1.0)
        assert recorder.wait() == -signal.SIGTERM
        assert polite.poll() is None


def test_sigterm_goes_to_the_command_if_the_recorder_is_gone(polite: Process) -> None:
    with start("") as gone:
        gone.wait()
        stopper = Stopper(polite.pid, gone.pid, grace_s=600)
    assert stopper.ask(0.0)
    assert polite.wait() == -signal.SIGTERM


def test_kill_comes_after_the_grace_to_the_command_and_all_that_came_of_it() -> None:
    with start(STUBBORN) as command:
        child = int(word(command))
        stopper = Stopper(command.pid, command.pid, grace_s=10)
        assert list(descendants(command.pid)) == [child]
        assert stopper.ask(0.0)
        assert word(command) == "asked"
        assert not stopper.look(9.0)
        assert command.poll() is None
        assert stopper.look(10.0)
        assert command.wait() == -signal.SIGKILL
        assert not stopper.look(11.0)


def test_command_that_has_ended_is_left_alone(polite: Process) -> None:
    stopper = Stopper(polite.pid, polite.pid, grace_s=0)
    polite.kill()
    polite.wait()
    assert not stopper.ask(0.0)
    assert not stopper.look(1.0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.5, "500 ms"), (3, "3 s"), (1.5, "1.5 s"), (90, "1 min 30 s"), (111_600, "1 d 07 h")],
)
def test_time_limit_is_printed_as_it_was_typed(seconds: float, words: str) -> None:
    assert limit_text(seconds) == words
