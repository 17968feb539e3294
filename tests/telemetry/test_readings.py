"""The table of readings agrees with the columns that are promised, and with what the driver's edge can ask."""

import pytest

from gputel.telemetry.nvml.calls import SHAPES
from gputel.telemetry.readings import READINGS, Call, ReadingRate

PROMISED = (
    "power_w power_avg_w energy_j temp_c temp_mem_c util mem_util mem_used_mib sm_mhz mem_mhz pstate throttle "
    "power_limit_w fan ecc remapped_rows pcie_rx_mib_s pcie_tx_mib_s nvlink_rx_mib_s nvlink_tx_mib_s "
    "sm_active tensor_active dram_active"
).split()


def test_columns_are_those_that_are_promised_in_that_order() -> None:
    assert [reading.name for reading in READINGS] == PROMISED


def test_every_call_has_a_shape_in_memory_and_every_shape_a_reading() -> None:
    assert {source for reading in READINGS for source in reading.sources if isinstance(source, Call)} == set(
        SHAPES
    )


@pytest.mark.parametrize(
    ("ending", "unit"), [("_w", "W"), ("_j", "J"), ("_c", "°C"), ("_mhz", "MHz"), ("_mib_s", "MiB/s")]
)
def test_unit_in_a_name_is_the_unit(ending: str, unit: str) -> None:
    assert {reading.unit for reading in READINGS if reading.name.endswith(ending)} == {unit}


def test_reading_that_hardly_changes_is_slow() -> None:
    assert {reading.name for reading in READINGS if reading.pace is ReadingRate.SLOW} == {
        "fan",
        "ecc",
        "remapped_rows",
    }
