"""A full or hanging disk costs the command nothing; output that it does not take is counted and reported."""

import os
import resource
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputel.telemetry.process.disk_writer import DiskWriter
from gputel.telemetry.process.shared_memory import Ledger, Ring
from tests.recordings import Recorder, until

Record = Callable[..., Recorder]


MIB = 1 << 20


def limit_files() -> None:
    """A file that grows past this meets EFBIG, as Python ignores SIGXFSZ: a full disk that needs no root."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, resource.RLIM_INFINITY))


def test_full_disk_does_not_stop_the_command_and_lost_output_is_reported(record: Record) -> None:
    program = "import os\nfor _ in range(3000): os.write(1, b'x' * 999 + b'\\n')\nos._exit(6)"
    recorder = record(sys.executable, "-c", program, preexec_fn=limit_files)
    assert recorder.wait() == 6
    assert recorder.facts()["exit_code"] == 6
    assert len(recorder.output()) == MIB
    assert recorder.shown.read_bytes() == recorder.output(), "both files are as long as the disk lets them"
    assert f"{3_000_000 - MIB:,} bytes of output were lost" in recorder.said.read_text()
    assert "disk_full" in [event["kind"] for event in recorder.events()]


@pytest.mark.long
def test_output_beyond_the_queue_is_dropped_and_counted(record: Record) -> None:
    program = "import os\nfor _ in range(80): os.write(1, bytes(1_000_000))\nos._exit(6)"
    recorder = record(sys.executable, "-c", program, preexec_fn=limit_files)
    assert recorder.wait() == 6
    assert len(recorder.output()) == MIB
    assert f"{80_000_000 - MIB:,} bytes of output were lost" in recorder.said.read_text()


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
    recorder = Recorder(small_disk / "run", sys.executable, "-c", program)
    assert recorder.wait() == 6
    output = recorder.output()
    assert output == ((b"x" * 9999 + b"\n") * 400)[: len(output)]
    assert len(output) > 0


def hanging_disk(ring: Ring, folder: Path) -> tuple[DiskWriter, int, Ledger]:
    """A pipe without a reader takes 64 KiB and then, like a hung disk, holds its writer."""
    reading, writing = os.pipe()
    ledger = Ledger()
    writer = DiskWriter(folder, [(ring, writing)], ledger, os.eventfd(0, os.EFD_NONBLOCK))
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


def test_full_queue_refuses_at_once(tmp_path: Path) -> None:
    ring = Ring(MIB)
    while ring.put(b"x" * 1000):
        assert ring.head - ring.tail <= MIB
    assert ring.head - ring.tail > MIB - 1000
    assert ring.room(MIB)[0].nbytes == MIB - ring.head
