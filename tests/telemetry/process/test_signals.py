"""A signal reaches the command exactly once, from wherever it comes, and we end as the command did."""

import contextlib
import json
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputel.telemetry.process import libc
from gputel.telemetry.process.shared_memory import Ledger, SeenSignal
from gputel.telemetry.process.signals import Forwarder
from tests.recordings import (
    GPUTEL,
    RECORD,
    Recorder,
    children,
    family,
    holders,
    is_alive,
    is_stopped,
    until,
    waits_in,
)
from tests.telemetry.process.conftest import SIMULATED

Record = Callable[..., Recorder]


SECOND_SIGNAL_WOULD_BE_HERE_S = 0.3
"""Six times what the viewer waits before it forwards; a wrongly forwarded one comes by then."""


COUNTS = """
import os, signal, sys
def count(number, frame): os.write(1, f'got {signal.Signals(number).name}\\n'.encode())
for name in sys.argv[1:]: signal.signal(getattr(signal, name), count)
signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
os.write(1, b'%s\\n' % b'ready')
while True: signal.pause()
"""
"""A traceback that Ctrl-C draws from it shows its lines, none of which may look like what it prints."""


def counting(*names: str) -> tuple[str, ...]:
    return sys.executable, "-c", COUNTS, *names


def end(recorder: Recorder) -> None:
    os.kill(recorder.command(), signal.SIGALRM)
    assert recorder.wait() == 9


class Shell:
    """An interactive bash on a terminal of its own, as a person has it."""

    def __init__(self, folder: Path) -> None:
        self.screen = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(PS1="$ ", GPUTEL=" ".join(GPUTEL), RECORD=" ".join(RECORD), TERM="dumb")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        os.set_blocking(self.master, False)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def saw(self, text: str, times: int = 1) -> None:
        def standing() -> str:
            processes = "\n".join(map(waits_in, family(self.pid)))
            return f"{times} x {text!r} on {self.screen[-2000:]!r}\n{processes}"

        until(lambda: self._look().count(text.encode()) >= times, standing)

    def _look(self) -> bytes:
        with contextlib.suppress(OSError):
            self.screen += os.read(self.master, 65536)
        return self.screen

    def close(self) -> None:
        for pid in [*family(self.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    opened.saw("$ ")  # what is typed while bash sets its terminal up may be lost
    yield opened
    opened.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP])
def test_signal_to_us_alone_is_forwarded_once(record: Record, number: signal.Signals) -> None:
    recorder = record(*counting(number.name))
    recorder.printed(b"ready")
    recorder.kill(number)
    recorder.printed(b"got")
    time.sleep(SECOND_SIGNAL_WOULD_BE_HERE_S)
    end(recorder)
    assert recorder.output() == f"ready\ngot {number.name}\n".encode()


def test_signal_to_us_alone_is_forwarded_while_output_flows(record: Record) -> None:
    program = """
import signal, time
def end(number, frame):
    raise SystemExit(9)
signal.signal(signal.SIGTERM, end)
while True:
    print("line")
    time.sleep(0.001)
"""
    recorder = record(sys.executable, "-c", program)
    recorder.printed(b"line")
    recorder.kill()
    assert recorder.wait() == 9


def test_signal_to_every_process_arrives_once(record: Record) -> None:
    """As Slurm warns a step before its limit: each process of it, one by one."""
    recorder = record(*counting("SIGUSR1", "SIGTERM"), options=SIMULATED)
    recorder.printed(b"ready")
    processes = [recorder.viewer, recorder.keeper(), recorder.sampler(), recorder.command()]
    for number in (signal.SIGUSR1, signal.SIGTERM):
        for pid in processes:
            os.kill(pid, number)
        recorder.printed(number.name.encode())
    time.sleep(SECOND_SIGNAL_WOULD_BE_HERE_S)
    assert is_alive(processes[2]), "the sampler goes on to the command's end"
    end(recorder)
    assert recorder.output() == b"ready\ngot SIGUSR1\ngot SIGTERM\n"


