"""Readings of a GPU: watts, joules, refreshes, nulls."""

import numpy as np
import pytest

from gputel.telemetry.readings import BY_NAME
from tests.fake_nvml import (
    A100,
    H100,
    MS,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SECOND,
    V100,
)
from tests.telemetry.conftest import MakeFake
from tests.telemetry.nvml.driver import STEPS, numbers, sample, truth

pytestmark = pytest.mark.needs("cc")


def test_watts_are_the_mean_over_the_sensors_window_at_its_last_refresh(fake: MakeFake) -> None:
    driver = fake()
    driver.power(STEPS)
    power = [row[0] for row in sample(driver, 5, ["power_w"])]
    for tick, value in enumerate(power):
        end = (60 * SECOND + tick * 10 * MS) // (100 * MS) * (100 * MS)
        assert value == pytest.approx(1000 * truth(STEPS, end - 25 * MS, end) / 0.025, abs=1.5)


def test_joules_by_the_counter_are_the_integral_of_the_true_power(fake: MakeFake) -> None:
    driver = fake()
    driver.power(STEPS)
    energy = numbers([row[0] for row in sample(driver, 300, ["energy_j"], hz=10)])
    assert (energy[-1] - energy[0]) / 1000 == pytest.approx(truth(STEPS, 60 * SECOND, 359_900 * MS), abs=0.01)


def test_joules_by_the_average_sensor_are_true_and_by_the_short_window_nearly_so(
    fake: MakeFake,
) -> None:
    driver = fake()
    driver.power(STEPS)
    rows = sample(driver, 200, ["power_avg_w", "power_w"])
    exact = truth(STEPS, 60 * SECOND, 260 * SECOND)
    assert sum(numbers([row[0] for row in rows])) / 1e5 == pytest.approx(exact, rel=0.002)
    assert sum(numbers([row[1] for row in rows])) / 1e5 == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize(("kind", "refresh_ms"), [(H100, 100), (A100, 100), (V100, 20)])
def test_sensor_refreshes_as_often_as_that_kind_of_gpu_does(
    fake: MakeFake, kind: str, refresh_ms: int
) -> None:
    driver = fake(kind)
    driver.power([(331 * MS, 300_000), (13 * MS, 100_000), (77 * MS, 250_000)])
    power = np.array([row[0] for row in sample(driver, 20, ["power_w"], hz=200)])
    changed = np.flatnonzero(np.diff(power)) * 5
    assert set(changed % refresh_ms) == {changed[0] % refresh_ms}
    assert np.gcd.reduce(np.diff(changed)) == refresh_ms


def test_field_that_stops_answering_is_null_and_only_that_one(fake: MakeFake) -> None:
    driver = fake()
    machine = driver.open()
    names = ["power_w", "temp_mem_c", "temp_c", "power_limit_w"]
    reader = machine.reader(machine.gpus[0], [BY_NAME[name] for name in names])
    reader.ask()
    assert None not in reader.answer(1)
    driver.state.gpus[0].field_status[82] = NOT_SUPPORTED
    driver.fault("TemperatureV", NO_PERMISSION)
    reader.ask()
    assert reader.answer(2) == [300_000, None, None, 700_000]
    driver.state.gpus[0].field_status[82] = 0
    driver.fault("TemperatureV", 0)
    reader.ask()
    assert None not in reader.answer(3)


def test_pstate_that_the_driver_does_not_know_is_null(fake: MakeFake) -> None:
    driver = fake()
    driver.state.gpus[0].pstate = 32
    assert sample(driver, 0.01, ["pstate", "power_limit_w"]) == [[None, 700_000]]
