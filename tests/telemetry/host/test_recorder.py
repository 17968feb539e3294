"""A recording of the small machine, tick by tick, and what its seconds say."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.telemetry.clock import SECOND
from gputel.telemetry.host import seconds
from gputel.telemetry.host.recorder import JUDGE_EVERY, ThreadShare
from gputel.telemetry.store import parquet
from tests.telemetry.host import machine
from tests.telemetry.host.machine import MachineRecording
from tests.telemetry.host.machine import write_process as write


@pytest.fixture
def recording(tmp_path: Path) -> MachineRecording:
    return MachineRecording(tmp_path)


def stat(busy: int, idle: int) -> str:
    return f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 {busy} 0 0 {idle} 0 0 0 0 0 0\n"


@pytest.mark.parametrize("compacted", [False, True])
def test_rates_are_what_the_counters_grew_by(recording: MachineRecording, compacted: bool) -> None:
    recording.change("proc/stat", stat(1000, 1000))
    recording.run(10)
    recording.change("proc/stat", stat(1150, 1050))
    recording.change("proc/diskstats", machine.DISKSTATS.replace("100 5 4096 50", "140 5 8192 90"))
    recording.run(10)
    recording.recorder.close()
    if compacted:
        for table in ("host", "disk"):
            parquet.compact(recording.folder / table, everything=True)
    assert recording.seconds("host")["cpu_busy"] == [None, 75.0]
    disk = recording.seconds("disk")
    assert disk["read_mib_s"] == [0.0, 2.0]
    assert disk["reads_s"] == [0.0, 40.0]
    assert disk["read_ms"] == [None, 1.0]
    assert disk["disk"] == ["nvme0n1", "nvme0n1"]


def test_counter_that_fell_gives_null_and_then_a_rate_again(recording: MachineRecording) -> None:
    for sectors in (4096, 8192, 0, 2048):
        recording.change("proc/diskstats", machine.DISKSTATS.replace(" 4096 ", f" {sectors} "))
        recording.run(10)
    recording.recorder.close()
    assert recording.seconds("disk")["read_mib_s"] == [0.0, 2.0, None, 1.0]


def test_late_tick_makes_no_rate_too_high(recording: MachineRecording) -> None:
    recording.run(10)
    recording.clock.advance(SECOND)
    recording.change("proc/net/dev", machine.NET.replace("1048576", str(5 * 1048576)))
    recording.run(10)
    recording.recorder.close()
    assert recording.seconds("net")["rx_mib_s"] == [0.0, 2.0]


def test_slow_columns_stand_beside_the_fast_ones(recording: MachineRecording) -> None:
    recording.run(20)
    recording.recorder.close()
    host = recording.seconds("host")
    assert host["mem_available_mib"] == [12_000_000 / 1024] * 2
    assert host["swap_in_mib_s"] == [None, 0.0]
    assert host["oom_kills"] == [None, 0.0]


def test_source_that_takes_more_than_the_budget_is_read_more_rarely(tmp_path: Path) -> None:
    recording = MachineRecording(tmp_path, budget=0.0)
    recording.run(20)
    recording.recorder.judge(recording.clock.now)
    dearest = next(facts for kind, facts in recording.events if kind == "rate")
    recording.recorder.close()
    assert "instead of" in dearest
    assert "more than 0.0%" in dearest


def test_source_is_read_as_often_as_before_when_there_is_room_again(tmp_path: Path) -> None:
    recording = MachineRecording(tmp_path, budget=0.0)
    recording.run(20)
    for budget in (0.0, 0.0, 1e9, 1e9, 1e9):
        recording.recorder._budget = budget
        recording.clock.advance(JUDGE_EVERY)
        recording.recorder.judge(recording.clock.now)
    rates = [facts for kind, facts in recording.events if kind == "rate"]
    recording.recorder.close()
    assert len(rates) == 4
    assert all("there is room again" in text for text in rates[2:])
    sources = recording.recorder.as_json()["sources"]
    assert not any("lowered" in source for source in sources.values())  # type: ignore[attr-defined]


def test_share_of_a_core_leaves_the_start_out_and_is_unknown_in_the_first_two_seconds() -> None:
    """Opening the sources takes 80 ms of CPU, once: most of a recording of 100 ms, none of what a second costs."""
    share, start_ns, tick_ns = ThreadShare(), 80_000_000, 500_000
    values = []
    for tick in range(41):
        share.look(tick * SECOND // 10, start_ns + tick * tick_ns)
        values.append(share.value)
    assert values[:20] == [None] * 20
    assert values[20:] == pytest.approx([0.005] * 21)


def test_table_that_was_not_recorded_has_columns_and_no_rows(tmp_path: Path) -> None:
    frame = seconds.seconds(tmp_path / "net")
    assert frame.is_empty()
    assert frame.columns == ["time", "net", "rx_mib_s", "tx_mib_s", "rx_drops_s", "tx_drops_s", "errors_s"]


def test_rate_of_a_process_that_rested_is_of_the_second_in_which_it_ran(tmp_path: Path) -> None:
    """It wrote no row while nothing changed, so its last row is older than the second in which it ran."""
    recording = MachineRecording(tmp_path, command=10)
    write(recording.root, 10, 1)
    write(recording.root, 11, 10)
    recording.run(40)
    write(recording.root, 11, 10, cpu=50)
    recording.run(10)
    recording.recorder.close()
    rows = seconds.seconds(recording.folder / "process").filter(process="11.111")
    assert rows["cpu"].to_list() == [None, 50.0]
    assert rows["state"].to_list() == ["S", "S"]
    assert rows["wait_channel"].to_list() == ["do_wait", "do_wait"]


def test_child_with_the_rank_of_its_parent_is_a_worker(tmp_path: Path) -> None:
    recording = MachineRecording(tmp_path, command=10)
    for pid, parent, rank in ((10, 1, ""), (11, 10, "RANK=2"), (12, 11, "RANK=2")):
        write(recording.root, pid, parent)
        (recording.root / "proc" / str(pid) / "environ").write_text(f"HOME=/\0{rank}\0")
    recording.run(10)
    recording.recorder.close()
    rows = seconds.seconds(recording.folder / "process").sort("process")
    assert rows["role"].to_list() == [None, "rank", "worker"]
    assert rows["rank"].to_list() == [None, 2, 2]
