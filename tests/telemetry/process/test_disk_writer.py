"""A full or hanging disk costs the command nothing; output that it does not take is counted and reported."""

import contextlib
import os
import resource
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gputel.telemetry import run_folder
from gputel.telemetry.clock import Stamp
from gputel.telemetry.process import disk_writer, output_index
from gputel.telemetry.process.disk_writer import DiskWriter, OutputQueues
from gputel.telemetry.process.output_index import RECORD
from gputel.telemetry.process.shared_memory import Ledger, Ring
from tests.recordings import PATIENCE_S, Recorder, until

Record = Callable[..., Recorder]


MIB = 1 << 20


def limit_files() -> None:
    """A file that grows past this meets EFBIG, as Python ignores SIGXFSZ: a full disk that needs no root."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, resource.RLIM_INFINITY))


def shown_through(reading: int) -> bytes:
    """All that comes out of a pipe."""
    shown = bytearray()
    while piece := os.read(reading, MIB):
        shown += piece
    os.close(reading)
    return bytes(shown)


def test_full_disk_does_not_stop_the_command_and_loses_nothing_of_the_screen(record: Record) -> None:
    program = "import os\nfor i in range(3000): os.write(1, b'%0999d\\n' % i)\nos._exit(6)"
    reading, writing = os.pipe()
    recorder = record(sys.executable, "-c", program, preexec_fn=limit_files, stdout=writing)
    os.close(writing)
    shown = shown_through(reading)
    assert recorder.wait() == 6
    assert shown == b"".join(b"%0999d\n" % i for i in range(3000))
    assert recorder.output() == shown[:MIB]
    assert recorder.facts()["exit_code"] == 6
    assert recorder.facts()["output_missing_bytes"] == 3_000_000 - MIB
    assert f"{3_000_000 - MIB:,} bytes of output are not in output.log" in recorder.said.read_text()
    assert "disk_full" in [event["kind"] for event in recorder.events()]


@pytest.mark.long
def test_screen_misses_nothing_of_more_output_than_memory_takes(record: Record) -> None:
    program = "import os\nfor i in range(100_000): os.write(1, b'%0999d\\n' % i)\nos._exit(6)"
    reading, writing = os.pipe()
    recorder = record(sys.executable, "-c", program, preexec_fn=limit_files, stdout=writing)
    os.close(writing)
    shown = shown_through(reading)
    assert recorder.wait() == 6
    lost = 100_000_000 - len(shown)
    assert (lost == 0) == ("were lost" not in recorder.said.read_text())
    assert recorder.facts()["output_missing_bytes"] == 100_000_000 - MIB
    lines = [int(line) for line in shown.splitlines() if len(line) == 999]
    assert lines == sorted(set(lines))


@pytest.mark.long
def test_output_that_neither_disk_nor_screen_takes_is_dropped_and_counted(record: Record) -> None:
    program = "import os\nfor _ in range(80): os.write(1, bytes(1_000_000))\nos._exit(6)"
    reading, writing = os.pipe()
    recorder = record(sys.executable, "-c", program, preexec_fn=limit_files, stdout=writing)
    os.close(writing)
    until(lambda: recorder.facts().get("exit_code") == 6, "the end of a command that is not held")
    shown = len(shown_through(reading))
    assert recorder.wait() == 6
    assert len(recorder.output()) == MIB
    assert f"{80_000_000 - shown:,} bytes of output were lost" in recorder.said.read_text()


def test_output_that_waited_in_memory_is_written_when_there_is_room_again(
    record: Record, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    program = f"import os\nos.write(1, b'x' * 3_000_000)\nopen({str(go)!r}).read()\nos._exit(6)"
    recorder = record(sys.executable, "-c", program, preexec_fn=limit_files)
    until(lambda: len(recorder.output()) == MIB and recorder.events(), "a full disk")
    resource.prlimit(recorder.keeper(), resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    until(lambda: len(recorder.output()) == 3_000_000, "the rest")
    go.write_text("")
    assert recorder.wait() == 6
    assert recorder.output() == b"x" * 3_000_000
    assert "lost" not in recorder.said.read_text()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "small", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_disk_full_for_every_file_does_not_stop_the_command(record: Record, small_disk: Path) -> None:
    """Output, index, telemetry, events and run.json find no room."""
    program = (
        "import os, time\nfor _ in range(400): os.write(1, b'x' * 9999 + b'\\n'); time.sleep(0.002)\nexit(6)"
    )
    reading, writing = os.pipe()
    recorder = Recorder(small_disk / "run", sys.executable, "-c", program, stdout=writing)
    os.close(writing)
    shown = shown_through(reading)
    assert recorder.wait() == 6
    output, printed = recorder.output(), (b"x" * 9999 + b"\n") * 400
    assert output == printed[: len(output)]
    assert len(output) > 0
    assert shown == printed
    assert recorder.facts()["exit_code"] == 6
    assert recorder.facts()["ended"]
    assert recorder.facts()["output_missing_bytes"] == len(printed) - len(output)


def opened(folder: Path) -> tuple[int, int]:
    """The descriptors of the log and of its index."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    return os.open(folder / "output.log", flags), os.open(folder / "output.idx", flags)


