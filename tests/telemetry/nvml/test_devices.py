"""The real machine: sources, faults, MIG, GPUs that are lost and come back."""

import contextlib
from pathlib import Path

import pytest

from gputel.telemetry.machine import GpuLost
from gputel.telemetry.nvml import devices
from gputel.telemetry.readings import READINGS
from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.budget import Budget
from gputel.telemetry.sampling.cost import SamplingCost
from gputel.telemetry.sampling.loop import Loop
from gputel.telemetry.sampling.watchdog import Turn
from tests.fake_nvml import (
    A100,
    DEPRECATED,
    GB10,
    GPU_IS_LOST,
    H100,
    MS,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SECOND,
    V100,
)
from tests.recordings import until
from tests.telemetry.conftest import MakeFake, Rows, Spending, SteppedClock
from tests.telemetry.nvml.driver import STEPS, Recording, numbers, truth

pytestmark = pytest.mark.needs("cc")


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [
        (H100, {"fan"}),
        (A100, {"fan", "sm_active", "tensor_active", "dram_active"}),
        (GB10, {"fan", "mem_used_mib", "power_limit_w", "energy_j", "temp_mem_c", "ecc", "remapped_rows"}),
    ],
)
def test_missing_reading_is_left_out_of_the_plan_with_its_reason(
    fake: MakeFake, kind: str, lacks: set[str]
) -> None:
    machine = fake(kind).open()
    findings = plan.probe(machine, machine.gpus[0], SteppedClock())
    missing = {f.reading.name: f.answer.fault for f in findings if f.pace is None}
    assert lacks <= set(missing)
    assert set(missing.values()) == {"NotSupported"}


def test_next_source_is_used_if_the_preferred_one_is_missing(fake: MakeFake, old_driver: Path) -> None:
    """A driver without the newest functions, and a GPU without the newest fields."""
    machine = fake(V100, library=old_driver).open()
    sources = {f.reading.name: f.answer.source for f in plan.probe(machine, machine.gpus[0], SteppedClock())}
    assert sources["power_w"] == "nvmlDeviceGetPowerUsage"
    assert sources["temp_c"] == "nvmlDeviceGetTemperature"
    assert sources["throttle"] == "nvmlDeviceGetCurrentClocksThrottleReasons"
    assert sources["mem_used_mib"] == "nvmlDeviceGetMemoryInfo used"


@pytest.mark.parametrize(
    ("status", "fault"),
    [(NOT_SUPPORTED, "NotSupported"), (DEPRECATED, "Deprecated"), (NO_PERMISSION, "NoPermission")],
)
def test_refused_call_is_dropped_by_its_name_and_the_others_stay(
    fake: MakeFake, status: int, fault: str
) -> None:
    driver = fake()
    driver.fault("ClockInfo", status)
    machine = driver.open()
    faults = {f.reading.name: f.answer.fault for f in plan.probe(machine, machine.gpus[0], SteppedClock())}
    assert (faults["sm_mhz"], faults["mem_mhz"], faults["util"]) == (fault, fault, None)


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


def test_lost_gpu_is_null_until_it_is_back_and_the_other_is_undisturbed(fake: MakeFake) -> None:
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


def test_gpus_come_back_by_uuid_after_a_driver_restart(fake: MakeFake) -> None:
    driver = fake(H100, A100)
    recording = Recording(driver)
    recording.run(2)
    driver.restart_driver()
    recording.run(3)
    assert [kind for kind, _ in recording.events] == ["gpu_lost", "gpu_lost", "gpu_back", "gpu_back"]
    assert recording.power("0")[-1] == recording.power("1")[-1] == 300_000
    assert driver.calls()["Init"] == 2


def test_gpu_that_does_not_answer_while_it_is_probed_joins_later(fake: MakeFake) -> None:
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
    second = next(i for i, c in enumerate(columns) if (c.name, c.subject) == ("power_w", "1"))
    assert rows.column(second)[0] is None
    assert rows.column(second)[-1] == 300_000
    assert events == ["gpu_back"]


