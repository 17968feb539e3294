"""The command's exit code comes though a disk hangs for ever, and not while anything still happens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gputel.telemetry.process.exit_limit import ExitLimit

SCRIPT = """
import threading
from pathlib import Path
from gputel.telemetry.process.exit_limit import ExitLimit
ExitLimit(Path("here"), 0.0).begin(3)
threading.Event().wait()
"""
WORK = "import time\nwhile time.process_time() < 0.1: pass\nprint(flush=True)\ninput()"
SECOND = 1_000_000_000


def test_call_that_never_returns_ends_with_the_commands_code_and_a_line() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    line = "here: the disk hangs; what was not written by now is left behind\n"
    assert (ended.returncode, ended.stderr) == (3, line)


def test_work_is_waited_for_and_idleness_is_not() -> None:
    limit, work = ExitLimit(Path("here"), 5), [1, 1, 1, 2, 2, 2, 2, 2, 2]
    over = [limit.is_over(1000 + second, spent * SECOND) for second, spent in enumerate(work)]
    assert over == [False] * 8 + [True]


def test_time_in_which_ctrl_z_stops_the_recorder_does_not_count() -> None:
    limit = ExitLimit(Path("here"), 5)
    assert [limit.is_over(second, SECOND) for second in (1000, 1001, 5000, 5001)] == [False] * 4


def test_work_of_the_child_that_is_waited_for_counts() -> None:
    limit, before = ExitLimit(Path("here")), ExitLimit(Path("here")).spent_ns()
    with subprocess.Popen([sys.executable, "-c", WORK], stdin=-1, stdout=-1) as child:
        assert child.stdout
        child.stdout.readline()
        limit.child = child.pid
        assert limit.spent_ns() - before >= SECOND // 10
        child.communicate(b"\n")
