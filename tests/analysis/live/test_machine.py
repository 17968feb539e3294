"""The machine of a recording that is being written, second by second."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from gputel.analysis.live.machine import LiveGpuUsers, LiveMachine
from gputel.analysis.live.terminal.panes import machines
from gputel.analysis.live.view import MachineView
from gputel.telemetry.host.process_names import NAMES
from gputel.telemetry.machine import GpuUser
from tests.analysis.live.terminal.scenes import AT
from tests.telemetry.host import machine
from tests.telemetry.host.machine import MachineRecording, write_process


@pytest.fixture
def recording(tmp_path: Path) -> MachineRecording:
    return MachineRecording(tmp_path)


def after_the_end(recording: MachineRecording) -> MachineView:
    recording.recorder.close()
    view = LiveMachine(recording.folder, "1").read()
    assert view is not None
    return view


def test_last_second_has_rates_of_machine_disks_and_networks(recording: MachineRecording) -> None:
    for second in range(3):
        recording.change("proc/stat", f"cpu  {second * 30} 0 0 {second * 70} 0 0 0 0 0 0\n")
        sectors = str(4096 * (1 + second))
        recording.change("proc/diskstats", machine.DISKSTATS.replace(" 4096 50", f" {sectors} 50"))
        recording.run(10)
    view = after_the_end(recording)
    assert view.host["cpu_busy"] == 30
    assert view.host["mem_total_mib"] == 15625
    assert view.figures["disk", "nvme0n1"]["read_mib_s"] == 2
    assert view.figures["net", "eth0"]["rx_mib_s"] == 0


def test_terminal_shows_a_line_for_each_machine(recording: MachineRecording) -> None:
    recording.change("proc/stat", "cpu  0 0 0 0 0 0 0 0 0 0\n")
    recording.run(10)
    recording.change("proc/stat", "cpu  40 0 0 60 0 0 0 0 0 0\n")
    recording.run(10)
    (shown,) = machines([after_the_end(recording)], 120, 5)
    words = "machine 1 CPU 40 % · memory 3.8 GiB of 15.3 GiB · waited for core 0 %, disk 0 %, memory 0 %"
    assert shown.plain.strip() == words


def test_many_machines_are_one_line_with_the_lowest_and_the_highest() -> None:
    views = [
        MachineView(
            f"{node}", AT, {("host", ""): {"cpu_busy": 10.0 + node, "mem_used_mib": 20480.0 - 1024 * node}}
        )
        for node in range(12)
    ]
    (shown,) = machines(views, 120, 5)
    assert shown.plain.strip() == "12 machines CPU 10 to 21 % (11) · memory 9 to 20 GiB (0)"
    assert len(machines(views[:4], 120, 5)) == 4


def test_users_of_gpus_are_shown_until_they_end(tmp_path: Path) -> None:
    recording = MachineRecording(tmp_path, command=10)
    write_process(recording.root, 10, 1, name="train")
    (recording.root / "proc/30").mkdir()
    recording.use("0", GpuUser(10, 4096 << 20, 80), GpuUser(30, 512 << 20, None))
    recording.run(20)
    live = LiveMachine(recording.folder, "")
    recording.recorder.close()
    view = live.read()
    assert view is not None
    assert [user.words for user in view.gpu_users] == [
        "GPU 0 train 4.0 GiB 80 %",
        "GPU 0 30 (unseen) 512.0 MiB",
    ]
    assert [shown.plain.strip() for shown in machines([view], 120, 5)][1:] == [
        "GPU 0 train 4.0 GiB 80 % · GPU 0 30 (unseen) 512.0 MiB"
    ]


def test_user_that_has_left_its_gpu_is_no_longer_shown(tmp_path: Path) -> None:
    recording = MachineRecording(tmp_path, command=10)
    write_process(recording.root, 10, 1, name="train")
    recording.use("0", GpuUser(10, 4096 << 20, 80))
    recording.run(10)
    recording.use("0")
    recording.run(10)
    assert after_the_end(recording).gpu_users == ()


def test_nothing_new_is_nothing(recording: MachineRecording) -> None:
    recording.run(20)
    recording.recorder.close()
    live = LiveMachine(recording.folder, "")
    assert live.read() is not None
    assert live.read() is None


def test_recording_without_the_machine_has_none(tmp_path: Path) -> None:
    assert LiveMachine(tmp_path, "").read() is None


Use = tuple[int, int, int, float | None, float | None]


def ticks(*uses: Use) -> pl.DataFrame:
    """A row of each is pid, start, bits of GPUs, MiB and percent."""
    return pl.DataFrame(uses, schema=["pid", "start", "gpu", "gpu_mem_mib", "gpu_sm"], orient="row")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [
        {"gpu": 0, "name": "0"},
        {"gpu": 1, "name": "3"},
        {"process": "10.5", "name": "python", "rank": 1},
        {"process": "99.5", "name": "other", "role": "other"},
    ]
    (tmp_path / NAMES).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tmp_path


def test_user_with_the_most_memory_comes_first(folder: Path) -> None:
    users = LiveGpuUsers(folder)
    users.take(ticks((99, 5, 1, None, 4.0), (10, 5, 3, 2048.0, 80.0)))
    rank, other = users.read()
    assert (rank.name, rank.rank, rank.role, rank.gpus) == ("python", 1, "rank", "0,3")
    assert (rank.memory_mib, rank.share) == (2048.0, 80.0)
    assert (other.name, other.role, other.gpus, other.memory_mib) == ("other", "other", "0", None)


def test_process_that_left_its_gpu_is_no_user(folder: Path) -> None:
    users = LiveGpuUsers(folder)
    users.take(ticks((10, 5, 1, 2048.0, 80.0)))
    users.take(ticks((10, 5, 0, None, None)))
    assert users.read() == ()


def test_process_without_a_name_yet_has_its_number(folder: Path) -> None:
    users = LiveGpuUsers(folder)
    users.take(ticks((7, 1, 4, 1.0, None)))
    assert [(user.name, user.gpus) for user in users.read()] == [("7", "?")]
    with (folder / NAMES).open("a") as names:
        names.write('{"gpu": 2, "name": "5"}\n{"process": "7.1", "name": "train"}\n')
    assert [(user.name, user.gpus) for user in users.read()] == [("train", "5")]
