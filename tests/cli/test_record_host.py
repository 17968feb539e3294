"""`gputel record` of the machine around the GPUs: of this one, which need not have any."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gputel
from tests.recordings import PATIENCE_S, holders, until

BURN = """
import os, subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 1: sum(range(10000))\\ntime.sleep(4)"
child = subprocess.Popen([sys.executable, "-c", burn], env={**os.environ, "RANK": "5"})
sleeper = subprocess.Popen(["sleep", "2"])
open("data", "wb").write(b"0" * (8 << 20))
print("step 1 | loss: 1.5")
child.wait(), sleeper.wait()
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gputel", "record", "--out", "run", *words]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=os.environ
    )


@pytest.mark.long
def test_processes_of_the_command_have_the_cpu_time_that_they_took() -> None:
    answer = record("--", sys.executable, "-c", BURN)
    assert answer.returncode == 0
    run = gputel.open_run("run")
    rows = run.processes
    burned = rows.filter(rank=5)
    assert burned["process"].n_unique() == 1
    pid = int(burned["process"][0].partition(".")[0])
    spent = run.scan("process").collect().filter(pid=pid)["cpu_s_total"].max()
    assert isinstance(spent, float)
    assert 0.9 <= spent < 1.5
    slept = rows.filter(name="sleep")
    assert (slept["cpu"].sum() or 0) < 50
    assert rows["process"].n_unique() == 3


@pytest.mark.long
def test_machine_is_recorded_without_a_gpu_and_reported() -> None:
    answer = record("--", sys.executable, "-c", "import time; print('step 1 | loss: 1.5'); time.sleep(3)")
    assert "Traceback" not in answer.stderr
    run = gputel.open_run("run")
    host = run.host.drop_nulls("cpu_busy")
    assert host.height >= 2
    assert host["cpu_busy"].is_between(0, 100).all()
    assert (host["mem_used_mib"] < host["mem_total_mib"]).all()
    assert run.cores["core"].n_unique() >= 1
    report = subprocess.run(
        [sys.executable, "-m", "gputel", "report", "run", "--html"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Machine over" in report.stdout
    assert "CPU of the machine" in Path("gputel-report.html").read_text()


def test_no_host_records_the_gpus_alone() -> None:
    record("--simulate", "1xH100", "--no-host", "--for", "1.1s")
    tables = {path.name for path in Path("run").iterdir() if path.is_dir()}
    assert tables == {"gpu"}
    assert gputel.open_run("run").host.is_empty()


def test_machine_stands_beside_simulated_gpus() -> None:
    record("--simulate", "1xH100", "--for", "1.2s")
    run = gputel.open_run("run")
    assert not run.gpu.is_empty()
    assert not run.scan("host").collect().is_empty()
    assert run.processes.is_empty()


@pytest.mark.long
def test_machine_is_recorded_on_after_its_recorder_was_killed() -> None:
    wait = "import os, time\nwhile not os.path.exists('stop'): time.sleep(0.05)"
    command = [sys.executable, "-m", "gputel", "record", "--out", "run", "--", sys.executable, "-c", wait]
    recording = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        first, second = Path("run/host/fast-000001.gtb"), Path("run/host/fast-000002.gtb")
        until(lambda: first.exists() and holders(first), "a process that writes the samples of the machine")
        for pid in holders(first):
            os.kill(pid, signal.SIGKILL)
        until(second.exists, "a second recorder")
        until(lambda: not gputel.open_run("run").processes.is_empty(), "a rate, which takes two looks")
    finally:
        Path("stop").touch()
        assert recording.wait(PATIENCE_S) == 0
    assert gputel.open_run("run").processes["process"].n_unique() == 1
