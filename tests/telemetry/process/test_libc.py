"""Kernel calls by ctypes: signals as descriptors, watched folders, writes that come back."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.telemetry.process import libc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

SIGNALS = """
import os, signal
from gputel.telemetry.process import libc
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
descriptor = libc.signalfd({signal.SIGUSR1, signal.SIGTERM})
assert list(libc.arrivals(descriptor)) == []
os.kill(os.getpid(), signal.SIGUSR1)
assert libc.pending_signals(os.getpid()) == {signal.SIGUSR1}
assert [(a.number, a.sender) for a in libc.arrivals(descriptor)] == [(signal.SIGUSR1, os.getpid())]
assert libc.pending_signals(os.getpid()) == set()
"""

FULL_PIPE = """
import os
from gputel.telemetry.process.libc import PatientWriter
reading, writing = os.pipe()
writer = PatientWriter()
taken = 0
while count := writer.write(writing, b"x" * 100_000):
    taken += count
assert len(os.read(reading, 1 << 20)) == taken
assert os.get_blocking(writing)
assert writer.write(writing, b"again") == 5
"""


@pytest.mark.parametrize("program", [SIGNALS, FULL_PIPE], ids=["signals", "full pipe"])
def test_kernel_calls_work_in_a_process_of_their_own(program: str) -> None:
    """They change signal masks and timers, which a test process needs."""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_pending_signals_of_a_process_that_is_gone_are_none() -> None:
    assert libc.pending_signals(2**22 - 1) == set()


def test_watched_folder_wakes_for_a_write_and_for_a_new_file(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.touch()
    descriptor = libc.watch(tmp_path)
    try:
        assert select.select([descriptor], [], [], 0)[0] == []
        for change in (lambda: log.write_text("line\n"), (tmp_path / "new").touch):
            change()
            assert select.select([descriptor], [], [], 60)[0] == [descriptor]
            os.read(descriptor, 65536)
    finally:
        os.close(descriptor)


def test_watching_a_folder_that_does_not_exist_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        libc.watch(tmp_path / "none")
