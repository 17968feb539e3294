"""`--pty` gives the command a terminal; without it, a status line never mixes with the output."""

import os
import pty
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pane import Pane
from tests.recordings import GPUTEL, Recorder, until
from tests.telemetry.process.conftest import SIMULATED

Record = Callable[..., Recorder]


def drain(master: int) -> bytes:
    """What a terminal received, until its last holder closed it."""
    seen = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            return seen
        seen += piece


def on_terminal(folder: Path, *command: str, env: dict[str, str] | None = None) -> tuple[Recorder, bytes]:
    master, slave = pty.openpty()
    terminal = {"TERM": "xterm", **(env or {})}
    recorder = Recorder(
        folder, *command, stdout=slave, stderr=slave, env=terminal, program=(*GPUTEL, "record")
    )
    os.close(slave)
    seen = drain(master)
    os.close(master)
    recorder.wait()
    return recorder, seen


@pytest.mark.long
def test_status_line_is_cleared_before_output(tmp_path: Path) -> None:
    script = "for i in 1 2 3; do echo line $i; sleep 1.3; done; printf 'half a line'; sleep 1.5; echo ' ends'"
    recorder, seen = on_terminal(tmp_path / "run", "bash", "-c", script)
    assert b"GPU 0" in seen
    assert b"SIMULATED" in seen
    shown = [part.rpartition(b"\x1b8")[2] for part in seen.split(b"\r\n")]
    assert [line for line in shown if b"line " in line and b"run" not in line] == [
        b"line 1",
        b"line 2",
        b"line 3",
        b"half a line ends",
    ]
    assert recorder.output() == b"line 1\nline 2\nline 3\nhalf a line ends\n"


def test_terminal_held_with_ctrl_s_does_not_hold_the_command(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    os.write(master, b"\x13")
    recorder = Recorder(tmp_path / "run", "bash", "-c", "seq 100000; exit 3", stdout=slave)
    os.close(slave)
    until(lambda: recorder.facts().get("exit_code") == 3, "the command's end")
    os.write(master, b"\x11")
    seen = drain(master)
    os.close(master)
    assert recorder.wait() == 3
    assert seen.replace(b"\r\n", b"\n") == recorder.output()


@pytest.mark.parametrize("options", [(), ("--pty",)], ids=["pipe", "pty"])
def test_note_begins_a_line_of_its_own_below_what_the_command_has_not_ended(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """As a prompt is: the next line comes when it has been answered."""
    os.mkfifo(tmp_path / "answer")
    master, slave = pty.openpty()
    script = f"printf 'loss? '; read x < {tmp_path / 'answer'}; echo $x"
    nowhere = ("--simulate", "1xH100", "--gpus", "7")
    recorder = Recorder(
        tmp_path / "run", "bash", "-c", script, options=(*nowhere, *options), stdout=slave, stderr=slave
    )
    os.close(slave)
    seen = b""
    while not re.search(rb"GPUs are not.*\n", seen):
        seen += os.read(master, 65536)
    (tmp_path / "answer").write_text("2.5\n")
    seen += drain(master)
    os.close(master)
    assert recorder.wait() == 0
    lines = [line.rpartition(b"\x1b8")[2].strip(b"\r") for line in seen.split(b"\n")]
    (note,) = [line for line in lines if line.startswith(b"--gpus: ")]
    assert b"".join(line for line in lines if line != note).startswith(b"loss? 2.5")


def test_colors_are_left_out_with_no_color(tmp_path: Path) -> None:
    _, seen = on_terminal(tmp_path / "run", "sleep", "1.6", env={"NO_COLOR": "1"})
    assert b"SIMULATED" in seen
    assert b"\x1b[3" not in seen


@pytest.mark.long
def test_status_line_needs_a_terminal(record: Record) -> None:
    recorder = record("sleep", "1.5", options=SIMULATED)
    assert recorder.wait() == 0
    assert "\x1b" not in recorder.said.read_text()


def test_pty_gives_the_command_a_terminal_and_keeps_its_bytes(record: Record) -> None:
    program = "import os, sys; print(os.isatty(1), os.isatty(0), os.getsid(0) == os.getpid()); sys.exit(4)"
    recorder = record(sys.executable, "-c", program, options=(*SIMULATED, "--pty"))
    assert recorder.wait() == 4
    assert recorder.output() == recorder.shown.read_bytes() == b"True True True\r\n"


def test_killed_keeper_is_replaced_under_pty_and_signals_arrive(record: Record) -> None:
    script = "trap 'echo got; exit 6' TERM; echo ready; while :; do sleep 0.05; done"
    recorder = record("bash", "-c", script, options=("--pty",))
    recorder.printed(b"ready")
    recorder.kill_keeper()
    recorder.keeper()
    recorder.kill(signal.SIGTERM)
    assert recorder.wait() == 6
    assert recorder.output().splitlines()[-1] == b"got"


@pytest.mark.long
@pytest.mark.needs("tmux")
def test_status_line_leaves_nothing_behind_when_the_terminal_is_made_narrower(tmp_path: Path) -> None:
    pane = Pane(tmp_path)
    words = [
        *GPUTEL,
        "record",
        "--simulate",
        "2xH100",
        "--out",
        "run",
        "--",
        "sh",
        "-c",
        "seq 9; sleep 60",
    ]
    try:
        pane.run(shlex.join(map(str, words)))
        pane.tmux("resize-window", "-x", "120", "-y", "24")
        pane.until("GPU 1", "Hz")
        pane.tmux("resize-window", "-x", "50", "-y", "24")
        pane.until("2 GPUs")
        lines = [line for line in pane.text("-S", "-24").splitlines() if line]
        assert lines[:-1] == list("123456789")
        assert "2 GPUs" in lines[-1]
    finally:
        pane.tmux("kill-server")
