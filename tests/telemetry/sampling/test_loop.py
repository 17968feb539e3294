"""The loop keeps absolute deadlines, counts what is late or missed, fills nothing in, lowers what is too dear."""

import itertools

from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.cost import Cost
from gputel.telemetry.sampling.loop import Loop, Turn
from gputel.telemetry.simulated import open_machine
from tests.telemetry.conftest import Rows, SteppedClock
from tests.telemetry.sampling.test_plan import Priced

MS, SECOND = 1_000_000, 1_000_000_000


class Recording:
    def __init__(self, hz: float = 100.0, machine: str = "H100") -> None:
        self.clock, self.rows, self.turn = SteppedClock(), Rows(), Turn()
        simulated = open_machine(machine, self.clock)
        self.plan = plan.make(simulated, simulated.gpus, hz, self.clock)
        self.cost = Cost(round(SECOND / hz))
        self.loop = Loop(
            simulated,
            self.plan,
            self.rows,
            self.clock,
            cost=self.cost,
            turn=self.turn,
            report=lambda *_, **__: None,
        )

    def run(self, seconds: float) -> None:
        self.loop.run(until=self.clock.now + round(seconds * SECOND))


def test_a_second_has_a_hundred_ticks_five_of_gpm_and_one_slow_one() -> None:
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


def test_a_late_tick_fires_late_with_its_true_stamp_and_none_is_skipped() -> None:
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


def test_after_a_long_stall_what_is_missed_is_counted_and_not_filled_in() -> None:
    recording = Recording()
    recording.clock.jumps = [0] * 100 + [3 * SECOND]
    recording.run(10)
    ticks = len(recording.rows.stamps())
    assert recording.cost.missed in (299, 300)
    assert ticks + recording.cost.missed == 1000
    gaps = [b - a for a, b in zip(recording.rows.stamps(), recording.rows.stamps()[1:], strict=False)]
    assert max(gaps) >= 3 * SECOND
    assert sorted(gaps)[-2] == 10 * MS


def test_it_stops_between_two_ticks_also_at_a_slow_rate() -> None:
    recording = Recording(hz=0.01)
    before = recording.clock.now

    def stop_after_ten_seconds(now: int) -> None:
        recording.turn.stopping = now - before > 10 * SECOND

    recording.clock.moved = stop_after_ten_seconds
    recording.loop.run()
    assert recording.clock.now - before < 11 * SECOND
    assert recording.rows.rows == []


def test_a_thread_whose_turn_is_over_writes_nothing() -> None:
    recording = Recording()
    recording.turn.generation += 1
    recording.run(1)
    assert recording.rows.rows == []


def dear_machine(prices: dict[str, int | None], budget: float) -> tuple[Rows, Cost]:
    """A machine that is cheap while it is probed and dear afterwards, for twenty seconds at 100 Hz."""
    clock, rows, cost = SteppedClock(), Rows(), Cost(10 * MS)
    machine = Priced(clock, {})
    made = plan.make(machine, machine.gpus, 100, clock, max_overhead=budget)
    machine.prices = prices
    Loop(machine, made, rows, clock, cost=cost, turn=Turn(), report=lambda *_, **__: None).run(
        clock.now + 20 * SECOND
    )
    return rows, cost


def test_a_driver_that_becomes_dear_is_asked_less_often_slow_tiers_first_and_it_is_said() -> None:
    rows, cost = dear_machine({"ecc": 50 * MS}, 0.02)
    assert {change["tier"] for change in cost.lowered} == {"slow"}
    assert len(rows.stamps(0)) + cost.missed == 2000
    assert len(rows.stamps(2)) < 12


def test_if_the_fast_readings_are_what_is_dear_the_fast_tier_is_lowered() -> None:
    rows, cost = dear_machine({"power_w": 1 * MS}, 0.02)
    assert [change["tier"] for change in cost.lowered] == ["fast"] * 3
    assert len(rows.stamps(0)) < 700


def test_the_cost_of_each_tier_is_what_was_spent_inside_the_driver() -> None:
    _, cost = dear_machine({}, 0.5)
    assert abs(cost.inside_ns["fast"] - 2000 * 17_000) < 0.06 * 2000 * 17_000
