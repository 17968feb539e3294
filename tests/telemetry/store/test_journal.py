"""Journals as the sampler writes them: real files, real threads, real kills, a really full disk."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gputel.telemetry.clock import SECOND, SystemClock
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.store import blocks, frames, journal, parts
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.conftest import GivenClock
from tests.recordings import PATIENCE_S, until

FAST = Tier("fast", 100.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn("temp_c", "°C", 1, "0")))
SLOW = Tier("slow", 1.0, (TierColumn("fan", "%", 1, "0"),))
PERIOD = FAST.period_ns


def held(folder: Path, tier: str = "fast") -> list[journal.Journal]:
    files = [part.path for part in parts.current(folder) if part.tier == tier]
    return [read for path in files if (read := journal.read(path)) is not None]


def ticks_in(folder: Path) -> int:
    return sum(len(block.deadlines) for file in held(folder) for block in file.ticks)


def test_appended_ticks_are_read_back(tmp_path: Path, compose: Callable[..., None]) -> None:
    rows: list[list[int | None]] = [[70_000 + n, None if n % 3 else n] for n in range(250)]
    compose(tmp_path, [FAST, SLOW], [(0, n * PERIOD, row) for n, row in enumerate(rows)])
    frame = frames.ticks(tmp_path)
    assert frame["power_w"].to_list() == [(70_000 + n) / 1000 for n in range(250)]
    assert frame["temp_c"].to_list() == [None if n % 3 else n for n in range(250)]
    assert frame["time"].dt.epoch("ns").to_list() == [10**18 + n * PERIOD for n in range(250)]


def test_number_that_64_bits_cannot_hold_was_not_measured(
    tmp_path: Path, compose: Callable[..., None]
) -> None:
    """NVML says 2^64 - 1 for what it does not know."""
    compose(tmp_path, [FAST], [(0, 0, [2**64 - 1, -(2**63)])])
    assert frames.ticks(tmp_path).select("power_w", "temp_c").row(0) == (None, -(2**63))


def test_block_ends_with_the_whole_second_of_wall_time(tmp_path: Path, compose: Callable[..., None]) -> None:
    compose(tmp_path, [FAST], [(0, SECOND // 2 + n * PERIOD, [1, 1]) for n in range(200)])
    assert [len(block.deadlines) for block in held(tmp_path)[0].ticks] == [50, 100, 50]


def test_second_writer_starts_files_of_its_own(tmp_path: Path, compose: Callable[..., None]) -> None:
    compose(tmp_path, [FAST, SLOW], [(0, 0, [1, 1])])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    compose(tmp_path, [FAST, SLOW], [(0, SECOND, [2, 2])])
    assert {path: path.read_bytes() for path in before} == before
    assert {path.name for path in tmp_path.iterdir()} - {path.name for path in before} == {
        "fast-000002.gtb",
        "slow-000002.gtb",
    }
    assert frames.ticks(tmp_path)["temp_c"].to_list() == [1, 2]


def test_new_part_begins_when_it_is_time(tmp_path: Path, compose: Callable[..., None]) -> None:
    compose(tmp_path, [FAST], [(0, n * SECOND // 2, [n, n]) for n in range(12)], seal_after_s=2)
    assert [part.path.name for part in parts.current(tmp_path)] == [f"fast-{n:06d}.gtb" for n in (1, 2, 3)]
    assert [len(file.ticks) for file in held(tmp_path)] == [2, 2, 2]
    assert frames.ticks(tmp_path)["temp_c"].to_list() == list(range(12))


def test_compactor_is_called_when_a_part_is_sealed(tmp_path: Path, compose: Callable[..., None]) -> None:
    called: list[tuple[Path, list[str]]] = []

    def compactor(folder: Path) -> None:
        called.append((folder, sorted(path.name for path in folder.iterdir())))

    ticks = [(0, n * SECOND, [n, n]) for n in range(5)]
    compose(tmp_path, [FAST], ticks, seal_after_s=2, compactor=compactor)
    assert [folder for folder, _ in called] == [tmp_path, tmp_path]
    assert "fast-000001.gtb" in called[0][1]


def test_failing_compactor_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    result: list[tuple[str, str]] = []

    def compactor(folder: Path) -> None:
        raise RuntimeError("no polars here")

    writer = journal.Writer(
        PartWriter(
            tmp_path,
            [FAST],
            SystemClock(),
            on_trouble=lambda *said: result.append(said),
            compactor=compactor,
            seal_after_s=0,
        )
    )
    start = time.monotonic_ns()
    for second in range(3):
        writer.append(0, start + second * SECOND, start + second * SECOND, [1, 2])
    writer.close()
    assert set(result) == {("compaction", "no polars here")}
    assert ticks_in(tmp_path) == 3


def test_running_second_is_written_without_another_tick(tmp_path: Path) -> None:
    writer = journal.Writer(PartWriter(tmp_path, [FAST], SystemClock(), on_trouble=print, compactor=None))
    now = time.monotonic_ns()
    writer.append(0, now, now, [1, 2])
    until(lambda: ticks_in(tmp_path) == 1, "the tick on disk")
    writer.close()


def test_reading_that_moves_to_another_tier_begins_a_part_and_loses_no_row(tmp_path: Path) -> None:
    power, temperature = FAST.columns
    medium = Tier("medium", 10.0, (temperature,))
    clock = GivenClock()
    writer = journal.Writer(PartWriter(tmp_path, [FAST, SLOW], clock, on_trouble=print, compactor=None))
    for n in range(155):
        clock.now = n * PERIOD
        writer.append(0, clock.now, clock.now, [n, 50])
        if n % 100 == 0:
            writer.append(1, clock.now, clock.now, [7])
    writer.rearrange([Tier("fast", 100.0, (power,)), medium, SLOW])
    for n in range(155, 300):
        clock.now = n * PERIOD
        writer.append(0, clock.now, clock.now, [n])
        if n % 10 == 0:
            writer.append(1, clock.now, clock.now, [60])
        if n % 100 == 0:
            writer.append(2, clock.now, clock.now, [8])
    writer.close()
    assert sorted(part.path.name for part in parts.current(tmp_path)) == [
        "fast-000001.gtb",
        "fast-000002.gtb",
        "medium-000002.gtb",
        "slow-000001.gtb",
        "slow-000002.gtb",
    ]
    frame = frames.ticks(tmp_path)
    assert frame["power_w"].to_list() == [n / 1000 for n in range(300)]
    assert frame["temp_c"].to_list()[:155] == [50] * 155
    assert set(frame["temp_c"].to_list()[160:]) == {60}
    seconds = frames.seconds(tmp_path)
    assert seconds["ticks"].to_list() == [100, 100, 100]
    assert seconds["temp_c_max"].to_list() == [50, 60, 60]
    assert seconds["fan_max"].to_list() == [7, 7, 8]


def test_damaged_schema_block_costs_nothing_for_it_stands_twice(
    tmp_path: Path, compose: Callable[..., None]
) -> None:
    compose(tmp_path, [FAST], [(0, 0, [1, 2])])
    path = tmp_path / "fast-000001.gtb"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with pytest.warns(DamagedFile, match="has a part that cannot be read"):
        assert frames.ticks(tmp_path)["temp_c"].to_list() == [2]
    assert [fault.offset for fault in held(tmp_path)[0].faults] == [0]


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_end_that_a_crash_left_half_written_is_not_there_yet(
    tmp_path: Path, compose: Callable[..., None], place: int
) -> None:
    compose(tmp_path, [FAST], [(0, n * SECOND, [n, n]) for n in range(4)])
    path = tmp_path / "fast-000001.gtb"
    data = path.read_bytes()
    seconds = [one.offset for one in blocks.scan(data) if isinstance(one, blocks.JournalBlock) and one.rows]
    path.write_bytes(data[: seconds[place] + 56])
    assert frames.ticks(tmp_path)["temp_c"].to_list() == list(range(place))
    assert held(tmp_path)[0].faults == []


def test_write_that_hangs_does_not_hold_up_the_sampler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is the device edge: a write that returns only when the test says so."""
    released = threading.Event()
    write = os.write

    def hanging(file: int, data: bytes) -> int:
        if len(data) > 4 and data[5] & (blocks.SCHEMA | blocks.SEAL) == 0:
            released.wait(PATIENCE_S)
        return write(file, data)

    monkeypatch.setattr("gputel.telemetry.store.part_writer.os.write", hanging)
    result: list[tuple[str, str]] = []
    monkeypatch.setattr(journal, "MAX_PENDING", 20 * 108 * 32)
    writer = journal.Writer(
        PartWriter(
            tmp_path, [FAST], SystemClock(), on_trouble=lambda *said: result.append(said), compactor=None
        )
    )
    start = time.monotonic_ns()
    for n in range(3000):
        writer.append(0, start + n * PERIOD, start + n * PERIOD, [n, n])
    assert writer.pending_bytes <= 20 * 108 * 32
    assert writer.dropped
    released.set()
    writer.close()
    assert ticks_in(tmp_path) + writer.dropped == 3000
    assert result
    assert all(kind == "gap" and " of gpu/fast) were dropped" in text for kind, text in result)
    assert sum(int(text.split(": ")[1].split()[0]) for _, text in result) == writer.dropped


