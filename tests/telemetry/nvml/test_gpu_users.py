"""Who uses a GPU, by the driver's lists of processes."""

import pytest

from gputel.telemetry.machine import GpuUser, GpuUsers
from gputel.telemetry.nvml.gpu_users import UNKNOWN_BYTES
from gputel.telemetry.nvml.library import UNAVAILABLE
from tests.fake_nvml import H100, MIB, NOT_SUPPORTED, FakeNvml
from tests.telemetry.conftest import MakeFake

pytestmark = pytest.mark.needs("cc")


def users(driver: FakeNvml, *seconds: float, gpu: int = 0) -> GpuUsers:
    """The last of the answers at these moments."""
    machine = driver.open()
    answers = []
    for at in seconds:
        driver.at(at)
        answers.append(machine.users(machine.gpus[gpu], driver.state.now_ns))
    return answers[-1]


def test_users_are_the_processes_of_each_gpu_with_their_memory_and_share(fake: MakeFake) -> None:
    driver = fake(H100, H100)
    driver.use(41, 700 * MIB, 95)
    driver.use(42, 80 * MIB, graphics=True)
    driver.use(43, 5 * MIB, 7, gpu=1)
    assert users(driver, 60) == GpuUsers((GpuUser(41, 700 * MIB, 95), GpuUser(42, 80 * MIB, None)))
    assert users(driver, 60, gpu=1) == GpuUsers((GpuUser(43, 5 * MIB, 7),))


def test_process_without_a_new_sample_rests_only_if_it_ever_had_one(fake: MakeFake) -> None:
    """In a container the samples may have other numbers than the list: none of them is of a listed process."""
    driver = fake()
    driver.use(41, MIB, 80)
    driver.use(42, MIB)
    machine = driver.open()
    driver.at(60)
    machine.users(machine.gpus[0], 0)
    driver.use(41, MIB, 0)
    assert machine.users(machine.gpus[0], 0).users == (GpuUser(41, MIB, 0), GpuUser(42, MIB, None))


def test_share_is_the_mean_of_the_samples_since_the_last_look(fake: MakeFake) -> None:
    driver = fake()
    driver.use(41, MIB, 80)
    machine = driver.open()
    driver.at(60)
    machine.users(machine.gpus[0], 0)
    driver.use(41, MIB, 20)
    driver.at(62)
    assert machine.users(machine.gpus[0], 0).users == (GpuUser(41, MIB, 20),)


def test_memory_that_the_driver_does_not_know_and_a_share_above_100_are_null(fake: MakeFake) -> None:
    driver = fake()
    driver.use(41, UNKNOWN_BYTES, UNAVAILABLE)
    assert users(driver, 60).users == (GpuUser(41, None, None),)


def test_list_that_is_refused_says_why(fake: MakeFake) -> None:
    driver = fake()
    driver.fault("Processes", NOT_SUPPORTED)
    assert users(driver, 60) == GpuUsers((), "NotSupported")


def test_share_that_is_refused_is_null_and_the_memory_stays(fake: MakeFake) -> None:
    driver = fake()
    driver.use(41, MIB, 80)
    driver.fault("ProcessUtilization", NOT_SUPPORTED)
    assert users(driver, 60).users == (GpuUser(41, MIB, None),)


def test_older_driver_lists_its_users_too(fake: MakeFake, old_driver: object) -> None:
    driver = fake(H100, library=old_driver)
    driver.use(41, MIB, 80)
    assert users(driver, 60).users == (GpuUser(41, MIB, 80),)


def test_gpu_with_mig_instances_has_the_users_of_each_instance(fake: MakeFake) -> None:
    driver = fake()
    driver.state.gpus[0].mig_count = 1
    driver.use(41, MIB, 80)
    assert users(driver, 60).fault == "asked of its MIG instances"
    assert users(driver, 60, gpu=1).users == (GpuUser(41, MIB, None),)
