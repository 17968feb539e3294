"""Activity between two GPM samples."""

import pytest

from gputel.telemetry.readings import BY_NAME
from tests.fake_nvml import MS, NO_PERMISSION
from tests.telemetry.conftest import MakeFake
from tests.telemetry.nvml.driver import Recording, sample

pytestmark = pytest.mark.needs("cc")


def test_gpm_gives_activity_between_two_samples_and_nothing_at_the_first(fake: MakeFake) -> None:
    driver = fake()
    driver.power([(150 * MS, 700_000), (50 * MS, 100_000)])
    rows = sample(driver, 1.2, ["sm_active", "tensor_active", "dram_active"], hz=5)
    assert rows[0] == [None] * 3
    assert rows[1:] == [[7500, 3750, 3000]] * 5


def test_gpm_samples_that_lie_too_close_give_null(fake: MakeFake) -> None:
    driver = fake()
    driver.power([(150 * MS, 700_000), (50 * MS, 100_000)])
    assert sample(driver, 0.1, ["sm_active"], hz=100) == [[None]] * 10


@pytest.mark.parametrize("late_ms", [120, 240])
@pytest.mark.parametrize("tick", [21, 30, 39])
def test_tick_that_fires_late_costs_no_activity(fake: MakeFake, tick: int, late_ms: int) -> None:
    """The sample after a late one would come too soon: it waits until the driver can compare the two."""
    recording = Recording(fake())
    recording.clock.jumps = [*[0] * tick, late_ms * MS]
    recording.run(2)
    activity = [row[0] for tier, _, _, row in recording.rows.rows if tier == 1]
    assert recording.plan.tiers[1].tier.columns[0].name == "sm_active"
    assert len(activity) >= 8
    assert activity[0] is None
    assert None not in activity[1:]


def test_mig_activity_is_sampled_from_the_gpu_that_it_is_part_of(fake: MakeFake) -> None:
    driver = fake()
    driver.state.gpus[0].mig_count = 1
    driver.power([(150 * MS, 700_000), (50 * MS, 100_000)])
    assert sample(driver, 0.6, ["sm_active"], hz=5, gpu=1) == [[None], [7500], [7500]]


def test_gpm_that_takes_longer_than_a_tick_of_the_fastest_tier_still_gives_activity(fake: MakeFake) -> None:
    driver = fake()
    driver.power([(150 * MS, 700_000), (50 * MS, 100_000)])
    recording = Recording(driver, hz=1000)
    driver.slow("GpmSample", MS)
    recording.run(2)
    number = next(n for n, planned in enumerate(recording.plan.tiers) if planned.tier.name == "gpm")
    column = [values[0] for tier, _, _, values in recording.rows.rows if tier == number]
    assert len(column) >= 9
    assert None not in column[1:]


def test_gpm_that_the_driver_supports_and_refuses_is_missing_with_its_reason(fake: MakeFake) -> None:
    driver = fake()
    driver.fault("GpmSample", NO_PERMISSION)
    machine = driver.open()
    answer = machine.probe(machine.gpus[0], BY_NAME["sm_active"])
    assert (answer.source, answer.fault) == (None, "NoPermission")


def test_gpm_of_some_milliseconds_stays_out_of_the_tier_of_other_slow_readings(fake: MakeFake) -> None:
    """Metrics beside error counters in one tier ended all telemetry: a reader asks for one kind or the other."""
    driver = fake()
    driver.slow("GpmSample", 4 * MS)
    recording = Recording(driver, max_overhead=0.05)
    recording.run(2.5)
    columns = [{column.name for column in planned.tier.columns} for planned in recording.plan.tiers]
    assert {"sm_active", "tensor_active", "dram_active"} in columns
    for number, names in enumerate(columns):
        assert {len(row) for tier, _, _, row in recording.rows.rows if tier == number} == {len(names)}
