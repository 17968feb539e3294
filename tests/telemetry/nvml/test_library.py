"""NVIDIA's library: structures, and functions that a driver lacks."""

import struct
from pathlib import Path

import pynvml  # type: ignore[import-untyped]
import pytest

from gputel.telemetry.nvml import library
from gputel.telemetry.nvml.gpm import METRIC, SIZE
from gputel.telemetry.sampling import plan
from tests.fake_nvml import (
    H100,
    MIB,
    SECOND,
)
from tests.telemetry.conftest import MakeFake, SteppedClock

pytestmark = pytest.mark.needs("cc")


def test_structures_are_laid_out_as_the_driver_lays_them_out() -> None:
    import ctypes

    assert ctypes.sizeof(pynvml.c_nvmlGpmMetricsGet_t) == SIZE
    assert ctypes.sizeof(pynvml.c_nvmlGpmMetric_t) == METRIC.size
    assert ctypes.sizeof(pynvml.c_nvmlFieldValue_t) == 40
    assert pynvml.nvmlTemperature_v1 == struct.unpack("I", struct.pack("I", 12 | 1 << 24))[0]
    assert pynvml.nvmlMemory_v2 == 40 | 2 << 24


def test_real_pynvml_reads_the_same_from_the_fake_driver(fake: MakeFake, tmp_path: Path) -> None:
    import subprocess
    import sys

    driver = fake()
    driver.power([(SECOND, 456_000)])
    script = (
        "import pynvml as p; p.nvmlInit(); h = p.nvmlDeviceGetHandleByIndex(0); "
        "print(p.nvmlDeviceGetFieldValues(h, [186])[0].value.uiVal, "
        "p.nvmlDeviceGetMemoryInfo(h, p.nvmlMemory_v2).used, "
        "p.nvmlDeviceGetTemperatureV(h, 0), p.nvmlDeviceGetName(h))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], env=driver.environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split(maxsplit=3) == ["456000", str(1000 * MIB), "52", H100 + "\n"]


def test_function_that_the_driver_lacks_is_not_found(fake: MakeFake, old_driver: Path) -> None:
    machine = fake(H100, library=old_driver).open()
    faults = {f.reading.name: f.answer.fault for f in plan.probe(machine, machine.gpus[0], SteppedClock())}
    assert faults["sm_active"] == "FunctionNotFound"


def test_driver_that_a_test_opened_is_not_taken_for_the_one_of_this_machine(fake: MakeFake) -> None:
    """In one process a library that was loaded by its path is found again by its soname."""
    import ctypes

    assert fake().open().gpus
    try:
        found = ctypes.CDLL(library.NAME)
    except OSError:
        return
    assert not hasattr(found, "fake_nvml_on_stall")
