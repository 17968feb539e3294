"""Processes beside a recording: one that is killed is started again, one that ends or is asked to end is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from gputel.telemetry.process.companions import Companions
lines, starts = [], []
def order(command):
    starts.append(command)
    return ["/bin/sh", "-c", sys.argv[1]]
companions = Companions([order], os.environ, lines.append)
companions.start(7)
try:
    while True:
        assert companions.reaped(*os.waitpid(-1, 0))
except ChildProcessError:
    print(starts, lines)
assert not companions.reaped(1, 0)
"""
ONCE_MORE = "a helper process was killed by SIGKILL again and is not restarted"


@pytest.mark.parametrize(
    ("ends", "starts", "lines"),
    [("kill -KILL $$", 4, [ONCE_MORE]), ("kill -TERM $$", 1, []), ("exit 1", 1, []), ("exit 0", 1, [])],
)
def test_companion_is_started_again_only_if_it_was_killed(ends: str, starts: int, lines: list[str]) -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM, ends], capture_output=True, text=True, check=True)
    assert answer.stdout == f"{[7] * starts} {lines}\n"


def test_companion_that_cannot_be_started_is_named() -> None:
    program = PROGRAM.replace("/bin/sh", "/not/there")
    answer = subprocess.run([sys.executable, "-c", program, ""], capture_output=True, text=True, check=True)
    assert "what guards and watches the command cannot start: " in answer.stdout
