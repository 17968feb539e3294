"""What the machine did over a recording, and the lines that say so."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from gputel.analysis.document import FactList, PlotAxis
from gputel.analysis.documents.machine import machine_facts
from gputel.analysis.documents.panels import machine as panels
from gputel.analysis.documents.record import info_document
from gputel.analysis.report.machine import machine_summaries
from gputel.analysis.report.summary import run_contents
from gputel.analysis.runs.recording import Recording, open_recording
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.machine import GpuUser
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
        "recorded beside the GPUs; reading it took 0.41 % of a core; slowed down to save CPU: stat at 5 Hz"
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


def test_process_whose_cpu_was_never_measured_has_no_mean_of_it(
    recorded: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a wall clock that was set back: no time had passed between two looks."""
    rows = recorded.processes.with_columns(cpu=pl.lit(None, pl.Float64))
    monkeypatch.setattr(Recording, "processes", property(lambda _: rows))
    (summary,) = machine_summaries(recorded)
    (process,) = summary.processes
    assert (process["cpu_mean"], process["cpu_max"]) == (None, None)
    assert "processes" not in machine_facts(summary).known()


@pytest.fixture
def on_gpus(tmp_path: Path) -> Recording:
    """The command and its child use a GPU each, the child the other one for a while; so does another program."""
    run_folder.create(tmp_path / "run", {"run": "made"})
    recording = MachineRecording(tmp_path, command=10)
    write_process(recording.root, 10, 1, name="train")
    write_process(recording.root, 11, 10, name="worker")
    write_process(recording.root, 30, 1, name="notebook")
    (recording.root / "proc/30/comm").write_text("notebook\n")
    recording.run(10)
    recording.use("0", GpuUser(10, 4096 << 20, 80), GpuUser(30, 512 << 20, None))
    recording.use("1", GpuUser(11, 100 << 20, 20))
    recording.run(30)
    recording.use("0", GpuUser(10, 2048 << 20, 40), GpuUser(11, 50 << 20, 0))
    recording.run(10)
    recording.recorder.close()
    return open_recording(tmp_path / "run")


def test_users_of_gpus_are_named_with_their_memory_and_their_share_of_the_time(on_gpus: Recording) -> None:
    (summary,) = machine_summaries(on_gpus)
    users = {process["name"]: process for process in summary.processes}
    assert (users["train"]["gpus"], users["train"]["gpu_mem_max_mib"]) == ("0", 4096)
    assert users["train"]["gpu_sm_mean"] == pytest.approx((3 * 80 + 40) / 4)
    assert (users["worker"]["gpus"], users["worker"]["gpu_mem_max_mib"]) == ("0, 1", 150)
    assert machine_facts(summary).known()["on the GPUs"].splitlines() == [
        "GPU 0: train, at most 4.0 GiB, busy 70 % of the time",
        "GPU 0: another program, notebook (30), at most 512.0 MiB",
        "GPU 0, 1: worker, at most 150.0 MiB together, busy 20 % of one GPU's time",
    ]


def test_seconds_of_processes_name_their_gpus_and_end_with_them(on_gpus: Recording) -> None:
    rows = on_gpus.processes.select("name", "role", "gpu", "gpu_mem_mib", "state").rows()
    assert [row for row in rows if row[0] == "worker"][1:] == [
        ("worker", None, "1", 100.0, "S"),
        ("worker", None, "0,1", 150.0, "S"),
    ]
    assert [row for row in rows if row[1] == "other"] == [
        ("notebook", "other", "0", 512.0, None),
        ("notebook", "other", None, None, "X"),
    ]


def test_panels_show_what_processes_use_of_gpus(on_gpus: Recording) -> None:
    whole = panels.whole_time(on_gpus)
    assert whole is not None
    named = {panel.name: [series.name for series in panel.series] for panel in panels.panels(on_gpus, *whole)}
    assert named["processes-gpu"] == ["train 10", "worker 11"]
    assert named["processes-gpu-memory"] == ["train 10", "worker 11", "notebook 30"]


def test_users_of_gpus_in_two_attempts_say_in_which(tmp_path: Path) -> None:
    """A job that resumed has the same names again."""
    for number, pid in enumerate((10, 20)):
        recording = MachineRecording(tmp_path / str(pid), command=pid)
        recording.clock.advance(number * 100 * SECOND)
        write_process(recording.root, pid, 1, name="train")
        recording.use("0", GpuUser(pid, 4096 << 20, 80))
        run_folder.create(recording.folder, {"run": "made", "started": recording.clock.stamp().as_json()})
        recording.run(20)
        recording.recorder.close()
    shutil.copytree(tmp_path / "20" / "run", tmp_path / "10" / "run" / "segments" / "2")
    (summary,) = machine_summaries(open_recording(tmp_path / "10" / "run"))
    assert machine_facts(summary).known()["on the GPUs"].splitlines() == [
        "GPU 0: train (attempt 1), at most 4.0 GiB, busy 80 % of the time",
        "GPU 0: train (attempt 2), at most 4.0 GiB, busy 80 % of the time",
    ]


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("other", "GPU 0: another program, bash (41), memory not known"),
        (
            "unseen",
            "GPU 0: a process that cannot be seen from here, number 41 by the driver, memory not known",
        ),
        ("rank", "GPU 0: bash (rank 3), memory not known"),
    ],
)
def test_user_of_a_gpu_is_called_by_what_is_known_of_it(recorded: Recording, role: str, words: str) -> None:
    (summary,) = machine_summaries(recorded)
    user = dict.fromkeys(summary.processes[0]) | {
        "process": "41.7",
        "name": "bash",
        "role": role,
        "gpus": "0",
    }
    user["rank"] = 3 if role == "rank" else None
    assert machine_facts(replace(summary, processes=[user])).known()["on the GPUs"] == words
