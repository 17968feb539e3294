"""Looks at the users of GPUs between the ticks of the loop."""

import pytest

from gputel.telemetry.clock import SECOND
from gputel.telemetry.machine import GpuUser, UserLook
from gputel.telemetry.nvml.devices import Nvml
from gputel.telemetry.sampling.gpu_users import EVERY, UserLooks
from tests.fake_nvml import H100, MIB, MS, FakeNvml
from tests.telemetry.conftest import MakeFake
from tests.telemetry.nvml.driver import DriverClock

pytestmark = pytest.mark.needs("cc")


class Looking:
    """Looks at a fake driver's GPUs on its clock."""

    def __init__(self, driver: FakeNvml) -> None:
        driver.at(60)
        self.machine: Nvml = driver.open()
        self.clock, self.latest = DriverClock(driver), dict[str, UserLook]()
        self.looks = UserLooks(self.machine, self.machine.gpus, self.clock, self.latest)

    def look(self, seconds: int) -> list[str]:
        """The GPUs that are asked, one a second at most."""
        asked = []
        for _ in range(seconds):
            if (gpu := self.looks.due(self.clock.monotonic(), ())) is not None:
                self.looks.ask(gpu)
                asked.append(gpu.index)
            self.clock.advance(SECOND)
        return asked


def test_gpus_are_asked_in_turn_and_each_every_five_seconds(fake: MakeFake) -> None:
    looking = Looking(fake(H100, H100))
    assert looking.look(10) == ["0", "1", "0", "1"]
    assert Looking(fake(*[H100] * 8)).look(10) == [*"0123456701"]


def test_gpu_whose_driver_answers_slowly_is_asked_rarely(fake: MakeFake) -> None:
    driver = fake()
    driver.slow("Processes", 20 * MS)
    assert Looking(driver).look(60) == ["0", "0"]


def test_answer_stands_until_well_past_the_next_look(fake: MakeFake) -> None:
    driver = fake()
    driver.use(41, MIB)
    looking = Looking(driver)
    began = looking.clock.monotonic()
    looking.look(1)
    assert looking.latest["0"].users.users == (GpuUser(41, MIB, None),)
    assert looking.latest["0"].until == began + 4 * EVERY


def test_gpu_that_is_lost_has_no_users_and_says_why(fake: MakeFake) -> None:
    driver = fake()
    looking = Looking(driver)
    driver.restart_driver()
    looking.look(1)
    assert looking.latest["0"].users == ((), "Uninitialized")