def test_disk_that_hangs_at_the_end_is_left_and_what_was_not_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, said, write = threading.Event(), list[tuple[str, str]](), os.write

    def hanging(file: int, data: bytes) -> int:
        if len(data) > 4 and data[5] & (blocks.SCHEMA | blocks.SEAL) == 0:
            released.wait(PATIENCE_S)
        return write(file, data)

    monkeypatch.setattr("gputel.telemetry.store.part_writer.os.write", hanging)
    parts = PartWriter(
        tmp_path, [FAST], SystemClock(), on_trouble=lambda *words: said.append(words), compactor=None
    )
    writer = journal.Writer(parts)
    writer.append(0, time.monotonic_ns(), time.monotonic_ns(), [1, 1])
    writer.close(0.1)
    assert said == [("gap", "the disk hangs: the last 1 blocks were not written")]
    released.set()


FULL_DISK = """
import resource, signal, sys, time
from pathlib import Path
from gputel.telemetry.clock import SystemClock
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import TierColumn, Tier
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
tier = Tier("fast", 100.0, (TierColumn("power_w", "W", 1000, "0"),))
parts = PartWriter(Path(sys.argv[1]), [tier], SystemClock(), on_trouble=lambda *said: print(*said), compactor=None)
writer = Writer(parts)
start = time.monotonic_ns()
for n in range(20_000):
    writer.append(0, start + n * 10_000_000, start + n * 10_000_000, [n * n * 7919 % 100_003])
writer.close()
print("wrote", writer.bytes_written)
"""


