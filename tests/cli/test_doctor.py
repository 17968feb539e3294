"""Run in a process of its own, as it forks a sampler."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="records on Linux only")


def doctor(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gputel", "doctor", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_each_reading_of_each_gpu_has_its_latency_or_says_why_not(tmp_path: Path) -> None:
    answer = doctor("--simulate", "2xH100", "--json", cwd=tmp_path)
    report = json.loads(answer.stdout)
    readings = {(row["gpu"], row["reading"]): row for row in report["readings"]}
    assert {gpu for gpu, _ in readings} == {"0", "1"}
    assert readings["1", "power_w"]["latency_us"] > 0
    assert readings["1", "power_w"]["tier"] == "fast"
    assert readings["0", "fan"]["fault"] == "NotSupported"
    assert all((row["latency_us"] is None) == (row["fault"] is not None) for row in report["readings"])


def test_refresh_is_that_of_the_sensor(tmp_path: Path) -> None:
    """The simulated H100 measures its power every 100 ms, however often it is asked."""
    report = json.loads(doctor("--simulate", "1xH100", "--json", cwd=tmp_path).stdout)
    (power,) = (row for row in report["readings"] if row["reading"] == "power_w")
    assert power["refresh_hz"] == pytest.approx(10, rel=0.05)


def test_machine_that_cannot_be_sampled_is_exit_1_with_how_to_fix_it(tmp_path: Path) -> None:
    answer = doctor("--simulate", "2xH900", cwd=tmp_path)
    assert answer.returncode == 1
    counts, gpus, hint = answer.stdout.splitlines()[:3]
    assert counts.endswith(" 1 bad")
    assert gpus.startswith("GPUs ")
    assert "bad: " in gpus
    assert "2xH900" in gpus
    assert hint.lstrip().startswith("how to fix it: ")


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    doctor("--simulate", "1xH100", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
