"""The keeper: output.log, and output.idx with the time of each line."""

import os
from pathlib import Path

from gputel.telemetry.clock import Stamp
from gputel.telemetry.process import keeper
from gputel.telemetry.process.keeper import Keeper, KeeperState, OutputPipe
from gputel.telemetry.process.signals import Signals


class Quiet(Signals):
    """A descriptor on which nothing comes."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK)


def test_keeper_by_itself_writes_stamps_and_drains(tmp_path: Path) -> None:
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
        os._exit(Keeper(state, None, parent=False).keep())
    os.write(writing, b"one\ntwo")
    os.close(writing)
    state.ledger.end(0, Stamp(1, 2, 3))
    assert os.waitpid(pid, 0)[1] == 0
    assert state.ledger.drained
    (line, half) = keeper.lines(tmp_path / "log", tmp_path / "idx")
    assert (line[1], half[1]) == (b"one\n", b"two")
    assert line[0] == half[0] is not None


def folder_of(path: Path, reads: list[tuple[int | None, bytes]]) -> tuple[Path, Path]:
    log, index = path / "output.log", path / "output.idx"
    log.write_bytes(b"".join(data for _, data in reads))
    end, records = 0, b""
    for wall, data in reads:
        end += len(data)
        records += keeper.pack(wall, end)
    index.write_bytes(records)
    return log, index


def test_line_has_the_stamp_of_the_read_that_brought_its_last_byte(tmp_path: Path) -> None:
    log, index = folder_of(tmp_path, [(10, b"a\nb"), (20, b"c\nd\n"), (30, b"e")])
    assert list(keeper.lines(log, index)) == [(10, b"a\n"), (20, b"bc\n"), (20, b"d\n"), (30, b"e")]


def test_line_without_a_timestamp_has_none(tmp_path: Path) -> None:
    log, index = folder_of(tmp_path, [(None, b"old\n"), (20, b"new\n")])
    with log.open("ab") as more:
        more.write(b"not yet\n")
    assert [wall for wall, _ in keeper.lines(log, index)] == [None, 20, None]


def test_torn_record_is_not_yet(tmp_path: Path) -> None:
    log, index = folder_of(tmp_path, [(10, b"a\n"), (20, b"b\n")])
    index.write_bytes(index.read_bytes()[:-3])
    assert [wall for wall, _ in keeper.lines(log, index)] == [10, None]


def test_lines_have_no_timestamp_without_an_index(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_bytes(b"a\nb\n")
    assert [wall for wall, _ in keeper.lines(tmp_path / "output.log", tmp_path / "output.idx")] == [
        None,
        None,
    ]