def test_full_disk_is_reported_and_sealed_blocks_stay_readable(tmp_path: Path) -> None:
    """A block that is small enough may still find room between two pauses."""
    child = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True)
    assert child.stderr == ""
    *troubles, wrote = child.stdout.splitlines()
    assert troubles
    for number, line in enumerate(troubles):
        paused = f"disk_full telemetry pauses here, {tmp_path}: No space left on device"
        assert line.startswith("gap the disk has room again" if number % 2 else paused)
    size = (tmp_path / "fast-000001.gtb").stat().st_size
    assert wrote == f"wrote {size}"
    assert 15_000 < size <= 20_000
    (file,) = held(tmp_path)
    assert file.faults == []
    ticks = frames.ticks(tmp_path)
    assert len(ticks) > 1000
    numbers = ((ticks["time"] - ticks["time"][0]).dt.total_milliseconds() / 10).round().cast(pl.Int64)
    assert ticks["power_w"].to_list() == [n * n * 7919 % 100_003 / 1000 for n in numbers]


def test_telemetry_goes_on_when_a_full_disk_has_room_again(tmp_path: Path) -> None:
    """The event counts what was not kept. A second is written when the next one begins."""
    troubles: list[tuple[str, str]] = []
    clock = GivenClock()
    full = threading.Event()
    write = os.write

    def refusing(file: int, data: bytes) -> int:
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gputel.telemetry.store.part_writer.os.write", refusing)
        writer = journal.Writer(
            PartWriter(
                tmp_path, [FAST, SLOW], clock, on_trouble=lambda *said: troubles.append(said), compactor=None
            )
        )
        for second in range(10):
            until(lambda: not writer.pending_bytes, "the disk")
            full.set() if 3 <= second < 7 else full.clear()
            for n in range(10):
                clock.now = at = second * SECOND + n * SECOND // 10
                writer.append(0, at, at, [at, n])
            writer.append(1, at, at, [second])
        until(lambda: not writer.pending_bytes, "the disk")
        writer.close()
    assert [kind for kind, _ in troubles] == ["disk_full", "gap"]
    assert troubles[1][1] == (
        "the disk has room again: 44 ticks (40 of gpu/fast, 4 of gpu/slow) were not kept while it was full"
    )
    assert ticks_in(tmp_path) == 6 * 10


