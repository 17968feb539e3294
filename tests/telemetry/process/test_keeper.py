"""The keeper: writes output.log, and output.idx with the time of each line."""

import os
import threading
from pathlib import Path

import pytest

from gputel.telemetry import run_folder
from gputel.telemetry.clock import Stamp
from gputel.telemetry.process import output_index
from gputel.telemetry.process.keeper import Keeper, KeeperState, OutputPipe, take_over
from gputel.telemetry.process.signals import Signals
from tests.recordings import until


class Quiet(Signals):
    """A descriptor on which nothing comes."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK)


def state_of(folder: Path) -> tuple[KeeperState, int]:
    """A keeper's state, and the command's end of the pipe."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    log, index = (os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_APPEND) for name in ("log", "idx"))
    news, lock = os.eventfd(0, os.EFD_NONBLOCK), os.open(os.devnull, os.O_RDWR)
    return KeeperState(folder, OutputPipe(reading), log, index, news, Quiet(), (lock,)), writing


@pytest.mark.parametrize("stack_bytes", [0, 1 << 46], ids=["thread", "no memory for a thread"])
def test_keeper_by_itself_writes_stamps_and_drains(tmp_path: Path, stack_bytes: int) -> None:
    run_folder.create(tmp_path, {"run": "run"})
    state, writing = state_of(tmp_path)
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        threading.stack_size(stack_bytes)
        os._exit(Keeper(state, None, parent=False).keep())
    os.write(writing, b"one\ntwo")
    os.close(writing)
    state.ledger.end(0, Stamp(1, 2, 3))
    assert os.waitpid(pid, 0)[1] == 0
    assert state.ledger.drained
    assert run_folder.describe(tmp_path)["exit_code"] == 0
    (line, half) = output_index.lines(tmp_path / "log", tmp_path / "idx")
    assert (line[1], half[1]) == (b"one\n", b"two")
    assert line[0] == half[0] is not None


def test_no_pause_is_made_between_the_text_of_a_line_and_its_newline(tmp_path: Path) -> None:
    """Python's unbuffered `print` writes them apart; a pause in between would wake the keeper twice a line."""
    state, writing = state_of(tmp_path)
    keeper = Keeper(state, None, parent=False)
    reads: list[int] = []
    keeper._pause = reads.append  # type: ignore[assignment,method-assign]
    for piece in (b"step 1", b"\n", b"step 2\n", b"10%", b"20%", b"30%", b"40%"):
        os.write(writing, piece)
        keeper._wait()
    assert reads == [1, 7, 3, 3], "after a newline, a whole line, and every second piece of a bar"
    assert state.output.copy(0, 100) == b"step 1\nstep 2\n10%20%30%40%"


def test_successor_ends_though_the_last_output_ended_with_nul_bytes(tmp_path: Path) -> None:
    """Killed after a read and its timestamp: it waited for ever for bytes that are not found."""
    run_folder.create(tmp_path, {"run": "run"})
    state, writing = state_of(tmp_path)
    os.write(writing, b"end\0\0")
    os.close(writing)
    assert state.source.read(state.output.room(100)) == 5
    state.stamps.put(output_index.pack(7, 5))
    pid = os.fork()
    if pid == 0:
        take_over(state)
        os._exit(Keeper(state, None, parent=False).keep())
    state.ledger.end(0, Stamp(1, 2, 3))
    until(lambda: os.waitpid(pid, os.WNOHANG)[0], "the end of the successor")
    assert (tmp_path / "log").read_bytes() == b"end"
    ((wall, line),) = output_index.lines(tmp_path / "log", tmp_path / "idx")
    assert (wall is not None, line) == (True, b"end")