def test_gpu_that_hangs_while_it_is_opened_is_left_out_and_joins_later(
    fake: MakeFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "OPENING_S", 0.05)
    driver = fake(H100, A100, H100)
    driver.hang(1)
    machine = driver.open()
    events: list[tuple[str, str]] = []
    machine.listen(lambda kind, text, **_: events.append((kind, text)))
    assert [gpu.name for gpu in machine.gpus] == [H100, "unknown", H100]
    assert events == [("gpu_lost", "GPU 1 is left out: the driver has not opened it within 0.05 s")]
    left_out = machine.gpus[1]
    findings = plan.probe(machine, left_out, SteppedClock())
    assert {(f.lost, f.answer.fault) for f in findings} == {(True, "it is not open")}
    with pytest.raises(GpuLost):
        machine.revive(left_out)
    driver.state.gpus[1].hang = 0

    def revived() -> bool:
        with contextlib.suppress(GpuLost):
            machine.revive(left_out)
            return True
        return False

    until(revived, "the GPU to answer")
    assert [gpu.name for gpu in machine.gpus] == [H100, A100, H100]
    assert machine.probe(left_out, READINGS[0]).value == 300_000
    machine.close()


def test_gpu_that_does_not_answer_when_it_is_opened_joins_when_it_does(fake: MakeFake) -> None:
    """A sampler that is restarted while a GPU is off the bus would leave it out to the end."""
    driver = fake(H100, A100)
    driver.state.gpus[1].gone = GPU_IS_LOST
    recording = Recording(driver)
    recording.machine.listen(lambda kind, text, **_: recording.events.append((kind, text)))
    recording.run(2)
    driver.state.gpus[1].gone = 0

    def is_back() -> bool:
        recording.run(1)
        return recording.power("1")[-1] == 300_000

    until(is_back, "the GPU to answer")
    assert recording.events == [
        ("gpu_lost", "GPU 1 does not answer"),
        ("gpu_back", "GPU 1 answers again"),
    ]
    assert [gpu.name for gpu in recording.machine.gpus] == [H100, A100]
    assert recording.power("1")[0] is None
    recording.machine.close()


def test_gpus_that_the_driver_refuses_to_this_user_are_named_once_and_left_alone(fake: MakeFake) -> None:
    driver = fake(H100, A100, H100)
    driver.state.gpus[0].gone = driver.state.gpus[2].gone = NO_PERMISSION
    recording = Recording(driver)
    recording.machine.listen(lambda kind, text, **_: recording.events.append((kind, text)))
    recording.run(3)
    assert [gpu.name for gpu in recording.machine.gpus] == [A100]
    assert recording.events == [
        ("gpu_refused", "not recorded: GPU 0, 2, which the driver refuses to this user")
    ]
    recording.machine.close()


def test_machine_of_which_no_gpu_answers_has_none(fake: MakeFake) -> None:
    driver = fake(H100, A100)
    for gpu in driver.gpus:
        gpu.gone = GPU_IS_LOST
    assert driver.open().gpus == ()


def test_recording_of_300_s_of_eight_gpus_is_sampled_without_a_sleep(fake: MakeFake) -> None:
    driver = fake(*[H100] * 8)
    driver.power(STEPS, gpu=5)
    recording = Recording(driver, hz=10)
    recording.run(300)
    assert len(recording.rows.stamps()) == 3000
    columns = recording.plan.tiers[0].tier.columns
    energy = next(i for i, c in enumerate(columns) if (c.name, c.subject) == ("energy_j", "5"))
    counted = numbers(recording.rows.column(energy))
    stamps = recording.rows.stamps()
    exact = truth(STEPS, stamps[0] // (20 * MS) * 20 * MS, stamps[-1] // (20 * MS) * 20 * MS)
    assert (counted[-1] - counted[0]) / 1000 == pytest.approx(exact, abs=0.02)


def test_dead_handle_is_a_lost_gpu_also_for_a_probe(fake: MakeFake) -> None:
    driver = fake()
    machine = driver.open()
    driver.state.gpus[0].gone = GPU_IS_LOST
    with pytest.raises(GpuLost, match="GpuIsLost"):
        machine.probe(machine.gpus[0], READINGS[0])
