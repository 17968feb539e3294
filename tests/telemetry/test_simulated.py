"""A simulated machine has the physics that it claims: exact energy, windowed sensors, readings that it lacks."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.errors import GputelError
from gputel.telemetry.readings import BY_NAME
from gputel.telemetry.sampling import plan
from gputel.telemetry.simulated import KINDS, MS, Sensor, Simulated, Waveform, open_machine, training, wobble
from tests.telemetry.conftest import SteppedClock

SECOND = 1_000_000_000
stretches = st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 1)), min_size=1, max_size=8)


@given(stretches, st.integers(0, 5000))
def test_integral_is_the_sum_over_every_nanosecond(
    given_stretches: list[tuple[int, float]], until: int
) -> None:
    waveform = Waveform(given_stretches)
    levels = [level for duration, level in given_stretches for _ in range(duration)]
    total = sum(levels[at % len(levels)] for at in range(until))
    assert waveform.integral(until) == pytest.approx(total, rel=1e-9, abs=1e-9)


def test_sensor_with_a_short_window_misses_what_happens_beside_it() -> None:
    sensor, load = Sensor(25 * MS, 100 * MS), Waveform([(75 * MS, 1.0), (25 * MS, 0.0)])
    assert [load.mean(*sensor.span(number)) for number in range(1, 4)] == [0, 0, 0]


def test_noise_is_the_same_on_every_machine() -> None:
    assert [round(wobble(seed), 6) for seed in (1, 2, 3)] == [round(wobble(seed), 6) for seed in (1, 2, 3)]
    assert -1 <= min(map(wobble, range(1000))) < -0.9
    assert 0.9 < max(map(wobble, range(1000))) <= 1


def recorded(kind: str, names: list[str], seconds: float, every: int = 10 * MS) -> list[list[int | None]]:
    clock = SteppedClock()
    machine = open_machine(kind, clock)
    reader = machine.reader(machine.gpus[0], [BY_NAME[name] for name in names])
    rows = []
    for _ in range(round(seconds * SECOND / every)):
        clock.advance(every)
        reader.ask()
        rows.append(list(reader.answer(clock.monotonic())))
    return rows


def test_power_refreshes_ten_times_a_second_on_an_h100_and_fifty_times_on_a_v100() -> None:
    for kind, refreshes in (("H100", 10), ("V100", 50)):
        power = [row[0] for row in recorded(kind, ["power_w"], 60)]
        changes = sum(before != after for before, after in itertools.pairwise(power))
        assert changes == pytest.approx(refreshes * 60, rel=0.02)


def test_energy_agrees_with_power_integrated_apart_from_what_the_sensor_does_not_see() -> None:
    rows = recorded("H100", ["power_w", "energy_j"], 120)
    power = [row[0] or 0 for row in rows]
    counted = (rows[-1][1] or 0) - (rows[0][1] or 0)
    integral = sum(power[1:]) * 10 / 1000
    assert integral == pytest.approx(counted, rel=0.02)


def test_energy_is_the_load_between_idle_and_limit_by_an_integral_of_its_own() -> None:
    clock = SteppedClock()
    machine = Simulated("one", ["H100"], clock, Waveform([(300 * MS, 1.0), (200 * MS, 0.0)]))
    reader = machine.reader(machine.gpus[0], [BY_NAME["energy_j"]])
    clock.advance(50 * SECOND)
    high = 72 + (700 - 72) * 0.985
    assert list(reader.answer(clock.monotonic())) == pytest.approx([(high * 30 + 72 * 20) * 1000], abs=2)


def test_gpu_warms_up_with_a_lag_and_stays_below_its_limit() -> None:
    temperatures = [row[0] or 0 for row in recorded("H100", ["temp_c"], 90)]
    assert temperatures[0] < 32
    assert 55 < temperatures[-1] < 85
    assert max(abs(a - b) for a, b in itertools.pairwise(temperatures)) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_reading_that_a_kind_lacks_is_not_supported_and_null(kind: str) -> None:
    clock = SteppedClock()
    machine = open_machine(kind, clock)
    findings = {f.reading.name: f for f in plan.probe(machine, machine.gpus[0], clock)}
    assert {name for name, f in findings.items() if f.answer.fault == "NotSupported"} == set(
        KINDS[kind].lacks
    )
    reader = machine.reader(machine.gpus[0], [BY_NAME[name] for name in KINDS[kind].lacks])
    assert set(reader.answer(clock.monotonic())) <= {None}


def test_gb10_has_no_memory_power_limit_or_energy_of_its_own() -> None:
    assert {"mem_used_mib", "power_limit_w", "energy_j"} <= set(KINDS["GB10"].lacks)
    assert open_machine("GB10", SteppedClock()).gpus[0].memory_total_mib is None


def test_count_of_gpus_gives_that_many_out_of_step() -> None:
    clock = SteppedClock()
    machine = open_machine("4xh100-pcie", clock)
    assert [gpu.index for gpu in machine.gpus] == ["0", "1", "2", "3"]
    clock.advance(30 * SECOND)
    readers = [machine.reader(gpu, [BY_NAME["power_w"]]) for gpu in machine.gpus]
    assert len({reader.answer(clock.monotonic())[0] for reader in readers}) == 4


@pytest.mark.parametrize("wanted", ["", "B300", "0xH100", "99xH100", "2xH100,", "H100 H100"])
def test_unknown_gpu_is_refused_with_the_names_of_the_known_ones(wanted: str) -> None:
    with pytest.raises(GputelError, match=r"--simulate: .*H100, H100-PCIe, H200, A100, V100, GB10"):
        open_machine(wanted, SteppedClock())


def test_training_that_is_simulated_has_idle_stretches_steps_and_an_evaluation() -> None:
    load = training()
    levels = {load.level(at) for at in range(0, load.period, 10 * MS)}
    assert min(levels) < 0.1
    assert max(levels) == 1.0
    assert 0.78 in levels
