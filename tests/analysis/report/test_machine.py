"""What the machine did over a recording, and the lines that say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.document import FactList, PlotAxis
from gputel.analysis.documents.machine import machine_facts
from gputel.analysis.documents.panels import machine as panels
from gputel.analysis.documents.record import info_document
from gputel.analysis.report.machine import machine_summaries
from gputel.analysis.report.summary import run_contents
from gputel.analysis.runs.recording import Recording, open_recording
from gputel.telemetry import run_folder
from tests.telemetry.host import machine
from tests.telemetry.host.machine import MachineRecording, write_process


@pytest.fixture
def recorded(tmp_path: Path) -> Recording:
    """Ten seconds: half of the CPU, 2 MiB/s read, a process that takes 40 % of a core."""
    run_folder.create(tmp_path / "run", {"run": "made"})
    recording = MachineRecording(tmp_path, command=10)
    for second in range(10):
        recording.change("proc/stat", f"cpu  {second * 100} 0 0 {second * 100} 0 0 0 0 0 0\n")
        sectors = str(4096 * (1 + second))
        recording.change("proc/diskstats", machine.DISKSTATS.replace(" 4096 50", f" {sectors} 50"))
        write_process(recording.root, 10, 1, cpu=40 * second, name="train me")
        recording.run(10)
    recording.recorder.close()
    return open_recording(tmp_path / "run")


def test_summary_has_means_maxima_and_what_was_moved(recorded: Recording) -> None:
    (summary,) = machine_summaries(recorded)
    assert summary.seconds == 10
    assert summary.cores == 2
    assert summary.cpu_busy_mean == pytest.approx(50)
    (disk,) = summary.disks
    assert (disk["disk"], disk["read_mib"], disk["read_mib_s_max"]) == ("nvme0n1", 18.0, 2.0)
    (process,) = summary.processes
    assert (process["name"], process["cpu_mean"], process["seconds"]) == ("train me", 40.0, 9)


def test_facts_say_it_in_a_line_each(recorded: Recording) -> None:
    (summary,) = machine_summaries(recorded)
    known = machine_facts(summary).known()
    assert known["CPU"] == "50 % of 2 cores busy, at most 50 %"
    assert known["memory"] == "at most 3.8 GiB used of 15.3 GiB, 488.3 MiB of swap"
    assert known["disks"].startswith("nvme0n1: 18.0 MiB read (at most 2.0 MiB/s)")
    assert known["processes"].startswith("train me: 40 % of a core, at most 40 %")
    assert "networks" not in known


def test_panels_have_a_curve_for_each_thing_that_moved(recorded: Recording) -> None:
    whole = panels.whole_time(recorded)
    assert whole is not None
    named = {
        panel.name: [series.name for series in panel.series] for panel in panels.panels(recorded, *whole)
    }
    assert named["machine-cpu"] == ["busy"]
    assert named["processes"] == ["train me 10"]
    assert named["disks"] == ["nvme0n1 read"]
    assert "networks" not in named


def test_panels_keep_to_the_stretch_that_is_shown(recorded: Recording) -> None:
    start = int(recorded.host["time"].dt.epoch("ns")[4])
    cpu = next(panels.panels(recorded, PlotAxis("time", "time", "s", start), 3.0))
    assert cpu.series[0].x["time"].tolist() == [0.5, 1.5, 2.5]


def test_run_without_the_machine_has_no_summary(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "run", {"run": "made"})
    recording = open_recording(tmp_path / "run")
    assert machine_summaries(recording) == []
    assert panels.whole_time(recording) is None


def test_info_names_what_could_not_be_read_and_what_is_read_more_rarely(tmp_path: Path) -> None:
    sources = {
        "stat": {"hz": 5.0, "lowered": True},
        "pressure": {"hz": 10.0, "fault": "/proc/pressure/cpu: no such file or directory"},
    }
    described = {"run": "made", "host_sampling": {"sources": sources, "cpu_share": 0.0041}}
    run_folder.create(tmp_path / "run", described)
    (section,) = info_document(run_contents(tmp_path / "run")).sections
    facts = section.items[0]
    assert isinstance(facts, FactList)
    known = facts.known()
    assert known["machine"] == (
        "recorded beside the GPUs, reading it took 0.41 % of a core; read more rarely: stat at 5 Hz"
    )
    assert known["not read"] == "pressure: /proc/pressure/cpu: no such file or directory"


@pytest.mark.parametrize("damaged", [{"sources": 5}, {"sources": {"stat": 3}, "cpu_share": "much"}])
def test_damaged_description_of_the_machine_costs_itself_alone(tmp_path: Path, damaged: object) -> None:
    run_folder.create(tmp_path / "run", {"run": "made", "host_sampling": damaged})
    sampling = run_contents(tmp_path / "run").machine
    assert sampling is not None
    assert (sampling.cpu_share, list(sampling.unread), list(sampling.lowered)) == (None, [], [])


def test_limits_of_the_command_are_named_with_what_they_cost(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "run", {"run": "made"})
    root = tmp_path / "machine"
    write_process(root, 10, 1)
    group = root / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text("cpu memory\n")
    (group / "cpu.max").write_text("150000 100000\n")
    (group / "memory.max").write_text(f"{4 << 30}\n")
    (group / "memory.current").write_text(f"{1 << 30}\n")
    (group / "cpu.stat").touch()
    (group / "memory.events").touch()
    (root / "proc/10/cgroup").write_text("0::/\n")
    recording = MachineRecording(tmp_path, command=10)
    for second in range(3):
        (group / "cpu.stat").write_text(f"nr_periods {second * 10}\nnr_throttled {second * 5}\n")
        (group / "memory.events").write_text(f"max {second * 20}\n")
        recording.run(10)
    recording.recorder.close()
    (summary,) = machine_summaries(open_recording(tmp_path / "run"))
    assert machine_facts(summary).known()["limits"] == (
        "self: 1.5 cores, stopped in 50 % of periods; 4.0 GiB of memory, at most 1.0 GiB used, reached 40 times"
    )
