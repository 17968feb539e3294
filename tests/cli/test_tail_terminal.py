"""`gputel tail` on a real terminal: tmux draws it, and says what stands there."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pane import Pane
from tests.recordings import PATIENCE_S, until

pytestmark = [pytest.mark.long, pytest.mark.needs("tmux")]

TRAINING = """
import time
for step in range(100_000):
    print(f"step {step:05d}/100000 | loss: {3 - step / 1e6:.4f} | dt: 20.00ms | tok/sec: 1,000", flush=True)
    time.sleep(0.05)
"""


COLORED = re.compile(r"\x1b\[[\d;]*\b[349][0-7]m")


@pytest.fixture
def pane(tmp_path: Path) -> Iterator[Pane]:
    opened = Pane(tmp_path)
    yield opened
    opened.tmux("kill-server")


def tail(*words: str) -> str:
    return shlex.join([sys.executable, "-m", "gputel", "tail", *words])


@pytest.mark.skipif(sys.platform != "linux", reason="recording is for Linux")
def test_recording_is_shown_and_q_leaves_it_running(pane: Pane, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "gputel", "record", "--simulate", "2xH100", "--out", "d16", "--"]
    with subprocess.Popen(
        [*words, sys.executable, "-c", TRAINING],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as recorder:
        try:
            until((tmp_path / "d16" / "run.json").exists, "a run folder")
            pane.run(tail("d16", "--price", "2.5", "--budget", "100"))
            pane.until(" d16   running", "SIMULATED: 2xH100", "gpu power", "● loss", "of $100.00", " q  quit")
            pane.tmux("send-keys", "q")
            pane.until("ended with 0")
            size = (tmp_path / "d16" / "output.log").stat().st_size
            until(lambda: (tmp_path / "d16" / "output.log").stat().st_size > size, "more output")
            assert recorder.poll() is None
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.wait(PATIENCE_S)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "d16.log"
    path.write_text("".join(f"step {step} | loss: {3 - step / 100} | dt: 9.00ms\n" for step in range(50)))
    return path


def test_no_color_is_honored(pane: Pane, log: Path) -> None:
    pane.run(tail(log.name), NO_COLOR="1")
    pane.until("● loss")
    assert not COLORED.search(pane.text("-e"))


def test_sixteen_colors_are_enough(pane: Pane, log: Path) -> None:
    pane.run(tail(log.name), TERM="screen", COLORTERM="truecolor")
    pane.until("● loss")
    assert COLORED.search(pane.text("-e"))
    assert not re.search(r"\x1b\[[\d;]*[34]8;[25]", pane.text("-e"))


def test_view_follows_a_terminal_that_changes_its_size(pane: Pane, log: Path) -> None:
    pane.run(tail(log.name))
    pane.until("● loss", " q  quit")
    pane.tmux("resize-window", "-x", "160", "-y", "40")
    until(lambda: " q  quit" in (pane.text().splitlines() or [""])[-1], "the keys on the last line")
    assert len(pane.text().splitlines()) == 40


def test_keys_work_while_a_log_is_piped_in(pane: Pane, log: Path) -> None:
    pane.run(f"cat {log.name} | {tail('-')}")
    pane.until("step 49", "● loss")
    pane.tmux("send-keys", "q")
    pane.until("ended with 0")


def test_sigterm_leaves_the_terminal_as_it_was(pane: Pane, log: Path) -> None:
    pane.run(tail(log.name))
    pane.until("● loss")
    (process,) = pane.tmux("list-panes", "-F", "#{pane_pid}").split()
    (child,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    shown = pane.until("ended with 0")
    assert "● loss" not in shown


def test_exit_on_alarm_ends_the_view_with_4(pane: Pane, tmp_path: Path) -> None:
    (tmp_path / "ill.log").write_text("step 0 | loss: 3.0 | dt: 9ms\n" + "step 1 | loss: nan | dt: 9ms\n" * 3)
    pane.run(tail("ill.log", "--exit-on-alarm"))
    pane.until("ill: NaN or infinite loss at step 1: loss is NaN", "ended with 4")


def test_plain_lines_are_printed_on_a_terminal_too(pane: Pane, log: Path) -> None:
    pane.run(tail(log.name, "--plain"))
    pane.until("d16 step 49  loss 2.51")


def test_standard_error_may_go_elsewhere(pane: Pane, log: Path) -> None:
    pane.run(f"{tail(log.name)} 2>/dev/null")
    pane.until("● loss")
