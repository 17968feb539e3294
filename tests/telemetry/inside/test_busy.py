"""A training that is asked again and again goes on as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.telemetry.inside import ask
from tests.telemetry.inside.pythons import environment, every_python, start

BUSY = """
import sys, threading, torch
sys.setswitchinterval(0.0002)  # threads take turns 25 times as often as by default
def work(end):
    while not end.is_set():
        sum(number * number for number in range(100))
        try:
            raise ValueError
        except ValueError:
            pass
end = threading.Event()
threads = [threading.Thread(target=work, args=(end,)) for _ in range(2)]
for thread in threads:
    thread.start()
print("here", flush=True)
input()
end.set()
print("done")
"""
TIMES = 200


@pytest.mark.long
@every_python
def test_busy_process_is_asked_often_and_ends_as_it_would(python: Path, meeting: Path, stub: Path) -> None:
    process = start(python, BUSY, environment(meeting, stub), cwd=stub.parent, given=True)
    assert process.stdout
    assert process.stdout.readline() == "here\n"
    try:
        for _ in range(TIMES):
            assert ask.look(meeting)[0].answered_by == "listener"
    finally:
        out, _ = process.communicate("end\n")
    assert (process.returncode, out) == (0, "done\n")