def test_signal_to_our_group_arrives_once_without_a_terminal(record: Record) -> None:
    recorder = record(*counting("SIGTERM"))
    recorder.printed(b"ready")
    os.killpg(recorder.viewer, signal.SIGTERM)
    recorder.printed(b"got")
    time.sleep(SECOND_SIGNAL_WOULD_BE_HERE_S)
    end(recorder)
    assert recorder.output() == b"ready\ngot SIGTERM\n"


def test_signal_to_a_command_with_a_group_of_its_own_arrives(record: Record) -> None:
    recorder = record("setsid", *counting("SIGTERM"))
    recorder.printed(b"ready")
    recorder.kill(signal.SIGTERM)
    recorder.printed(b"got")
    recorder.kill(signal.SIGALRM)
    os.kill(recorder.command(), signal.SIGALRM)


def test_three_signals_one_after_the_other_arrive_three_times(record: Record) -> None:
    recorder = record(*counting("SIGUSR1"))
    recorder.printed(b"ready")
    for count in range(1, 4):
        recorder.kill(signal.SIGUSR1)
        recorder.printed(b"ready\n" + b"got SIGUSR1\n" * count)
    end(recorder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_recorder_ends_by_the_signal_that_ended_the_command(record: Record, number: signal.Signals) -> None:
    recorder = record("bash", "-c", f"kill -{number.value} $$; sleep 600")
    assert recorder.wait() == -number
    assert recorder.facts()["exit_code"] == 128 + number


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_other_signals_become_the_exit_code_of_a_shell(record: Record, number: signal.Signals) -> None:
    recorder = record("bash", "-c", f"ulimit -c 0; kill -{number.value} $$; sleep 600")
    assert recorder.wait() == 128 + number
    assert recorder.facts()["exit_code"] == 128 + number


def test_signal_ignored_by_nohup_stays_ignored(record: Record) -> None:
    recorder = record(
        "bash", "-c", "echo ready; read -t 600 < <(sleep 0.5; echo); echo done", prefix=("nohup",)
    )
    recorder.printed(b"ready")
    os.killpg(recorder.viewer, signal.SIGHUP)
    assert recorder.wait() == 0
    assert recorder.output() == b"ready\ndone\n"


def test_pid_1_of_a_container_reaps_forwards_and_ends(record: Record) -> None:
    prefix = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if (
        not shutil.which(prefix[0])
        or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine does not allow namespaces of processes")
    orphan = "(sleep 0.2; exit 3) & disown"
    recorder = record("bash", "-c", f"{orphan}; exec {shlex.join(counting('SIGTERM'))}", prefix=prefix)
    recorder.printed(b"ready")
    (viewer,) = children(recorder.viewer)
    os.kill(viewer, signal.SIGTERM)
    recorder.printed(b"got")
    until(lambda: not any(not is_alive(pid) for pid in children(viewer)), "no zombies")
    log = recorder.folder / "output.log"
    keeper = until(
        lambda: next((pid for pid in holders(log) if pid != viewer and children(pid)), 0),
        "the keeper, which has the command for a child",
    )
    os.kill(children(keeper)[0], signal.SIGALRM)
    assert recorder.wait() == 9
    assert recorder.output() == b"ready\ngot SIGTERM\n"
    assert recorder.facts()["exit_code"] == 9


def test_ctrl_c_reaches_the_command_once_and_ends_a_shells_loop(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNTS)
    command = f"{sys.executable} count.py"
    shell.type(f"for i in 1 2 3; do $GPUTEL record --out run$i -- {command}; done\n")
    shell.saw("ready")
    shell.type("\x03")
    shell.saw("next: gputel report")
    shell.type("echo loop=$?\n")
    shell.saw("loop=130")
    assert not (tmp_path / "run2").exists()
    shell.type(f"$RECORD --out kept -- {command} SIGINT; echo code=$?\n")
    shell.saw("ready\r\n", 2)
    shell.type("\x03")
    shell.saw("got SIGINT")
    time.sleep(SECOND_SIGNAL_WOULD_BE_HERE_S)
    shell.type("\x1c")
    shell.saw("code=131")
    assert (tmp_path / "kept" / "output.log").read_bytes() == b"ready\ngot SIGINT\n"


def test_ctrl_z_and_fg_work_as_without_us(shell: Shell, tmp_path: Path) -> None:
    shell.type("$RECORD --out run -- bash -c 'echo ready; read x; echo read $x; exit 3'; echo code=$?\n")
    shell.saw("ready\r\n")
    shell.type("\x1a")
    shell.saw("Stopped")
    shell.saw("code=148")
    shell.type("fg; echo code=$?\n")
    shell.saw("fg; echo")
    shell.type("typed\n")
    shell.saw("read typed")
    shell.saw("code=3")


def test_job_in_the_background_comes_to_the_front(shell: Shell) -> None:
    shell.type("$RECORD --out run -- bash -c 'read x; echo read $x' &\n")
    until(
        lambda: any(is_stopped(job) for job in children(shell.pid)),
        "it wants to read the terminal, and is stopped",
    )
    shell.type("fg\n")
    shell.type("typed\n")
    shell.saw("read typed")


def test_pdb_works_on_the_users_terminal(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "stop.py").write_text("answer = 41\nbreakpoint()\nprint('end', answer)\n")
    shell.type(f"$RECORD --out run -- {sys.executable} stop.py; echo code=$?\n")
    shell.saw("(Pdb)")
    shell.type("answer += 1\n")
    shell.saw("(Pdb)", 2)
    shell.type("c\n")
    shell.saw("end 42")
    shell.saw("code=0")


def test_pipe_to_a_pager_that_is_left_ends_nothing(shell: Shell, tmp_path: Path) -> None:
    shell.type("$RECORD --out run -- bash -c 'seq 200000; exit 5' | head -1; echo codes=${PIPESTATUS[0]}\n")
    shell.saw("codes=5")
    assert (tmp_path / "run" / "output.log").read_bytes().count(b"\n") == 200_000


def test_terminal_that_goes_away_ends_the_command_and_is_recorded(shell: Shell, tmp_path: Path) -> None:
    shell.type("$RECORD --out run -- bash -c 'echo ready; sleep 600'\n")
    shell.saw("ready\r\n")
    (job,) = children(shell.pid)
    os.close(shell.master)
    shell.master = os.open(os.devnull, os.O_RDONLY)
    until(lambda: not is_alive(job), "our end")
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["exit_code"] == 128 + signal.SIGHUP


def test_second_ctrl_c_cuts_the_closing_short(record: Record) -> None:
    """A grandchild holds the output, for which we would wait."""
    recorder = record("bash", "-c", "sleep 600 & echo $!; exit 5")
    until(lambda: recorder.facts().get("exit_code") == 5, "the command's end")
    time.sleep(SECOND_SIGNAL_WOULD_BE_HERE_S)
    recorder.kill(signal.SIGINT)
    assert recorder.wait() == 5
    os.kill(int(recorder.output()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("seen", "forwarded"),
    [
        (None, True),
        (SeenSignal(0, 0, 77), True),
        (SeenSignal(2**62, 0, 77), False),
        (SeenSignal(2**62, 0, 78), True),
        (SeenSignal(2**62, libc.SENT_BY_KERNEL, 77), True),
    ],
    ids=["not seen", "seen long ago", "seen", "another sender's", "another way"],
)
def test_signal_that_the_keeper_saw_too_is_not_forwarded(seen: SeenSignal | None, forwarded: bool) -> None:
    ledger, sent = Ledger(), list[int]()
    if seen:
        ledger.note_signal(signal.SIGTERM, seen)
    forwarder = Forwarder(ledger, sent.append)
    forwarder.arrived(libc.Arrival(signal.SIGTERM, 0, 77), since=2**61)
    assert forwarder.settle(os.getpid()) == [], "the keeper gets a moment to see it"
    while not forwarder.settle(os.getpid()):
        assert forwarder.due is not None
    assert sent == [signal.SIGTERM] * forwarded
    assert forwarder.due is None
