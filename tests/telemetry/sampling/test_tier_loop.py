"""A tier that is not read on every tick lets the next tick come first, and asks each GPU once for a row."""

import itertools
import random

import pytest

from gputel.telemetry.machine import Gpu
from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.budget import Budget
from gputel.telemetry.sampling.cost import SamplingCost, TierCount
from gputel.telemetry.sampling.loop import Loop
from gputel.telemetry.sampling.tier_loop import GpuShare, TierLoop
from gputel.telemetry.sampling.watchdog import Turn
from tests.fake_nvml import GPU_IS_LOST, H100
from tests.telemetry.conftest import MakeFake, Rows, Spending, SteppedClock
from tests.telemetry.nvml.driver import Recording
from tests.telemetry.sampling.test_plan import Priced, PricedReader

MS, SECOND = 1_000_000, 1_000_000_000


def dear(fake: MakeFake, gpus: int, hz: float = 100.0) -> Recording:
    """GPUs whose energy counters take 4.4 ms each, as in a virtual machine."""
    driver = fake(*[H100] * gpus)
    driver.at(60)
    driver.cost_as_in_a_virtual_machine()
    return Recording(driver, hz, max_overhead=0.05)


@pytest.mark.needs("cc")
def test_slow_readings_of_eight_gpus_make_no_tick_late_and_a_row_has_the_time_of_its_first_gpu(
    fake: MakeFake,
) -> None:
    recording = dear(fake, 8)
    recording.run(5)
    assert (recording.cost.late, recording.cost.missed) == (0, 0)
    assert [len(recording.rows.stamps(number)) for number in range(4)] == [500, 167, 25, 5]
    rows = [(deadline, stamp) for tier, deadline, stamp, _ in recording.rows.rows if tier == 3]
    assert all(0 <= stamp - deadline < 10 * MS for deadline, stamp in rows)
    assert {b - a for (a, _), (b, _) in itertools.pairwise(rows[1:])} == {SECOND}


@pytest.mark.needs("cc")
def test_slow_read_at_1000_hz_delays_a_tick_by_one_gpu_and_not_by_all(fake: MakeFake) -> None:
    recording = dear(fake, 8, hz=1000.0)
    recording.run(1)
    assert recording.cost.lateness.most < 10 * MS  # 38 for all
    assert len(recording.rows.stamps(3)) == 1


@pytest.mark.needs("cc")
@pytest.mark.parametrize("seed", range(3))
def test_gpus_that_come_and_go_during_a_read_leave_no_value_that_they_did_not_give(
    fake: MakeFake, seed: int
) -> None:
    recording, chance = dear(fake, 8), random.Random(seed)
    for _ in range(200):
        recording.run(0.03)
        gpu = chance.choice(recording.driver.gpus)
        gpu.gone = 0 if gpu.gone else GPU_IS_LOST * (chance.random() < 0.2)
    columns = recording.plan.tiers[3].tier.columns
    for place in (place for place, column in enumerate(columns) if column.name == "energy_j"):
        values = [value for value in recording.rows.column(place, 3) if value is not None]
        assert values
        assert values[0] > 0
        assert values == sorted(values)


class Machine:
    """Two GPUs on a clock of the test, whose memory errors take 6 ms each."""

    def __init__(self) -> None:
        self.clock, self.rows = SteppedClock(), Rows()
        gpus = tuple(Gpu(str(i), "priced", f"GPU-{i}", None) for i in range(2))
        machine = Priced(self.clock, {"ecc": 6 * MS}, gpus)
        made = plan.make(machine, gpus, 100, self.clock, max_overhead=1.0)
        self.loop = Loop(
            machine,
            made,
            self.rows,
            self.clock,
            cost=SamplingCost(10 * MS),
            budget=Budget(made, print, Spending()),
            turn=Turn(),
            report=print,
        )


def test_read_waits_for_a_quarter_of_its_interval_at_most_where_all_ticks_are_late() -> None:
    machine = Machine()
    machine.clock.jumps = [12 * MS] * 2000
    machine.loop.run(machine.clock.now + 10 * SECOND)
    assert len(machine.rows.stamps(2)) in (10, 11)


def share(index: int) -> GpuShare:
    gpu = Gpu(str(index), "priced", f"GPU-{index}", None)
    reader = PricedReader(Priced(SteppedClock(), {}, (gpu,)), ["ecc"])
    return GpuShare(gpu, (), reader, ())


def test_gpu_that_comes_back_during_a_read_is_asked_in_it_and_no_other_twice() -> None:
    parts = [share(index) for index in range(3)]
    tier = TierLoop(0, 0, 100, MS, parts, TierCount())
    tier.arrange()
    del tier.left[:2]  # two were asked
    parts[0].reader = None
    tier.arrange()
    assert [read.place for read in tier.left] == [2]
    parts[0].reader = share(0).reader
    tier.arrange()
    assert [read.place for read in tier.left] == [0, 2]
