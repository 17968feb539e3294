"""What the GPU readings of a machine are worth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gputel.analysis.report import checkup
from gputel.telemetry.doctor import Check
from tests.fake_nvml import MS, FakeNvml, build


def test_gpus_are_counted_by_name() -> None:
    gpus = [{"name": "NVIDIA H100"}, {"name": "NVIDIA A100"}, {"name": "NVIDIA H100"}]
    assert checkup.gpu_names(gpus) == "2 x NVIDIA H100, 1 x NVIDIA A100"


def test_readings_are_not_tried_outside_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    check, readings = checkup.check_gpus("gpus")
    assert (check.state, readings) == ("poor", [])


@pytest.mark.needs("cc")
@pytest.mark.skipif(sys.platform != "linux", reason="records on Linux only")
def test_refresh_of_a_rate_is_that_of_its_counter(tmp_path: Path) -> None:
    """In a process of its own, which finds the driver by its environment; a busy machine misses some refreshes."""
    driver = FakeNvml(tmp_path / "driver", build(tmp_path / "build"))
    gpu = driver.state.gpus[0]
    gpu.nvlink_rx_rate, gpu.nvlink_refresh_ns = 133 * 10**9, 100 * MS
    script = "from gputel.analysis.report import checkup; print(checkup.check_gpus('nvml', 2.0))"
    answer = subprocess.run(
        [sys.executable, "-c", script], env=driver.environment, capture_output=True, text=True, check=True
    )
    check, readings = eval(answer.stdout, {"Check": Check})
    assert check.state == "good"
    (nvlink,) = (row for row in readings if row["reading"] == "nvlink_rx_mib_s")
    # its values change at every poll, 100 times a second
    assert nvlink["refresh_hz"] == pytest.approx(10, rel=0.5)
    assert all(row["idle"] for row in readings)  # at one level of power the fake GPU's utilization is 0
