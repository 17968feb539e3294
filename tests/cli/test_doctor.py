"""Run in a process of its own, as it forks a sampler."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="records on Linux only")


def doctor(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gputel", "doctor", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doctor")


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(doctor("--simulate", "2xH100", "--json", cwd=folder).stdout)
    return answer


def test_each_reading_of_each_gpu_has_its_latency_or_says_why_not(report: dict[str, Any]) -> None:
    readings = {(row["gpu"], row["reading"]): row for row in report["readings"]}
    assert {gpu for gpu, _ in readings} == {"0", "1"}
    assert readings["1", "power_w"]["latency_us"] > 0
    assert readings["1", "power_w"]["tier"] == "fast"
    assert readings["0", "fan"]["fault"] == "NotSupported"
    assert all((row["latency_us"] is None) == (row["fault"] is not None) for row in report["readings"])


def test_refresh_is_that_of_the_sensor(report: dict[str, Any]) -> None:
    """The simulated H100 measures its power every 100 ms, however often it is asked."""
    powers = [row["refresh_hz"] for row in report["readings"] if row["reading"] == "power_w"]
    assert powers == [pytest.approx(10, rel=0.05)] * 2


def test_machine_that_cannot_be_sampled_is_exit_1_with_how_to_fix_it(tmp_path: Path) -> None:
    answer = doctor("--simulate", "2xH900", cwd=tmp_path)
    assert answer.returncode == 1
    counts, gpus, hint = answer.stdout.splitlines()[:3]
    assert counts.endswith(" 1 bad")
    assert gpus.startswith("GPUs ")
    assert "bad: " in gpus
    assert "2xH900" in gpus
    assert hint.lstrip().startswith("how to fix it: ")


def test_nothing_is_left_behind(report: dict[str, Any], folder: Path) -> None:
    assert report["readings"]
    assert list(folder.iterdir()) == []
