"""The edge to the driver, against a fake one with a true power: watts, joules, refreshes, faults, MIG, GPM, Xid.

What the test compares with it integrates by itself, from the stretches that it wrote.
"""

import queue
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pynvml  # type: ignore[import-untyped]
import pytest

from gputel.telemetry.machine import GpuLost
from gputel.telemetry.nvml.calls import Counter, Rates
from gputel.telemetry.nvml.devices import Nvml
from gputel.telemetry.nvml.gpm import METRIC, SIZE
from gputel.telemetry.readings import BY_NAME, READINGS
from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.budget import Budget, SamplingCost
from gputel.telemetry.sampling.loop import Loop, Turn
from tests.fake_nvml import (
    A100,
    DEPRECATED,
    GB10,
    GPU_IS_LOST,
    H100,
    MIB,
    MS,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SECOND,
    V100,
    FakeNvml,
)
from tests.telemetry.conftest import MakeFake, Rows, Spending, SteppedClock

pytestmark = pytest.mark.needs("cc")
STEPS = [(310 * MS, 690_000), (90 * MS, 420_000), (57 * MS, 95_000)]


def truth(stretches: Sequence[tuple[int, int]], start: int, end: int) -> float:
    """Joules between two moments, summed millisecond by millisecond."""
    levels = np.concatenate([np.full(duration // MS, level / 1000) for duration, level in stretches])
    at = np.arange(start // MS, end // MS) % len(levels)
    return float(levels[at].sum() / 1000)


def sample(
    fake: FakeNvml, seconds: float, names: Sequence[str], hz: float = 100.0, gpu: int = 0
) -> list[list[int | None]]:
    """Rows of these readings, on the driver's own clock, from a minute on."""
    machine = fake.open()
    fake.at(60)
    reader = machine.reader(machine.gpus[gpu], [BY_NAME[name] for name in names])
    rows = []
    for tick in range(round(seconds * hz)):
        now = 60 * SECOND + round(tick * SECOND / hz)
        fake.state.now_ns = now
        reader.ask()
        rows.append(list(reader.answer(now)))
    return rows


def numbers(column: Sequence[int | None]) -> list[int]:
    return [value for value in column if value is not None]


def test_structures_are_laid_out_as_the_driver_lays_them_out() -> None:
    import ctypes

    assert ctypes.sizeof(pynvml.c_nvmlGpmMetricsGet_t) == SIZE
    assert ctypes.sizeof(pynvml.c_nvmlGpmMetric_t) == METRIC.size
    assert ctypes.sizeof(pynvml.c_nvmlFieldValue_t) == 40
    assert pynvml.nvmlTemperature_v1 == struct.unpack("I", struct.pack("I", 12 | 1 << 24))[0]
    assert pynvml.nvmlMemory_v2 == 40 | 2 << 24


def test_the_real_pynvml_reads_the_same_from_the_fake_driver(fake: MakeFake, tmp_path: Path) -> None:
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
    said = subprocess.run(
        [sys.executable, "-c", script], env=driver.environment, capture_output=True, text=True, check=True
    )
    assert said.stdout.split(maxsplit=3) == ["456000", str(1000 * MIB), "52", H100 + "\n"]


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
def test_a_sensor_refreshes_as_often_as_that_kind_of_gpu_does(
    fake: MakeFake, kind: str, refresh_ms: int
) -> None:
    driver = fake(kind)
    driver.power([(331 * MS, 300_000), (13 * MS, 100_000), (77 * MS, 250_000)])
    power = np.array([row[0] for row in sample(driver, 20, ["power_w"], hz=200)])
    changed = np.flatnonzero(np.diff(power)) * 5
    assert set(changed % refresh_ms) == {changed[0] % refresh_ms}
    assert np.gcd.reduce(np.diff(changed)) == refresh_ms


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [
        (H100, {"fan"}),
        (A100, {"fan", "sm_active", "tensor_active", "dram_active"}),
        (GB10, {"fan", "mem_used_mib", "power_limit_w", "energy_j", "temp_mem_c", "ecc", "remapped_rows"}),
    ],
)
def test_what_a_gpu_does_not_have_is_left_out_of_the_plan_with_its_reason(
    fake: MakeFake, kind: str, lacks: set[str]
) -> None:
    machine = fake(kind).open()
    findings = plan.probe(machine, machine.gpus[0], SteppedClock())
    missing = {f.reading.name: f.answer.fault for f in findings if f.pace is None}
    assert lacks <= set(missing)
    assert set(missing.values()) == {"NotSupported"}


def test_where_the_preferred_source_is_missing_the_next_one_is_asked(
    fake: MakeFake, old_driver: Path
) -> None:
    """A driver without the newest functions, and a GPU without the newest fields."""
    machine = fake(V100, library=old_driver).open()
    sources = {f.reading.name: f.answer.source for f in plan.probe(machine, machine.gpus[0], SteppedClock())}
    assert sources["power_w"] == "nvmlDeviceGetPowerUsage"
    assert sources["temp_c"] == "nvmlDeviceGetTemperature"
    assert sources["throttle"] == "nvmlDeviceGetCurrentClocksThrottleReasons"
    assert sources["mem_used_mib"] == "nvmlDeviceGetMemoryInfo used"


def test_a_function_that_the_driver_does_not_have_is_said_to_be_not_found(
    fake: MakeFake, old_driver: Path
) -> None:
    machine = fake(H100, library=old_driver).open()
    found = {f.reading.name: f.answer.fault for f in plan.probe(machine, machine.gpus[0], SteppedClock())}
    assert found["sm_active"] == "FunctionNotFound"


@pytest.mark.parametrize(
    ("status", "fault"),
    [(NOT_SUPPORTED, "NotSupported"), (DEPRECATED, "Deprecated"), (NO_PERMISSION, "NoPermission")],
)
def test_a_refused_call_is_dropped_by_its_name_and_the_others_stay(
    fake: MakeFake, status: int, fault: str
) -> None:
    driver = fake()
    driver.fault("ClockInfo", status)
    machine = driver.open()
    found = {f.reading.name: f.answer.fault for f in plan.probe(machine, machine.gpus[0], SteppedClock())}
    assert (found["sm_mhz"], found["mem_mhz"], found["util"]) == (fault, fault, None)


def test_a_field_that_stops_answering_is_null_and_only_that_one(fake: MakeFake) -> None:
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


def test_a_pstate_that_the_driver_does_not_know_is_null(fake: MakeFake) -> None:
    driver = fake()
    driver.state.gpus[0].pstate = 32
    assert sample(driver, 0.01, ["pstate", "power_limit_w"]) == [[None, 700_000]]


@pytest.mark.parametrize("bits", [32, 0, 64])  # 0: sent as 64 bits, but it wraps at 32
def test_byte_counters_give_the_rate_also_where_they_wrap(fake: MakeFake, bits: int) -> None:
    driver = fake()
    gpu = driver.state.gpus[0]
    gpu.pcie_bits, gpu.pcie_rx_rate, gpu.pcie_tx_rate = bits, 25_000 * MIB, 3 * MIB
    gpu.nvlink_rx_rate, gpu.nvlink_tx_rate, gpu.counter_start = 300_000 * MIB, 5 * MIB, 2**32 - 10 * MIB
    rows = sample(driver, 1, ["pcie_rx_mib_s", "pcie_tx_mib_s", "nvlink_rx_mib_s", "nvlink_tx_mib_s"])
    assert rows[0] == [None] * 4
    for row in rows[1:]:
        assert [(value or 0) / 1024 for value in row] == pytest.approx([25_000, 3, 300_000, 5], abs=0.2)


def rates(
    bytes_a_count: int, readings: Sequence[tuple[float, int | None]], narrow: bool = False
) -> list[int | None]:
    """KiB a second of a counter that was read at these seconds."""
    made, seen = Rates([Counter(0, bytes_a_count, narrow)]), []
    for second, value in readings:
        row = [value]
        made.into(row, round(second * SECOND))
        seen += row
    return seen


def test_a_counter_that_may_have_gone_round_twice_gives_no_rate() -> None:
    assert rates(1, [(1, 0), (2, 1024)], narrow=True) == [None, None]
    assert rates(1, [(1, 0), (2, 1024)], narrow=False) == [None, 1]


def test_a_counter_that_begins_anew_gives_no_rate_that_no_link_could_reach() -> None:
    assert rates(1024, [(1, 2**40), (1.01, 5), (2.01, 1029)]) == [None, None, 1024]


def test_after_a_null_a_rate_starts_again_without_bridging_the_gap() -> None:
    assert rates(1, [(1, 0), (2, 1024), (3, None), (4, 9999), (5, 9999 + 2048)]) == [None, 1, None, None, 2]


def test_two_readings_at_one_moment_have_no_rate_between_them() -> None:
    assert rates(1, [(1, 0), (1, 1024)]) == [None, None]


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


def test_mig_instances_are_gpus_of_their_own_with_what_they_can_tell(fake: MakeFake) -> None:
    driver = fake()
    driver.state.gpus[0].mig_count = 2
    machine = driver.open()
    assert [(gpu.index, gpu.uuid, gpu.parent) for gpu in machine.gpus][1:] == [
        ("0:0", "MIG-0-0", "0"),
        ("0:1", "MIG-0-1", "0"),
    ]
    assert machine.gpus[1].memory_total_mib == 81920 // 4
    had = {f.reading.name for f in plan.probe(machine, machine.gpus[1], SteppedClock()) if f.pace is not None}
    assert had == {"mem_used_mib", "power_limit_w", "ecc", "sm_active", "tensor_active", "dram_active"}


def test_mig_activity_is_sampled_from_the_gpu_that_it_is_part_of(fake: MakeFake) -> None:
    driver = fake()
    driver.state.gpus[0].mig_count = 1
    driver.power([(150 * MS, 700_000), (50 * MS, 100_000)])
    assert sample(driver, 0.6, ["sm_active"], hz=5, gpu=1) == [[None], [7500], [7500]]


def test_an_xid_is_reported_with_its_gpu_and_meaning(fake: MakeFake) -> None:
    driver = fake(H100, H100)
    machine = driver.open()
    heard: queue.Queue[tuple[str, str, dict[str, object]]] = queue.Queue()
    machine.listen(lambda kind, text, **facts: heard.put((kind, text, facts)))
    driver.xid(79, gpu=1)
    assert heard.get() == (
        "xid",
        "Xid 79 on GPU 1: the GPU has fallen off the bus",
        {"gpu": "1", "xid": 79},
    )
    driver.xid(999, gpu=0)
    assert heard.get()[1] == "Xid 999 on GPU 0"
    machine.close()


class Recording:
    """The loop over a fake driver, both on a clock that the test moves."""

    def __init__(self, driver: FakeNvml, hz: float = 100.0) -> None:
        self.driver, self.rows = driver, Rows()
        self.clock = SteppedClock(self._moved)
        self.events: list[tuple[str, str]] = []
        self.machine: Nvml = driver.open()
        self.plan = plan.make(self.machine, self.machine.gpus, hz, self.clock)
        self.cost = SamplingCost(round(SECOND / hz))
        self.loop = Loop(
            self.machine,
            self.plan,
            self.rows,
            self.clock,
            cost=self.cost,
            budget=Budget(self.plan, self._report, Spending()),
            turn=Turn(),
            report=self._report,
        )

    def run(self, seconds: float) -> None:
        self.loop.run(until=self.clock.monotonic() + round(seconds * SECOND))

    def power(self, gpu: str) -> list[int | None]:
        columns = self.plan.tiers[0].tier.columns
        return self.rows.column(next(i for i, c in enumerate(columns) if (c.name, c.gpu) == ("power_w", gpu)))

    def _moved(self, now: int) -> None:
        self.driver.state.now_ns = now

    def _report(self, kind: str, text: str, **_: object) -> None:
        self.events.append((kind, text))


def test_a_lost_gpu_is_null_until_it_is_back_and_the_other_is_undisturbed(fake: MakeFake) -> None:
    driver = fake(H100, H100)
    recording = Recording(driver)
    recording.run(3)
    driver.state.gpus[1].gone = GPU_IS_LOST
    recording.run(5)
    driver.state.gpus[1].gone = 0
    recording.run(5)
    lost = [i for i, value in enumerate(recording.power("1")) if value is None]
    assert lost == list(range(300, lost[-1] + 1))
    assert 500 <= len(lost) <= 601
    assert set(recording.power("0")) == {300_000}
    assert recording.events == [
        ("gpu_lost", "GPU 1 does not answer: GpuIsLost"),
        ("gpu_back", "GPU 1 answers again"),
    ]
    assert recording.cost.ticks == 1300


def test_after_a_driver_restart_all_gpus_come_back_by_their_uuids(fake: MakeFake) -> None:
    driver = fake(H100, A100)
    recording = Recording(driver)
    recording.run(2)
    driver.restart_driver()
    recording.run(3)
    assert [kind for kind, _ in recording.events] == ["gpu_lost", "gpu_lost", "gpu_back", "gpu_back"]
    assert recording.power("0")[-1] == recording.power("1")[-1] == 300_000
    assert driver.calls()["Init"] == 2


def test_a_gpu_that_does_not_answer_while_it_is_probed_joins_later(fake: MakeFake) -> None:
    driver = fake(H100, H100)
    machine = driver.open()
    driver.state.gpus[1].gone = GPU_IS_LOST
    clock, rows = SteppedClock(lambda now: setattr(driver.state, "now_ns", now)), Rows()
    made = plan.make(machine, machine.gpus, 100, clock)
    events: list[str] = []
    loop = Loop(
        machine,
        made,
        rows,
        clock,
        cost=SamplingCost(10 * MS),
        budget=Budget(made, print, Spending()),
        turn=Turn(),
        report=lambda kind, *_, **__: events.append(kind),
    )
    loop.run(until=clock.now + 2 * SECOND)
    driver.state.gpus[1].gone = 0
    loop.run(until=clock.now + 3 * SECOND)
    columns = made.tiers[0].tier.columns
    second = next(i for i, c in enumerate(columns) if (c.name, c.gpu) == ("power_w", "1"))
    assert rows.column(second)[0] is None
    assert rows.column(second)[-1] == 300_000
    assert events == ["gpu_back"]


def test_three_hundred_seconds_of_eight_gpus_are_sampled_without_a_sleep(fake: MakeFake) -> None:
    driver = fake(*[H100] * 8)
    driver.power(STEPS, gpu=5)
    recording = Recording(driver, hz=10)
    recording.run(300)
    assert len(recording.rows.stamps()) == 3000
    columns = recording.plan.tiers[0].tier.columns
    energy = next(i for i, c in enumerate(columns) if (c.name, c.gpu) == ("energy_j", "5"))
    counted = numbers(recording.rows.column(energy))
    stamps = recording.rows.stamps()
    exact = truth(STEPS, stamps[0] // (20 * MS) * 20 * MS, stamps[-1] // (20 * MS) * 20 * MS)
    assert (counted[-1] - counted[0]) / 1000 == pytest.approx(exact, abs=0.02)


def test_a_dead_handle_is_a_lost_gpu_also_for_a_probe(fake: MakeFake) -> None:
    driver = fake()
    machine = driver.open()
    driver.state.gpus[0].gone = GPU_IS_LOST
    with pytest.raises(GpuLost, match="GpuIsLost"):
        machine.probe(machine.gpus[0], READINGS[0])
