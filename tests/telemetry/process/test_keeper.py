"""The recorder's lower parts by themselves: what is imported, refused, kept, and forwarded."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.telemetry.clock import Stamp
from gputel.telemetry.errors import GputelError
from gputel.telemetry.process import keeper, libc, spawn
from gputel.telemetry.process.keeper import Keeper, KeeperState, OutputPipe
from gputel.telemetry.process.shared_memory import Ledger, SeenSignal
from gputel.telemetry.process.signals import Forwarder, Signals


def test_the_viewer_stays_light_since_it_forks() -> None:
    check = (
        "import gputel.telemetry.process.viewer, sys, threading\n"
        "assert not {'numpy', 'polars', 'rich', 'pynvml'} & set(sys.modules), sys.modules\n"
        "assert threading.active_count() == 1"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_elsewhere_than_on_linux_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with pytest.raises(GputelError, match=r"^gputel record: needs Linux 5\.4 or newer; record there"):
        spawn.require_linux()


def test_an_end_is_told_once_and_in_a_shells_words() -> None:
    ledger = Ledger()
    assert (ledger.ended, ledger.exit_code) == (None, None)
    ledger.end(-signal.SIGTERM, Stamp(1, 2, 3))
    ledger.end(0, Stamp(4, 5, 6))
    assert (ledger.ended, ledger.status, ledger.exit_code) == (Stamp(1, 2, 3), -15, 143)


def test_the_end_of_a_process_that_is_not_ours_has_no_exit_code() -> None:
    ledger = Ledger()
    ledger.end(None, Stamp(1, 2, 3))
    assert (ledger.ended, ledger.exit_code) == (Stamp(1, 2, 3), None)


class Quiet(Signals):
    """A descriptor on which nothing comes."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK)


def test_a_keeper_by_itself_writes_stamps_and_drains(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    log, index = (os.open(tmp_path / name, os.O_RDWR | os.O_CREAT | os.O_APPEND) for name in ("log", "idx"))
    news = os.eventfd(0, os.EFD_NONBLOCK)
    state = KeeperState(tmp_path, OutputPipe(reading), log, index, news, Quiet())
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os._exit(Keeper(state, None, parent=False).keep())
    os.write(writing, b"one\ntwo")
    os.close(writing)
    state.ledger.end(0, Stamp(1, 2, 3))
    assert os.waitpid(pid, 0)[1] == 0
    assert state.ledger.drained
    (line, half) = keeper.lines(tmp_path / "log", tmp_path / "idx")
    assert (line[1], half[1]) == (b"one\n", b"two")
    assert line[0] == half[0] is not None


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
def test_what_the_keeper_saw_too_is_not_forwarded(seen: SeenSignal | None, forwarded: bool) -> None:
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
