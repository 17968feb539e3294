"""The loop keeps absolute deadlines, counts what is late or missed, and fills nothing in."""

import itertools

from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.budget import Budget
from gputel.telemetry.sampling.cost import SamplingCost
from gputel.telemetry.sampling.loop import Loop
from gputel.telemetry.sampling.watchdog import Turn
from gputel.telemetry.simulated import open_machine
from tests.telemetry.conftest import Rows, Spending, SteppedClock
from tests.telemetry.sampling.test_plan import Priced

MS, SECOND = 1_000_000, 1_000_000_000


class Recording:
    def __init__(self, hz: float = 100.0, machine: str = "H100") -> None:
        self.clock, self.rows, self.turn = SteppedClock(), Rows(), Turn()
        simulated = open_machine(machine, self.clock)
        self.plan = plan.make(simulated, simulated.gpus, hz, self.clock)
        self.cost = SamplingCost(round(SECOND / hz))
        self.loop = Loop(
            simulated,
            self.plan,
            self.rows,
            self.clock,
            cost=self.cost,
            budget=Budget(self.plan, print, Spending()),
            turn=self.turn,
            report=lambda *_, **__: None,
        )

    def run(self, seconds: float) -> None:
        self.loop.run(until=self.clock.now + round(seconds * SECOND))


def test_second_has_a_hundred_ticks_five_of_gpm_and_one_slow_one() -> None:
    recording = Recording()
    recording.run(10)
    assert [len(recording.rows.stamps(tier)) for tier in range(3)] == [1000, 50, 10]
    assert recording.cost.hz == 100.0


def test_deadlines_do_not_drift_when_ticks_are_late() -> None:
    recording = Recording()
    recording.clock.jumps = [3 * MS] * 50
    recording.run(1)
    deadlines = [deadline for tier, deadline, _, _ in recording.rows.rows if tier == 0]
    assert {b - a for a, b in itertools.pairwise(deadlines)} == {10 * MS}
    assert recording.cost.late == 0
    assert recording.cost.lateness.most == 3 * MS


def test_late_tick_fires_late_with_its_true_stamp_and_none_is_skipped() -> None:
    recording = Recording()
    recording.clock.jumps = [0] * 10 + [45 * MS]
    recording.run(1)
    assert len(recording.rows.stamps()) == 100
    assert recording.cost.missed == 0
    assert recording.cost.late == 4
    late = [
        stamp - deadline for tier, deadline, stamp, _ in recording.rows.rows if tier == 0 and stamp > deadline
    ]
    assert late == [45 * MS, 35 * MS, 25 * MS, 15 * MS, 5 * MS]


def test_missed_ticks_of_a_long_stall_are_counted_and_not_filled_in() -> None:
    recording = Recording()
    recording.clock.jumps = [0] * 100 + [3 * SECOND]
    recording.run(10)
    ticks = len(recording.rows.stamps())
    assert recording.cost.missed in (299, 300)
    assert ticks + recording.cost.missed == 1000
    gaps = [b - a for a, b in zip(recording.rows.stamps(), recording.rows.stamps()[1:], strict=False)]
    assert max(gaps) >= 3 * SECOND
    assert sorted(gaps)[-2] == 10 * MS


def test_ticks_between_a_stuck_thread_and_its_successor_are_missed_ticks() -> None:
    first = Recording()
    first.run(1)
    successor = Recording()
    successor.clock.now = first.clock.now + 300 * MS
    successor.cost = successor.loop._cost = first.cost
    successor.run(1)
    assert (first.cost.ticks, first.cost.missed) == (200, 30)


def test_loop_stops_between_two_ticks_at_a_slow_rate() -> None:
    recording = Recording(hz=0.01)
    before = recording.clock.now

    def stop_after_ten_seconds(now: int) -> None:
        recording.turn.stopping = now - before > 10 * SECOND

    recording.clock.moved = stop_after_ten_seconds
    recording.loop.run()
    assert recording.clock.now - before < 11 * SECOND
    assert recording.rows.rows == []


def test_thread_whose_turn_is_over_writes_nothing() -> None:
    recording = Recording()
    recording.turn.generation += 1
    recording.run(1)
    assert recording.rows.rows == []


def test_cost_of_each_tier_is_what_was_spent_inside_the_driver() -> None:
    clock, cost = SteppedClock(), SamplingCost(10 * MS)
    machine = Priced(clock, {})
    made = plan.make(machine, machine.gpus, 100, clock, max_overhead=0.5)
    budget = Budget(made, print, Spending())
    loop = Loop(machine, made, Rows(), clock, cost=cost, budget=budget, turn=Turn(), report=print)
    loop.run(clock.now + 20 * SECOND)
    assert abs(cost.tiers["fast"].inside_ns - 2000 * 17_000) < 0.06 * 2000 * 17_000
