"""Readings go into tiers by what they cost, and over the budget what can wait does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gputel.telemetry.machine import Answer, CounterState, Gpu, GpuUsers, Prepared, Report, Values
from gputel.telemetry.readings import READINGS, Reading, ReadingRate
from gputel.telemetry.sampling import plan
from tests.telemetry.conftest import SteppedClock

MS = 1_000_000


@dataclass
class Priced:
    """A machine whose calls take as long as the test says (ns by reading); what is priced None is not there."""

    clock: SteppedClock
    prices: dict[str, int | None]
    gpus: tuple[Gpu, ...] = (Gpu("0", "priced", "GPU-0", None),)
    simulated: str | None = None
    asked: list[str] = field(default_factory=list)

    def probe(self, gpu: Gpu, reading: Reading) -> Answer:
        if self.prices.get(reading.name, 1000) is None:
            return Answer(None, None, "NotSupported")
        return Answer(1, f"call{reading.name}")

    def reader(self, gpu: Gpu, readings: Sequence[Reading]) -> "PricedReader":
        return PricedReader(self, [reading.name for reading in readings])

    def users(self, gpu: Gpu, now: int) -> GpuUsers:
        return GpuUsers()

    def revive(self, gpu: Gpu) -> None: ...

    def listen(self, report: Report) -> None: ...

    def close(self) -> None: ...


@dataclass
class PricedReader:
    machine: Priced
    names: list[str]
    failed: bool = False
    prepared: Sequence[Prepared] = ()

    @property
    def calls(self) -> Sequence[tuple[str, ...]]:
        return [(name,) for name in self.names]

    def ask(self) -> None:
        self.timed(self.machine.clock.monotonic)

    def timed(self, monotonic: Callable[[], int]) -> Sequence[int]:
        costs = [self.machine.prices.get(name) or 1000 for name in self.names]
        self.machine.clock.advance(sum(costs))
        self.machine.asked += self.names
        return costs

    def answer(self, now: int) -> Values:
        return [1] * len(self.names)

    def counters(self) -> Mapping[str, CounterState]:
        return {}

    def faults(self) -> Mapping[str, str]:
        return {}


def planned(
    prices: dict[str, int | None], hz: float = 100.0, max_overhead: float = 0.02
) -> dict[str, set[str]]:
    clock = SteppedClock()
    machine = Priced(clock, prices)
    made = plan.make(machine, machine.gpus, hz, clock, max_overhead=max_overhead)
    return {planned.tier.name: {column.name for column in planned.tier.columns} for planned in made.tiers}


def test_cheap_readings_are_fast_and_what_hardly_changes_is_slow() -> None:
    tiers = planned({})
    assert {"power_w", "temp_c", "pcie_rx_mib_s"} <= tiers["fast"]
    assert tiers["gpm"] == {"sm_active", "tensor_active", "dram_active"}
    assert tiers["slow"] == {reading.name for reading in READINGS if reading.pace is ReadingRate.SLOW}


def test_call_of_a_millisecond_goes_to_33_hz_one_of_ten_to_1_hz_and_a_slower_one_is_dropped() -> None:
    tiers = planned({"util": 1 * MS, "pstate": 10 * MS, "ecc": 200 * MS}, max_overhead=0.05)
    assert "util" in tiers["medium"]
    assert "pstate" in tiers["slow"]
    assert not any("ecc" in names for names in tiers.values())


def test_reading_not_supported_is_in_no_tier_and_says_why() -> None:
    clock = SteppedClock()
    machine = Priced(clock, {"fan": None})
    made = plan.make(machine, machine.gpus, 100, clock)
    facts = made.as_json()["readings"]
    assert isinstance(facts, dict)
    assert facts["0"]["fan"] == {"tier": None, "source": None, "latency_us": None, "fault": "NotSupported"}
    assert facts["0"]["util"]["latency_us"] == 1.0


def test_power_and_temperature_stay_fast_over_budget_and_the_rest_waits() -> None:
    names = ("mem_used_mib", "pstate", "mem_mhz", "util", "mem_util", "sm_mhz", "throttle", "temp_c")
    tiers = planned(dict.fromkeys(names, 40_000), max_overhead=0.02)
    assert {"power_w", "energy_j", "temp_c"} <= tiers["fast"]
    assert {"mem_used_mib", "pstate"} <= tiers["medium"]


def test_dear_readings_give_way_before_cheap_ones() -> None:
    """As a driver in a virtual machine answered: the energy counter in 3.2 ms, those of PCIe in 0.2."""
    tiers = planned({"energy_j": 3_200_000, "pcie_rx_mib_s": 158_000, "pcie_tx_mib_s": 250_000})
    assert {"power_w", "power_avg_w", "temp_c", "util", "mem_util", "sm_mhz", "throttle"} <= tiers["fast"]
    assert tiers["medium"] == {"pcie_rx_mib_s", "pcie_tx_mib_s"}
    assert "energy_j" in tiers["slow"]


def test_budget_is_for_each_gpu() -> None:
    clock = SteppedClock()
    eight = tuple(Gpu(str(i), "priced", f"GPU-{i}", None) for i in range(8))
    machine = Priced(clock, {"util": 100_000}, eight)
    made = plan.make(machine, eight, 100, clock, max_overhead=0.02)
    assert {tier.tier.name for tier in made.tiers} == {"fast", "gpm", "slow"}


def test_gpu_that_does_not_answer_keeps_its_place() -> None:
    """Its readings come in another order in memory, and it came last in tables and reports."""
    gpus = [Gpu(str(n), "priced", f"GPU-{n}", None) for n in range(3)]
    fields = [
        plan.Probe(gpu, reading, Answer(1, "field 1"), 1000)
        for gpu in (gpus[0], gpus[2])
        for reading in READINGS
    ]
    found = [*fields[: len(READINGS)], *plan.silent(gpus[1], "it hangs"), *fields[len(READINGS) :]]
    for planned in plan.arrange(found, 100.0).tiers:
        assert [gpu for gpu, _ in planned.parts] == gpus
        assert list(planned.tier.subjects) == ["0", "1", "2"]


def test_slow_tier_is_never_faster_than_the_recording() -> None:
    clock = SteppedClock()
    machine = Priced(clock, {"util": 1 * MS})
    made = plan.make(machine, machine.gpus, 2, clock)
    assert {planned.tier.hz for planned in made.tiers} == {2.0, 1.0}


def test_every_pace_but_the_fast_one_has_a_rate() -> None:
    assert [pace.value for pace in ReadingRate] == [None, 100 / 3, 5.0, 1.0]