class FullDisk:
    """Queues of lines for a disk on which a file leaves little room; line number n is stamped 1000 + n."""

    def __init__(self, disk: Path) -> None:
        self.disk, self.ballast = disk, disk / "ballast"
        self.ring, self._stamps, self.ledger = Ring(16 * MIB), Ring(MIB), Ledger()
        self.log, index = opened(disk)
        self.ballast.write_bytes(bytes(200_000))
        self.queues = OutputQueues(self.ring, self._stamps, self.log, index, self.ledger)

    def put(self, number: int) -> None:
        line = b"%0999d\n" % number
        self._stamps.put(RECORD.pack(1000 + number, self.ring.head + len(line)))
        self.ring.put(line)

    def stamped(self) -> list[tuple[int | None, bytes]]:
        return list(output_index.lines(self.disk / "output.log", self.disk / "output.idx"))


def test_tail_in_memory_is_written_when_room_appears_at_the_end(small_disk: Path) -> None:
    """The viewer, too, frees room and writes what the keeper had to leave."""
    full = FullDisk(small_disk)
    for number in range(150):
        full.put(number)
    with pytest.raises(OSError, match="No space left"):
        full.queues.write()
    assert full.queues.missing == full.ring.head - full.ring.tail > 0
    full.ballast.unlink()
    full.queues.write()
    assert full.queues.missing == 0
    assert full.stamped() == [(1000 + i, b"%0999d\n" % i) for i in range(150)]


def test_lines_that_were_given_up_leave_a_gap_and_no_wrong_time(small_disk: Path) -> None:
    full = FullDisk(small_disk)
    for number in range(16_000):
        full.put(number)
        if number % 1000 == 0:
            with contextlib.suppress(OSError):
                full.queues.write()
            full.ledger.shown = full.ring.head
            full.queues.make_room()
    assert full.queues.missing > 0
    assert full.ring.room(MIB)
    full.ballast.unlink()
    ring_bytes = full.ring.head - full.ring.tail
    subprocess.run(["mount", "-o", "remount,size=32m", str(small_disk)], check=True)
    full.queues.write()
    whole = [(wall, int(text)) for wall, text in full.stamped() if len(text) == 1000]
    assert max(len(text) for _, text in full.stamped()) == 1000  # none runs into the one before the gap
    assert whole[-1] == (16_999, 15_999)
    assert all(wall in (None, 1000 + number) for wall, number in whole)
    assert sum(wall is not None for wall, _ in whole) >= ring_bytes // 1000
    assert os.fstat(full.log).st_size == full.ring.head - full.ledger.skipped
    assert full.ledger.skipped > 0


