"""The table of readings: each column of telemetry with its unit, its rate, and where the driver provides it.

Values are integers; divide by `per_unit` to get the unit. Sources are listed in order of preference: an older
driver or GPU uses the next one. Only `nvml/` knows how to read a source; a simulated machine uses the names
alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class ReadingRate(Enum):
    """How often a reading is sampled, in Hz; the fast ones follow `--hz`."""

    FAST = None
    MEDIUM = 100 / 3  # the PCIe counters of Gen5 x16 may wrap every 67 ms: two reads fit in between
    GPM = 5.0  # the driver needs 100 ms between two samples; other tools use 200
    SLOW = 1.0

    @property
    def tier(self) -> str:
        return self.name.lower()


class NvmlField(NamedTuple):
    """A field id of `nvmlDeviceGetFieldValues`, which reads many in one call."""

    id: int
    scope: int = 0

    def __str__(self) -> str:
        return f"field {self.id}"


class Call(NamedTuple):
    """An NVML function; `part` names one of the numbers that it returns."""

    function: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.function} {self.part}".strip()


class Gpm(NamedTuple):
    """A GPM metric, which the driver computes between two samples (Hopper and newer)."""

    metric: int

    def __str__(self) -> str:
        return f"GPM metric {self.metric}"


Source = NvmlField | Call | Gpm
ALL_LINKS = 0xFFFFFFFF
MIB = 1024 * 1024


@dataclass(frozen=True)
class Reading:
    name: str
    unit: str | None
    per_unit: int
    pace: ReadingRate
    sources: tuple[Source, ...]
    bytes_a_count: int = 0
    """For a rate: bytes per count of the driver's counter; 0 for every other reading."""
    about: str = ""


def _reading(
    name: str,
    unit: str | None,
    per_unit: int,
    *sources: Source,
    pace: ReadingRate = ReadingRate.FAST,
    about: str = "",
) -> Reading:
    return Reading(name, unit, per_unit, pace, sources, about=about)


def _rate(name: str, field: NvmlField, bytes_a_count: int, about: str) -> Reading:
    return Reading(name, "MiB/s", 1024, ReadingRate.FAST, (field,), bytes_a_count, about)


READINGS: tuple[Reading, ...] = (
    _reading("power_w", "W", 1000, NvmlField(186), Call("nvmlDeviceGetPowerUsage"), about="power now"),
    _reading("power_avg_w", "W", 1000, NvmlField(185), about="power, mean of the last second"),
    _reading(
        "energy_j",
        "J",
        1000,
        NvmlField(83),
        Call("nvmlDeviceGetTotalEnergyConsumption"),
        about="energy since the driver was loaded",
    ),
    _reading(
        "temp_c",
        "°C",
        1,
        Call("nvmlDeviceGetTemperatureV"),
        Call("nvmlDeviceGetTemperature"),
        about="temperature of the GPU",
    ),
    _reading("temp_mem_c", "°C", 1, NvmlField(82), about="temperature of its memory"),
    _reading(
        "util",
        "%",
        1,
        Call("nvmlDeviceGetUtilizationRates", "gpu"),
        about="share of time in which a kernel ran",
    ),
    _reading(
        "mem_util",
        "%",
        1,
        Call("nvmlDeviceGetUtilizationRates", "memory"),
        about="share of time in which memory was read or written",
    ),
    _reading(
        "mem_used_mib",
        "MiB",
        MIB,
        Call("nvmlDeviceGetMemoryInfo_v2", "used"),
        Call("nvmlDeviceGetMemoryInfo", "used"),
        about="memory in use",
    ),
    _reading("sm_mhz", "MHz", 1, Call("nvmlDeviceGetClockInfo", "sm"), about="clock of the SMs"),
    _reading("mem_mhz", "MHz", 1, Call("nvmlDeviceGetClockInfo", "memory"), about="clock of the memory"),
    _reading(
        "pstate", None, 1, Call("nvmlDeviceGetPerformanceState"), about="performance state, 0 is the fastest"
    ),
    _reading(
        "throttle",
        None,
        1,
        Call("nvmlDeviceGetCurrentClocksEventReasons"),
        Call("nvmlDeviceGetCurrentClocksThrottleReasons"),
        about="why the clocks are where they are: NVML's bit mask of clocks event reasons",
    ),
    _reading(
        "power_limit_w",
        "W",
        1000,
        NvmlField(190),
        Call("nvmlDeviceGetEnforcedPowerLimit"),
        about="power limit in force",
    ),
    _reading("fan", "%", 1, Call("nvmlDeviceGetFanSpeed"), pace=ReadingRate.SLOW, about="fan speed"),
    _reading(
        "ecc",
        None,
        1,
        Call("nvmlDeviceGetTotalEccErrors", "uncorrected"),
        pace=ReadingRate.SLOW,
        about="uncorrected memory errors since the driver was loaded",
    ),
    _reading(
        "remapped_rows",
        None,
        1,
        Call("nvmlDeviceGetRemappedRows"),
        pace=ReadingRate.SLOW,
        about="memory rows remapped in the GPU's life",
    ),
    _rate("pcie_rx_mib_s", NvmlField(198), 1, "received over PCIe"),
    _rate("pcie_tx_mib_s", NvmlField(197), 1, "sent over PCIe"),
    _rate("nvlink_rx_mib_s", NvmlField(139, ALL_LINKS), 1024, "received over all NVLinks"),
    _rate("nvlink_tx_mib_s", NvmlField(138, ALL_LINKS), 1024, "sent over all NVLinks"),
    _reading("sm_active", "%", 100, Gpm(2), pace=ReadingRate.GPM, about="SMs that were busy"),
    _reading(
        "tensor_active",
        "%",
        100,
        Gpm(5),
        pace=ReadingRate.GPM,
        about="cycles in which the tensor cores were busy",
    ),
    _reading(
        "dram_active", "%", 100, Gpm(10), pace=ReadingRate.GPM, about="share of the memory bandwidth in use"
    ),
)

BY_NAME = {reading.name: reading for reading in READINGS}
