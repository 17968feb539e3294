"""Starting the command: it has what it would have without gputel."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.telemetry import doctor
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process import spawn
from tests.recordings import RECORD, Recorder, until

Record = Callable[..., Recorder]


def test_record_on_another_system_fails_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with pytest.raises(GputelError, match=r"^gputel record: needs Linux 5\.4 or newer; record there"):
        spawn.require_linux()


def python(program: str) -> tuple[str, ...]:
    return sys.executable, "-c", program


def test_command_has_the_descriptors_that_the_user_gave_it_and_none_of_ours(tmp_path: Path) -> None:
    given = tmp_path / "given"
    script = f"exec 7>{given}; exec {' '.join(RECORD)} --out {tmp_path / 'run'} -- ls /proc/self/fd"
    answer = subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert answer.stdout.split() == [b"0", b"1", b"2", b"3", b"7"]  # 3: ls reads the folder


def test_command_has_the_signals_as_they_were(record: Record) -> None:
    show = (
        "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), open('/proc/self/status').read())"
    )
    recorder = record("grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status")
    assert recorder.wait() == 0
    plain = subprocess.run(["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"], capture_output=True)
    assert recorder.output() == plain.stdout, show


@pytest.mark.skipif(doctor.realtime().state != "good", reason="needs the right to a real-time priority")
def test_keeper_reads_in_real_time_and_its_command_does_not(record: Record) -> None:
    """A read that waits for its turn stamps late."""
    recorder = record(*python("import os, signal; print(os.sched_getscheduler(0)); signal.pause()"))
    keeper = recorder.keeper()
    until(lambda: os.sched_getscheduler(keeper) & os.SCHED_FIFO, "the keeper's priority")
    recorder.printed(b"0\n")


def test_command_has_its_own_priority(record: Record) -> None:
    show = "import os; print(os.nice(0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0)))"
    recorder = record(*python(show))
    assert recorder.wait() == 0
    assert recorder.output() == subprocess.run(python(show), capture_output=True).stdout