class SmallDisk:
    """A disk that is full while `full` is set, and takes nothing while `held`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.full, self.free = threading.Event(), threading.Event()
        self.free.set()
        self._write = os.write
        patch.setattr("gputel.telemetry.store.part_writer.os.write", self._take)

    def _take(self, file: int, data: bytes) -> int:
        self.free.wait(PATIENCE_S)
        if self.full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(file, data)


def feed(writer: journal.Writer, clock: GivenClock, seconds: range, width: int) -> None:
    """Ten ticks a second, each second written before the next begins."""
    for second in seconds:
        for n in range(10):
            clock.now = at = second * SECOND + n * SECOND // 10
            writer.append(0, at, at, [at] * width)
        clock.now = at + SECOND // 10
        until(lambda: not writer.pending_bytes, "the disk")


def test_tiers_that_change_while_the_disk_is_full_begin_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, clock = SmallDisk(monkeypatch), GivenClock()
    troubles: list[tuple[str, str]] = []
    writer = journal.Writer(
        PartWriter(tmp_path, [FAST], clock, on_trouble=lambda *said: troubles.append(said), compactor=None)
    )
    feed(writer, clock, range(2), 2)
    until(lambda: ticks_in(tmp_path) == 20, "two seconds on disk")
    disk.full.set()
    writer.rearrange([Tier("fast", 100.0, FAST.columns[:1]), Tier("medium", 10.0, FAST.columns[1:])])
    feed(writer, clock, range(2, 5), 1)
    until(lambda: writer.not_kept["fast"] >= 20, "seconds that were given up")
    disk.full.clear()
    feed(writer, clock, range(5, 8), 1)
    writer.close()
    assert [kind for kind, _ in troubles] == ["disk_full", "gap"]
    lost = writer.not_kept["fast"]
    assert (
        troubles[1][1]
        == f"the disk has room again: {lost} ticks ({lost} of gpu/fast) were not kept while it was full"
    )
    assert ticks_in(tmp_path) == 80 - lost
    assert sorted(part.path.name for part in parts.current(tmp_path)) == [
        "fast-000001.gtb",
        "fast-000002.gtb",
        "medium-000002.gtb",
    ]


def test_recording_that_begins_on_a_full_disk_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, clock = SmallDisk(monkeypatch), GivenClock()
    disk.full.set()
    kinds: list[str] = []
    writer = journal.Writer(
        PartWriter(tmp_path, [FAST], clock, on_trouble=lambda kind, _: kinds.append(kind), compactor=None)
    )
    feed(writer, clock, range(2), 2)
    assert list(tmp_path.iterdir()) == []
    until(lambda: writer.not_kept["fast"] >= 10, "a second that was given up")
    disk.full.clear()
    feed(writer, clock, range(2, 4), 2)
    writer.close()
    assert kinds == ["disk_full", "gap"]
    assert ticks_in(tmp_path) == 40 - writer.not_kept["fast"] >= 10


def test_seconds_wait_encoded_for_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the driver answered takes many times the memory: as it came, eight seconds of these would fit."""
    row = bytes(1000)
    monkeypatch.setattr(journal, "MAX_PENDING", 8 * 10 * len(row))
    disk, clock = SmallDisk(monkeypatch), GivenClock()
    writer = journal.Writer(PartWriter(tmp_path, [FAST], clock, on_trouble=print, compactor=None))
    disk.free.clear()

    def decode(rows: Sequence[bytes]) -> tuple[blocks.Integers, None]:
        return np.array([[len(row), 0] for row in rows]), None

    for second in range(60):
        for n in range(10):
            clock.now = at = second * SECOND + n * SECOND // 10
            writer.append_raw(0, at, at, row, decode)
        until(lambda: writer.pending_bytes < 6000, "the encoder")
    assert writer.dropped == 0
    disk.free.set()
    writer.close()
    assert ticks_in(tmp_path) == 600


ENDLESS = """
import sys, time
from pathlib import Path
from gputel.telemetry.clock import SystemClock
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import TierColumn, Tier
tier = Tier("fast", 200.0, (TierColumn("power_w", "W", 1000, "0"),))
parts = PartWriter(Path(sys.argv[1]), [tier], SystemClock(), on_trouble=print, compactor=None, seal_after_s=2)
writer = Writer(parts)
tick = 0
while True:
    time.sleep(0.005)
    now = time.monotonic_ns()
    writer.append(0, now, now, [tick])
    tick += 1
    print(now, flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("after", [1.3, 2.05, 2.9, 4.4])
def test_kill_costs_at_most_the_last_second(tmp_path: Path, after: float) -> None:
    child = subprocess.Popen([sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    stamps = [int(child.stdout.readline())]
    while stamps[-1] < stamps[0] + after * SECOND:
        stamps.append(int(child.stdout.readline()))
    child.send_signal(signal.SIGKILL)
    stamps += [int(line) for line in child.stdout.read().splitlines() if line]
    child.stdout.close()
    child.wait()
    kept = [int(deadline) for file in held(tmp_path) for block in file.ticks for deadline in block.deadlines]
    assert kept == stamps[: len(kept)]
    assert stamps[-1] - kept[-1] <= 1.5 * SECOND  # a second, and what a loaded machine takes to write it
    assert not any(file.faults for file in held(tmp_path))
