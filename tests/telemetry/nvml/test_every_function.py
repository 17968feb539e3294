"""Whatever a driver answers: a null, an event or a line comes of it, and nothing else."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputel.telemetry.errors import GputelError
from gputel.telemetry.machine import GpuLost, UserLook
from gputel.telemetry.nvml import devices, library
from gputel.telemetry.nvml.library import FAULTS, LOST, error_name
from gputel.telemetry.readings import READINGS
from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.budget import Budget
from gputel.telemetry.sampling.cost import SamplingCost
from gputel.telemetry.sampling.gpu_users import UserLooks
from gputel.telemetry.sampling.loop import Loop
from gputel.telemetry.sampling.watchdog import Turn
from tests.fake_nvml.every_function import ERRORS, FUNCTIONS, NEWER, NOT_SUPPORTED, OUTPUTS, EveryFunction
from tests.telemetry.conftest import Rows, Spending, SteppedClock

pytestmark = pytest.mark.needs("cc")
SECOND, INT64 = 1_000_000_000, 1 << 63
NOT_OF_A_GPU = ("nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetCount_v2", "nvmlSystemGetDriverVersion")
KNOWN = {
    *LOST,
    *FAULTS,
    *(library.NOT_SUPPORTED, library.NOT_FOUND, library.NO_SAMPLES, library.INSUFFICIENT_SIZE),
    *(library.UNKNOWN, library.TIMEOUT),
}
"""Codes that gputel tells from each other."""
OTHERS = [*sorted({*ERRORS} - KNOWN), 31337]
Row = list[int | None]


def errors_of(function: str) -> list[int]:
    """Each code that gputel knows, and three of the others in turn: those differ in their names alone."""
    turn = sorted(OUTPUTS).index(function) * 3
    return [*sorted(KNOWN), *(OTHERS[(turn + n) % len(OTHERS)] for n in range(3))]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> EveryFunction:
    return EveryFunction(tmp_path_factory.mktemp("every-function"))


@pytest.fixture
def driver(built: EveryFunction) -> Iterator[EveryFunction]:
    built.reset()
    yield built
    built.reset()


class Run:
    """A machine that is opened, planned, listened to and sampled on a clock of its own."""

    def __init__(self, driver: EveryFunction) -> None:
        self.events: list[tuple[str, str]] = []
        self.clock, self.rows = SteppedClock(), Rows()
        self.machine = driver.open()
        self.plan = plan.make(self.machine, self.machine.gpus, 10, self.clock)
        self.machine.listen(self.report)
        self.users: dict[str, UserLook] = {}
        self.loop = Loop(
            self.machine,
            self.plan,
            self.rows,
            self.clock,
            cost=SamplingCost(SECOND // 10),
            budget=Budget(self.plan, self.report, Spending()),
            turn=Turn(),
            report=self.report,
            users=UserLooks(self.machine, self.machine.gpus, self.clock, self.users),
        )

    def report(self, kind: str, text: str, **_: object) -> None:
        self.events.append((kind, text))

    def sample(self, seconds: float) -> list[Row]:
        """The rows of the fast tier."""
        before = len(self.rows.rows)
        self.loop.run(until=self.clock.now + round(seconds * SECOND))
        rows = self.rows.rows[before:]
        assert all(value is None or is_integer(value) for *_, values in rows for value in values)
        return [values for tier, _, _, values in rows if tier == 0]

    def close(self) -> None:
        self.machine.close()
        assert {kind for kind, _ in self.events} <= {
            "gpu_lost",
            "gpu_back",
            "gpu_refused",
            "xid",
            "unknown_rate",
            "no_reading",
        }
        assert all(re.match(r"(not recorded: )?GPU [\d:, ]+|Xid \d+ on ", text) for _, text in self.events)


def is_integer(value: int) -> bool:
    return type(value) is int and -INT64 <= value < INT64


def faults(run: Run) -> set[str]:
    return {finding.answer.fault for finding in run.plan.findings if finding.answer.fault}


def test_library_has_every_function_that_the_declarations_name(built: EveryFunction) -> None:
    symbols = subprocess.run(
        ["nm", "-D", str(built.library)], capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r" T (nvml\w+)", symbols)) == set(FUNCTIONS)
    assert len(FUNCTIONS) > 400


def test_each_function_that_is_called_has_its_outputs_declared(driver: EveryFunction) -> None:
    for name in NEWER:
        driver.set_status(name, NOT_SUPPORTED)
    Run(driver).close()
    for name in NEWER:
        driver.set_status(name, 0)
    driver.set_status("nvmlDeviceGetMigMode", 0)
    run = Run(driver)
    run.machine.revive(run.machine.gpus[0])
    run.sample(3)
    run.close()
    never = {name for name in set(OUTPUTS) - driver.called() if not name.endswith("Processes_v2")}
    assert driver.called() <= set(OUTPUTS)
    assert never <= {"nvmlShutdown", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption"}


@pytest.mark.parametrize(
    "function", sorted(OUTPUTS.keys() - {"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetCount_v2"})
)
def test_error_of_a_function_is_a_null_with_its_name_or_a_lost_gpu(
    driver: EveryFunction, function: str
) -> None:
    """Before the start; the other functions go on."""
    for status in errors_of(function):
        driver.reset()
        driver.set_status(function, status)
        run = Run(driver)
        run.sample(0.5)
        run.close()
        assert faults(run) <= {error_name(status), "NotSupported"}
        if function == "nvmlDeviceGetComputeRunningProcesses_v3" and run.users:
            assert {look.users.fault for look in run.users.values()} == {error_name(status)}
        if status not in LOST and function.startswith("nvmlDeviceGetHandle") is False and run.machine.gpus:
            planned = sum(len(tier.tier.columns) for tier in run.plan.tiers)
            assert planned >= 2 * (len(READINGS) - 10), (function, status)


@pytest.mark.parametrize("function", sorted(OUTPUTS.keys() - {*NOT_OF_A_GPU}))
def test_error_in_the_middle_is_over_when_the_driver_answers_again(
    driver: EveryFunction, function: str
) -> None:
    run = Run(driver)
    before = run.sample(3)[-1]
    for status in errors_of(function):
        driver.set_status(function, status)
        run.sample(0.5)
    driver.reset()
    assert run.sample(5)[-1] == before
    run.close()
    assert [kind for kind, _ in run.events].count("gpu_lost") == [kind for kind, _ in run.events].count(
        "gpu_back"
    )


@pytest.mark.parametrize("status", [-5, 2, 10, 13, 17, 22, 31337])
def test_error_of_all_calls_is_a_null_everywhere_and_one_event_for_each_reading(
    driver: EveryFunction, status: int
) -> None:
    """Of codes that do not say that the GPU is lost; one of them is negative, as no success is."""
    run = Run(driver)
    before = run.sample(3)[-1]
    for function in sorted(OUTPUTS.keys() - {*NOT_OF_A_GPU}):
        driver.set_status(function, status)
    assert {value for row in run.sample(3)[1:] for value in row} == {None}
    missing = [text for kind, text in run.events if kind == "no_reading"]
    assert all(text.endswith(f": the driver answers {error_name(status)}") for text in missing)
    named = [name for text in missing for name in text.split(": ")[1].removeprefix("no ").split(", ")]
    assert sorted(named) == sorted({c.name for tier in run.plan.tiers for c in tier.tier.columns})
    driver.reset()
    assert run.sample(5)[-1] == before
    run.close()


def test_error_of_the_fields_alone_is_an_event_too(driver: EveryFunction) -> None:
    run = Run(driver)
    run.sample(2)
    assert run.events == []
    driver.state.field_status = 17
    run.sample(2)
    (text,) = (text for kind, text in run.events if kind == "no_reading" and "power_w" in text)
    assert text.startswith("GPU 0, 1: no ")
    assert "util" not in text
    run.close()


@pytest.mark.parametrize("kind", range(9))
@pytest.mark.parametrize("fill", [0x00, 0x7F, 0x80, 0xFE, 0xFF])
def test_values_at_their_limits_are_numbers_or_null(driver: EveryFunction, fill: int, kind: int) -> None:
    """Of each type of value, and two that no declaration has."""
    driver.state.fill, driver.state.field_type = fill, kind
    run = Run(driver)
    rows = run.sample(3)
    run.close()
    if fill == 0xFF:  # NVML_VALUE_NOT_AVAILABLE
        named = [column.name for column in run.plan.tiers[0].tier.columns]
        unavailable = {name for name, value in zip(named, rows[-1], strict=False) if value is None}
        assert {"util", "sm_mhz", "mem_used_mib", "throttle"} <= unavailable


@pytest.mark.parametrize("function", ["nvmlInit_v2", "nvmlDeviceGetCount_v2"])
def test_error_of_the_start_is_one_line_with_a_hint(
    driver: EveryFunction, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_open", lambda: driver.loaded)
    for status in ERRORS:
        driver.set_status(function, status)
        with pytest.raises(GputelError) as error:
            devices.open_machine()
        assert (error.value.place, error.value.exit_code) == ("NVML", 1)
        assert error_name(status) in error.value.fault or error.value.fault in {f for f, _ in FAULTS.values()}
        assert error.value.hint


def test_each_error_of_a_field_or_a_metric_is_a_null_with_its_name(driver: EveryFunction) -> None:
    for status in ERRORS:
        driver.state.field_status = status
        run = Run(driver)
        assert faults(run) <= {error_name(status), "NotSupported"}
        driver.state.field_status = 0
        run.close()


def test_older_driver_has_fewer_readings_and_no_surprise(tmp_path: Path) -> None:
    older = EveryFunction(tmp_path, NEWER)
    run = Run(older)
    rows = run.sample(2)
    run.close()
    sources = {finding.reading.name: finding.answer.source for finding in run.plan.findings}
    assert sources["temp_c"] == "nvmlDeviceGetTemperature"
    assert sources["sm_active"] is None
    assert rows
    assert faults(run) == {"FunctionNotFound"}


def test_driver_that_knows_only_other_versions_of_a_struct_loses_that_source_alone(
    driver: EveryFunction,
) -> None:
    for function in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetMemoryInfo_v2"):
        driver.set_status(function, 25)
    run = Run(driver)
    sources = {finding.reading.name: finding.answer.source for finding in run.plan.findings}
    assert sources["temp_c"] == "nvmlDeviceGetTemperature"
    assert sources["mem_used_mib"] == "nvmlDeviceGetMemoryInfo used"
    run.close()


def test_handle_that_is_dead_is_a_lost_gpu(driver: EveryFunction) -> None:
    machine = driver.open()
    for status in LOST:
        driver.set_status("nvmlDeviceGetFieldValues", status)
        with pytest.raises(GpuLost, match=error_name(status)):
            machine.probe(machine.gpus[0], READINGS[0])
    machine.close()
