"""A training that is asked again and again goes on as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.telemetry.inside import ask
from tests.telemetry.inside.pythons import environment, every_python, start

BUSY = """
import threading, torch
def work(end):
    while not end.is_set():
        sum(number * number for number in range(100))
        try:
            raise ValueError
        except ValueError:
            pass
end = threading.Event()
threads = [threading.Thread(target=work, args=(end,)) for _ in range(4)]
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
    assert process.stdin
    assert process.stdout.readline() == "here\n"
    answered = [ask.look(meeting)[0].answered_by for _ in range(TIMES)]
    process.stdin.write("end\n")
    out, _ = process.communicate()
    assert (process.returncode, out) == (0, "done\n")
    assert answered == ["listener"] * TIMES
