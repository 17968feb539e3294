"""A recording that meets every fault of a soak, and has no wrong value and no tick that is not accounted for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fake_nvml import MS, SECOND, FakeNvml
from tests.soak import realtime, virtual
from tests.soak.life import lives
from tests.soak.plan import make_plan, plan_from_json
from tests.soak.truth import GpuTruth
from tests.telemetry.nvml.driver import sample

pytestmark = pytest.mark.needs("cc")
OFTEN = {"kill": 25.0, "gone": 40.0, "full": 40.0, "restart": 60.0, "stall": 3.0}


def test_plan_is_the_same_for_a_seed_and_survives_json() -> None:
    plan = make_plan(7, 600)
    assert plan == make_plan(7, 600) == plan_from_json(plan.as_json())
    assert plan != make_plan(8, 600)
    assert {fault.kind for fault in plan.faults} == {"stall", "gone", "restart", "full", "kill"}
    assert lives(plan)[-1][1] == 600


def test_truth_is_what_the_driver_answers(tmp_path: Path) -> None:
    driver = virtual.make_driver(tmp_path, 2)
    names = [
        "power_w",
        "power_avg_w",
        "energy_j",
        "temp_c",
        "temp_mem_c",
        "util",
        "mem_util",
        "mem_used_mib",
        "sm_mhz",
    ]
    rows = np.array(sample(driver, 5, names, gpu=1), np.float64)
    at = 60 * SECOND + np.arange(500) * 10 * MS
    for place, name in enumerate(names):
        assert np.abs(rows[:, place] - GpuTruth(1).values(name, at)).max() <= 1, name


def test_call_that_stalls_lets_time_pass_once(tmp_path: Path) -> None:
    driver: FakeNvml = virtual.make_driver(tmp_path, 1)
    driver.stall("Utilization", 30 * MS)
    (row,) = sample(driver, 0.01, ["util"])
    assert driver.state.gpus[0].stall_ns == 0
    assert row[0] is not None


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_five_minutes_of_faults_leave_no_wrong_value_and_no_uncounted_tick(seed: int, tmp_path: Path) -> None:
    result = virtual.run(tmp_path / "soak", make_plan(seed, 300, every_s=OFTEN))
    assert result.soaked.wrong == []
    assert result.uncounted == []
    assert result.soaked.not_scheduled == 0
    assert result.soaked.hz == pytest.approx(100, rel=0.01)
    assert result.stalls > 30
    assert result.lives > 3


@pytest.mark.long
def test_half_a_minute_of_faults_in_real_time_leaves_no_wrong_value_and_the_whole_output(
    tmp_path: Path,
) -> None:
    """On a busy machine ticks may be missed; they are in the gaps, and not in the values."""
    faults = {"kill": 12.0, "gone": 20.0, "full": 15.0, "load": 15.0, "restart": 25.0}
    result = realtime.run(tmp_path, make_plan(3, 30, every_s=faults))
    assert result.soaked.wrong == []
    assert result.soaked.hz == pytest.approx(100, rel=0.01)
    assert (result.exit_code, result.torn) == (realtime.EXIT_CODE, 0)
    assert result.lines > 300
