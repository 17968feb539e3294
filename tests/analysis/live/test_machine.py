"""The machine of a recording that is being written, second by second."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.live.machine import LiveMachine
from gputel.analysis.live.terminal.panes import machines
from gputel.analysis.live.view import MachineView
from tests.telemetry.host import machine
from tests.telemetry.host.machine import MachineRecording


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


def test_nothing_new_is_nothing(recording: MachineRecording) -> None:
    recording.run(20)
    recording.recorder.close()
    live = LiveMachine(recording.folder, "")
    assert live.read() is not None
    assert live.read() is None


def test_recording_without_the_machine_has_none(tmp_path: Path) -> None:
    assert LiveMachine(tmp_path, "").read() is None
