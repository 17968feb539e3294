"""The keeper: writes output.log, and output.idx with the time of each line."""

import os
import threading
from pathlib import Path

import pytest

from gputel.telemetry import run_folder
from gputel.telemetry.clock import Stamp
from gputel.telemetry.process import output_index
from gputel.telemetry.process.keeper import Keeper, KeeperState, OutputPipe
from gputel.telemetry.process.signals import Signals


class Quiet(Signals):
    """A descriptor on which nothing comes."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK)


@pytest.mark.parametrize("stack_bytes", [0, 1 << 46], ids=["thread", "no memory for a thread"])
def test_keeper_by_itself_writes_stamps_and_drains(tmp_path: Path, stack_bytes: int) -> None:
    run_folder.create(tmp_path, {"run": "run"})
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    log, index = (os.open(tmp_path / name, os.O_RDWR | os.O_CREAT | os.O_APPEND) for name in ("log", "idx"))
    news = os.eventfd(0, os.EFD_NONBLOCK)
    state = KeeperState(
        tmp_path, OutputPipe(reading), log, index, news, Quiet(), os.open(os.devnull, os.O_RDWR)
    )
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