def test_each_of_two_gaps_has_the_place_at_which_its_lines_are_missing(tmp_path: Path) -> None:
    """Lines are given up, others are written, and lines are given up again."""
    full = FullDisk(tmp_path)
    numbers = iter(range(100_000))

    def put(count: int) -> None:
        for _ in range(count):
            full.put(next(numbers))

    def give_up() -> int:
        put(12_000)
        full.ledger.shown = full.ring.head
        missing = full.ledger.skipped
        full.queues.make_room()
        return (full.ledger.skipped - missing) // 1000

    put(20)
    full.queues.write()
    first = give_up()
    full.queues.write()
    middle = full.ring.head // 1000
    second = give_up()
    full.queues.write()
    kept = [*range(20), *range(20 + first, middle), *range(middle + second, full.ring.head // 1000)]
    assert first > 0
    assert second > 0
    assert full.stamped() == [(1000 + i, b"%0999d\n" % i) for i in kept]
    gaps = [end for wall, end in output_index.read(tmp_path / "output.idx") if wall is None]
    assert sorted(set(gaps)) == [20_000, (middle - first) * 1000]


def test_record_of_the_index_that_a_full_disk_tears_is_written_whole_later(tmp_path: Path) -> None:
    """The process may write 40 bytes into a file: two and a half records."""
    program = r"""
import os, resource
from pathlib import Path
from gputel.telemetry.process.disk_writer import OutputQueues
from gputel.telemetry.process.output_index import RECORD
from gputel.telemetry.process.shared_memory import Ledger, Ring
output, stamps = Ring(1 << 20), Ring(1 << 20)
files = [os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND) for name in ("output.log", "output.idx")]
queues = OutputQueues(output, stamps, *files, Ledger())
for number in range(4):
    output.put(b"line\n")
    stamps.put(RECORD.pack(1000 + number, output.head))
resource.setrlimit(resource.RLIMIT_FSIZE, (40, resource.RLIM_INFINITY))
try:
    queues.write()
except OSError as error:
    print(error.strerror, Path("output.idx").stat().st_size)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
queues.write()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "No space left on device 32\n"
    stamped = list(output_index.lines(tmp_path / "output.log", tmp_path / "output.idx"))
    assert stamped == [(1000 + number, b"line\n") for number in range(4)]


def hanging_disk(ring: Ring, folder: Path) -> tuple[DiskWriter, int, Ledger]:
    """A pipe without a reader takes 64 KiB and then, like a hung disk, holds its writer."""
    reading, writing = os.pipe()
    ledger = Ledger()
    index = os.open(folder / "output.idx", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    queues = OutputQueues(ring, Ring(MIB), writing, index, ledger)
    writer = DiskWriter(folder, queues, os.eventfd(0, os.EFD_NONBLOCK))
    writer.start()
    return writer, reading, ledger


def test_hung_disk_holds_its_writer_alone_and_gets_all_when_it_returns(tmp_path: Path) -> None:
    ring = Ring(4 * MIB)
    writer, reading, ledger = hanging_disk(ring, tmp_path)
    for i in range(30):
        assert ring.put(bytes([i]) * 100_000)
        writer.wake()
    assert select.select([reading], [], [], 30)[0], "the disk takes some, and then hangs"
    seen = bytearray()

    def read() -> None:
        while len(seen) < 3_000_000:
            seen.extend(os.read(reading, MIB))

    reader = threading.Thread(target=read)
    reader.start()
    writer.finish(1.0)
    reader.join()
    assert seen == b"".join(bytes([i]) * 100_000 for i in range(30))
    assert ledger.lost == 0


@dataclass(frozen=True)
class Written:
    """The queues of a keeper with one line of output, and the files into which they go."""

    folder: Path
    ledger: Ledger
    output: Ring
    queues: OutputQueues
    news: int

    def end(self) -> None:
        self.ledger.end(3, Stamp(1, 2, 3))
        self.ledger.source_ended = True


@pytest.fixture
def written(tmp_path: Path) -> Written:
    output, ledger = Ring(MIB), Ledger()
    output.put(b"line\n")
    queues = OutputQueues(output, Ring(MIB), *opened(tmp_path), ledger)
    return Written(tmp_path, ledger, output, queues, os.eventfd(0, os.EFD_NONBLOCK))


class HeldWriter(DiskWriter):
    """A writer that the machine holds at the end of its first turn, until the keeper waits for its end."""

    def __init__(self, written: Written) -> None:
        super().__init__(written.folder, written.queues, written.news)
        self.first_turn_over, self.joined = threading.Event(), threading.Event()

    def _turn(self) -> None:
        super()._turn()
        self.first_turn_over.set()
        assert self.joined.wait(PATIENCE_S)

    def join(self, timeout: float | None = None) -> None:
        self.joined.set()
        super().join(timeout)


def test_end_that_comes_during_the_last_turn_is_recorded(written: Written) -> None:
    run_folder.create(written.folder, {"run": "run"})
    writer = HeldWriter(written)
    writer.start()
    writer.wake()
    assert writer.first_turn_over.wait(PATIENCE_S)
    written.end()
    writer.finish(PATIENCE_S)
    assert run_folder.describe(written.folder)["exit_code"] == 3
    assert written.queues.empty


def test_lines_that_come_soon_after_a_write_are_written_together(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_writer, "GATHER_S", PATIENCE_S)
    turns: list[None] = []
    monkeypatch.setattr(DiskWriter, "_write_events", lambda writer: turns.append(None))
    writer = DiskWriter(written.folder, written.queues, written.news)
    writer.start()
    writer.wake()
    until(lambda: written.queues.empty and turns, "the first line at once")
    for _ in range(100):
        written.output.put(b"another line\n")
        writer.wake()
    assert not written.queues.empty
    writer.wake(at_once=True)
    until(lambda: written.queues.empty, "the others at once")
    writer.finish(PATIENCE_S)
    assert len(turns) <= 4, "one each for the first line, the others and the end, and one that finds nothing"


def test_end_that_could_not_be_recorded_is_tried_again(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_writer, "RETRY_S", 0.01)
    written.end()
    writer = DiskWriter(written.folder, written.queues, written.news)
    writer.start()
    keeper = threading.Thread(target=writer.finish, args=[PATIENCE_S])
    keeper.start()
    turns = 0
    while turns < 3 and keeper.is_alive():
        if select.select([written.news], [], [], 0.01)[0]:
            turns += os.eventfd_read(written.news)
    run_folder.create(written.folder, {"run": "run"})
    keeper.join()
    assert run_folder.describe(written.folder)["exit_code"] == 3


@pytest.mark.parametrize("fsync", [False, True])
def test_output_is_synced_to_the_disk_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fdatasync", lambda file: synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))
    )
    output, ledger = Ring(MIB), Ledger()
    queues = OutputQueues(output, Ring(MIB), *opened(tmp_path), ledger, fsync=fsync)
    writer = DiskWriter(tmp_path, queues, os.eventfd(0, os.EFD_NONBLOCK))
    writer.start()
    output.put(b"line\n")
    writer.finish(1.0)
    assert (tmp_path / "output.log").read_bytes() == b"line\n"
    assert set(synced) == (
        {str(tmp_path / name) for name in ("output.log", "output.idx")} if fsync else set()
    )


def test_full_queue_refuses_at_once(tmp_path: Path) -> None:
    ring = Ring(MIB)
    while ring.put(b"x" * 1000):
        assert ring.head - ring.tail <= MIB
    assert ring.head - ring.tail > MIB - 1000
    assert ring.room(MIB)[0].nbytes == MIB - ring.head
