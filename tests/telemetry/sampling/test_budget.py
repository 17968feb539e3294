"""The rate follows what reading costs us: not a single stall, not a busy machine, and back when there is room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.budget import Budget, thread_usage, tier_to_lower
from gputel.telemetry.sampling.cost import SamplingCost
from gputel.telemetry.sampling.loop import Loop
from gputel.telemetry.sampling.watchdog import Turn
from tests.fake_nvml import GPU_IS_LOST, H100
from tests.telemetry.conftest import MakeFake, Rows, Spending, SteppedClock
from tests.telemetry.nvml.driver import Recording as FakeRecording
from tests.telemetry.sampling.test_plan import Priced

MS, SECOND = 1_000_000, 1_000_000_000


class Recording:
    """At 100 Hz of a machine that was cheap while it was probed; the budget is 2 % of a core."""

    def __init__(self) -> None:
        self.clock, self.rows, self.spending = SteppedClock(), Rows(), Spending()
        self.machine = Priced(self.clock, {})
        self.plan = plan.make(self.machine, self.machine.gpus, 100, self.clock, max_overhead=0.02)
        self.events: list[tuple[str, dict[str, object]]] = []
        self.budget, self.cost = Budget(self.plan, self.report, self.spending), SamplingCost(10 * MS)
        self.loop = Loop(
            self.machine,
            self.plan,
            self.rows,
            self.clock,
            cost=self.cost,
            budget=self.budget,
            turn=Turn(),
            report=self.report,
        )

    def report(self, kind: str, text: str, **facts: object) -> None:
        self.events.append((kind, facts))

    def run(self, seconds: float, **prices: int) -> int:
        """How many rows of the fast tier came, while readings took so many ns each."""
        before = len(self.rows.stamps())
        self.machine.prices = {**prices}
        self.loop.run(self.clock.now + round(seconds * SECOND))
        return len(self.rows.stamps()) - before

    def changes(self) -> list[tuple[object, object, object]]:
        assert {kind for kind, _ in self.events} <= {"rate"}
        return [(facts["tier"], facts["from"], facts["to"]) for _, facts in self.events]


def test_four_stalls_of_120_ms_leave_100_hz() -> None:
    recording = Recording()
    rows = 0
    for _ in range(4):
        rows += recording.run(3)
        rows += recording.run(0.01, power_w=120 * MS)
    rows += recording.run(60)
    assert recording.events == []
    assert recording.budget.every == [1, 20, 100]
    assert rows == 7204


def test_driver_that_is_really_slow_lowers_the_rate_within_ten_seconds_and_says_why() -> None:
    recording = Recording()
    recording.run(11, power_w=1 * MS)
    assert recording.changes() == [("fast", 100.0, 12.5)]
    assert recording.events[0][1]["why"] == (
        "calls into the driver take 10 % of a core, more than the 2 % of --max-overhead"
    )
    assert recording.run(60, power_w=1 * MS) in range(745, 755)
    assert len(recording.events) == 1


def test_rate_that_is_shown_counts_rows_and_not_ticks() -> None:
    recording = Recording()
    recording.run(100, power_w=1 * MS)
    assert recording.cost.ticks == 10_000
    assert recording.cost.hz is not None
    assert round(recording.cost.hz, 1) == 21.2  # 10 s at 100 Hz, 90 s at 12.5


def test_rows_of_each_tier_are_counted_and_listed_by_the_minute_in_which_their_rate_changed() -> None:
    recording = Recording()
    recording.run(150)
    recording.run(90, power_w=1 * MS)
    recording.run(180)
    tiers = recording.cost.as_json()["tiers"]
    assert isinstance(tiers, dict)
    assert {tier: counts["rows"] for tier, counts in tiers.items()} == {
        tier: len(recording.rows.stamps(number)) for number, tier in enumerate(("fast", "gpm", "slow"))
    }
    assert [minute for minute, _ in tiers["fast"]["minutes"]] == [0, 2, 3, 4, 5]
    assert tiers["fast"]["minutes"][0] == (0, 100.0)
    assert tiers["fast"]["minutes"][2] == (3, 12.5)
    assert tiers["fast"]["minutes"][-1] == (5, 100.0)
    assert tiers["slow"]["minutes"] == [(0, 1.0)]


def test_start_up_is_what_the_process_cost_by_the_first_second_of_sampling() -> None:
    recording = Recording()
    assert recording.cost.as_json()["startup"] is None
    recording.run(5)
    startup = recording.cost.as_json()["startup"]
    assert isinstance(startup, dict)
    assert 0.9 <= startup["sampled_s"] <= 1.1
    assert startup["cpu_s"] > 0


def test_slow_reading_gives_way_before_a_fast_one() -> None:
    recording = Recording()
    assert recording.run(60, ecc=50 * MS) == 6000
    assert {tier for tier, *_ in recording.changes()} == {"slow"}


def test_driver_that_has_recovered_gets_its_rate_back_step_by_step() -> None:
    recording = Recording()
    recording.run(11, power_w=1 * MS)
    recording.run(60)
    assert recording.changes()[1:] == [("fast", 12.5, 25.0), ("fast", 25.0, 50.0), ("fast", 50.0, 100.0)]
    assert recording.run(10) == 1000
    assert recording.budget.lowered() == [{"tier": "fast", "hz": 12.5, "planned_hz": 100.0}]


def test_rate_does_not_come_back_to_be_lowered_again() -> None:
    """Just over the budget at 100 Hz, so that half of it is kept for good."""
    recording = Recording()
    recording.run(300, power_w=200_000)
    assert recording.changes() == [("fast", 100.0, 50.0)]


def test_driver_that_is_slow_every_other_quarter_of_a_minute_changes_the_rate_ever_more_rarely() -> None:
    recording, changes = Recording(), list[int]()
    for _ in range(4):
        before = len(recording.events)
        for _ in range(10):
            recording.run(15, power_w=1 * MS)
            recording.run(15)
        changes.append(len(recording.events) - before)
    assert changes[0] > 4
    assert max(changes[1:]) <= 3  # 20 where each try comes after ten seconds


class SlowNowAndThen(dict[str, int | None]):
    """One call for power in 21 takes 9 ms."""

    calls = 0

    def get(self, name: str, default: object = None) -> int:
        self.calls += name == "power_w"
        return 9 * MS if name == "power_w" and self.calls % 21 == 0 else 1000


def test_slow_call_among_quick_ones_is_an_event_when_the_mean_is_over_the_budget() -> None:
    recording = Recording()
    recording.machine.prices = SlowNowAndThen()
    recording.loop.run(recording.clock.now + 200 * SECOND)
    ((kind, facts),) = recording.events
    assert kind == "overhead"
    assert facts["share"] == pytest.approx(0.045, rel=0.1)
    assert facts["median_share"] == pytest.approx(0.002, rel=0.5)
    assert recording.budget.every == [1, 20, 100]


def test_mean_of_a_minute_with_many_preemptions_is_not_judged() -> None:
    recording = Recording()
    recording.spending.preempted = 1
    recording.machine.prices = SlowNowAndThen()
    recording.loop.run(recording.clock.now + 130 * SECOND)
    assert recording.events == []


def test_preemption_alone_changes_nothing() -> None:
    """Each read takes 5 ms on the clock, since another process runs meanwhile, and 20 us of our own time."""
    recording = Recording()
    recording.spending.cpu_ns, recording.spending.preempted = 20_000, 1
    assert recording.run(60, power_w=5 * MS) == 6000
    assert recording.events == []


def test_preemption_does_not_hide_what_a_read_takes_of_the_processor() -> None:
    recording = Recording()
    recording.spending.cpu_ns, recording.spending.preempted = 1 * MS, 1
    recording.run(11, power_w=5 * MS)
    assert recording.changes() == [("fast", 100.0, 12.5)]


def test_thread_that_takes_over_keeps_the_lowered_rate() -> None:
    recording = Recording()
    recording.run(11, power_w=1 * MS)
    successor = Loop(
        recording.machine,
        recording.plan,
        recording.rows,
        recording.clock,
        cost=SamplingCost(10 * MS),
        budget=recording.budget,
        turn=Turn(),
        report=recording.report,
    )
    before = len(recording.rows.stamps())
    successor.run(recording.clock.now + 4 * SECOND)
    assert len(recording.rows.stamps()) - before == 50


def columns(recording: FakeRecording) -> dict[str, set[str]]:
    """The readings of each tier, as the store has them now."""
    _, tiers = recording.rows.arranged[-1]
    return {tier.name: set(tier.readings) for tier in tiers}


@pytest.mark.needs("cc")
def test_dearest_call_moves_to_33_hz_before_the_rate_falls_and_comes_back_when_it_has_recovered(
    fake: MakeFake,
) -> None:
    driver = fake(H100, H100)
    recording = FakeRecording(driver)
    recording.run(5)
    driver.slow("Utilization", 400_000)  # 8 % of a core at 100 Hz and two GPUs
    driver.slow("ClockInfo", 5_000)
    recording.run(60)
    assert columns(recording)["medium"] == {"util", "mem_util"}
    assert "power_w" in columns(recording)["fast"]
    (event,) = recording.rates
    assert (event["readings"], event["from"], event["to"]) == (["util", "mem_util"], 100.0, 33.3)
    assert event["why"] == (
        "calls into the driver take 8.2 % of a core, more than the 4 % of --max-overhead for 2 GPUs; "
        "8.0 % are the calls for these"
    )
    assert recording.budget.lowered() == [{"readings": ["util", "mem_util"], "hz": 33.3, "planned_hz": 100.0}]
    assert recording.budget.every == [1, 3, 20, 100]
    driver.slow("Utilization", 0)
    recording.run(30)
    assert [(event["from"], event["to"]) for event in recording.rates] == [(100.0, 33.3), (33.3, 100.0)]
    assert "medium" not in columns(recording)
    assert {"util", "mem_util"} <= columns(recording)["fast"]


@pytest.mark.needs("cc")
def test_plan_fits_from_the_start_a_driver_whose_calls_are_dear_between_two_ticks(fake: MakeFake) -> None:
    driver = fake(H100)
    driver.cost_as_in_a_virtual_machine()
    recording = FakeRecording(driver, max_overhead=0.05)
    recording.run(21)
    assert recording.rates == []
    tiers = {planned.tier.name: set(planned.tier.readings) for planned in recording.plan.tiers}
    assert tiers["medium"] == {"pcie_rx_mib_s", "pcie_tx_mib_s"}
    assert {"power_w", "util", "temp_c", "sm_mhz"} <= tiers["fast"]
    assert "energy_j" in tiers["slow"]


@pytest.mark.needs("cc")
def test_fields_that_become_dear_leave_the_batch_of_power_and_come_back(fake: MakeFake) -> None:
    driver = fake(H100)
    recording = FakeRecording(driver, max_overhead=0.04)
    recording.run(1)
    driver.cost_as_in_a_virtual_machine()
    recording.run(30)
    now = columns(recording)
    assert now["medium"] == {"pcie_rx_mib_s", "pcie_tx_mib_s"}
    assert {"power_w", "power_avg_w", "temp_mem_c"} <= now["fast"]
    assert "energy_j" in now["slow"]
    assert recording.budget.every == [1, 3, 20, 100]
    assert recording.budget.lowered() == [
        {"readings": ["energy_j"], "hz": 1.0, "planned_hz": 100.0},
        {"readings": ["pcie_rx_mib_s"], "hz": 33.3, "planned_hz": 100.0},
        {"readings": ["pcie_tx_mib_s"], "hz": 33.3, "planned_hz": 100.0},
    ]
    driver.cost_nothing()
    recording.run(40)
    assert {"energy_j", "pcie_rx_mib_s", "pcie_tx_mib_s"} <= columns(recording)["fast"]


@pytest.mark.needs("cc")
def test_reading_that_fits_at_33_hz_only_does_not_come_and_go_every_ten_seconds(fake: MakeFake) -> None:
    """Called alone it takes less than among others, so that there seems to be room for it."""
    driver = fake(H100, H100)
    driver.cost_as_in_a_virtual_machine()
    recording = FakeRecording(driver, max_overhead=0.05)
    driver.slow("Utilization", 75_000)
    driver.slow("ClockInfo", 50_000)
    recording.run(100)
    assert 2 < len(recording.rates) < 6


@pytest.mark.long
@pytest.mark.needs("cc")
def test_calls_that_are_dear_every_other_half_minute_move_ever_more_rarely(fake: MakeFake) -> None:
    driver, changes = fake(H100), list[int]()
    recording = FakeRecording(driver, max_overhead=0.05)
    for _ in range(2):
        before = len(recording.rates)
        for _ in range(4):
            driver.cost_as_in_a_virtual_machine()
            recording.run(30)
            driver.cost_nothing()
            recording.run(30)
        changes.append(len(recording.rates) - before)
    assert changes[0] <= 10
    assert changes[1] <= 2


@pytest.mark.needs("cc")
def test_readings_that_go_from_one_rate_to_another_together_are_one_event(fake: MakeFake) -> None:
    driver = fake(H100)
    recording = FakeRecording(driver, max_overhead=0.02)
    driver.slow("Utilization", 300_000)
    driver.slow("ClockInfo", 150_000)
    recording.run(11)
    (event,) = recording.rates
    assert event["readings"] == ["util", "mem_util", "sm_mhz", "mem_mhz"]
    assert (event["from"], event["to"]) == (100.0, 33.3)


@pytest.mark.long
@pytest.mark.needs("cc")
def test_rows_of_a_tier_that_came_and_went_are_counted_by_the_minute(fake: MakeFake) -> None:
    driver = fake(H100)
    recording = FakeRecording(driver)
    recording.run(70)
    driver.slow("PerformanceState", 300_000)
    recording.run(120)
    driver.slow("PerformanceState", 0)
    recording.run(120)
    tiers = recording.cost.as_json()["tiers"]
    assert isinstance(tiers, dict)
    assert tiers["fast"]["rows"] == 31_000
    assert tiers["fast"]["minutes"] == [(0, 100.0)]
    assert 3300 <= tiers["medium"]["rows"] <= 4300
    minutes = dict(tiers["medium"]["minutes"])
    assert minutes[2] == pytest.approx(33.3, abs=0.1)
    assert minutes[max(minutes)] == 0.0


@pytest.mark.needs("cc")
def test_rate_falls_when_what_is_slow_is_power_itself(fake: MakeFake) -> None:
    driver = fake(H100)
    recording = FakeRecording(driver)
    driver.slow("FieldValues", 1 * MS)
    recording.run(30)
    assert [(event.get("tier"), event["to"]) for event in recording.rates] == [("fast", 12.5)]
    assert recording.rows.arranged == []


@pytest.mark.needs("cc")
def test_gpu_that_was_lost_before_readings_moved_is_not_reported_again(fake: MakeFake) -> None:
    driver = fake(H100, H100)
    recording = FakeRecording(driver)
    recording.run(5)
    driver.state.gpus[1].gone = GPU_IS_LOST
    driver.slow("Utilization", 400_000)
    recording.run(20)
    assert [kind for kind, _ in recording.events] == ["gpu_lost", "rate"]
    driver.state.gpus[1].gone = 0
    recording.run(5)
    assert [kind for kind, _ in recording.events] == ["gpu_lost", "rate", "gpu_back"]
    columns = recording.rows.arranged[-1][1][0].columns
    place = next(i for i, column in enumerate(columns) if (column.name, column.subject) == ("power_w", "1"))
    assert recording.rows.column(place)[-1] == 300_000


def test_time_that_a_thread_has_spent_only_grows() -> None:
    before = after = thread_usage()
    # some kernels count by jiffies
    while after.ru_utime + after.ru_stime <= before.ru_utime + before.ru_stime:
        sum(range(200_000))
        after = thread_usage()
    assert after.ru_nivcsw >= before.ru_nivcsw


def test_slowest_tier_that_costs_anything_is_lowered_first() -> None:
    assert tier_to_lower([1, 10, 100], [0.015, 0.005, 0.001], 0.02, 1000) == 1
    assert tier_to_lower([1, 10, 100], [0.015, 0.005, 0.01], 0.02, 1000) == 2
    assert tier_to_lower([1, 10, 100], [0.015, 0.004, 0.001], 0.02, 1000) is None


@given(st.lists(st.floats(0, 2), min_size=4, max_size=4), st.floats(0.001, 0.5))
def test_lowering_again_and_again_ends_within_the_budget_or_at_the_slowest_rates(
    costs: list[float], budget: float
) -> None:
    every = [1, 10, 20, 100]
    for _ in range(100):
        now = [cost * first / e for cost, first, e in zip(costs, [1, 10, 20, 100], every, strict=True)]
        dear = tier_to_lower(every, now, budget, 1000)
        if dear is None:
            assert sum(now) <= budget or all(
                e * 2 > 1000 or c < 0.1 * budget for e, c in zip(every, now, strict=True)
            )
            return
        every[dear] *= 2
    raise AssertionError("it goes on for ever")
