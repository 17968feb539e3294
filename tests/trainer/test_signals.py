"""Signals are flags, except for a person who asks twice."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal
from gputel.trainer.ranks import IMPATIENT_SECONDS, StopSignals

with StopSignals() as signals:
    for _ in range(2):  # as torchrun sends it
        os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGUSR1)
    print(signals.votes(), flush=True)
    signals.seen["SIGINT"] -= IMPATIENT_SECONDS + 1
    os.kill(os.getpid(), signal.SIGINT)
    print("still here")
"""


@pytest.mark.long
def test_first_interrupt_is_noted_and_a_late_second_ends_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-2, "[True, False, True]\n"), done.stderr
