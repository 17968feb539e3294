"""A call that hangs costs the recording one GPU and a quarter of a second; with real threads and a real library."""

import threading
from collections.abc import Callable

import pytest

from gputel.telemetry.clock import SystemClock
from gputel.telemetry.machine import Gpu
from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.budget import Budget
from gputel.telemetry.sampling.cost import SamplingCost
from gputel.telemetry.sampling.loop import Loop
from gputel.telemetry.sampling.watchdog import Stale, Turn, Watchdog
from tests.fake_nvml import H100, FakeNvml
from tests.recordings import PATIENCE_S, until
from tests.telemetry.conftest import MakeFake, Rows

MS, SECOND = 1_000_000, 1_000_000_000
GPU = Gpu("0", "a GPU", "GPU-0", None)


def test_call_within_the_limit_is_left_alone() -> None:
    turn, started = Turn(entered=(0, GPU, 0)), []
    watchdog = Watchdog(turn, lambda: started.append(1), lambda *_, **__: None)
    watchdog.look(249 * MS)
    assert (turn.generation, started) == (0, [])


def test_call_past_the_limit_loses_its_turn_once() -> None:
    turn, started, events = Turn(entered=(0, GPU, 0)), [], []
    watchdog = Watchdog(
        turn, lambda: started.append(1), lambda kind, text, **facts: events.append((kind, facts))
    )
    watchdog.look(251 * MS)
    watchdog.look(301 * MS)
    assert (turn.generation, started, turn.left_out) == (1, [1], {GPU})
    assert events == [("gpu_lost", {"gpu": "0", "cause": "hang"})]
    assert watchdog.stuck()


def test_gpu_that_hangs_again_is_not_tried_while_its_call_is_out() -> None:
    """It had returned from an earlier call, and hung when it was tried again."""
    turn = Turn(entered=(0, GPU, 0), left_out={GPU}, returned={GPU: 0})
    watchdog = Watchdog(turn, lambda: None, lambda *_, **__: None)
    watchdog.look(251 * MS)
    assert turn.returned == {}
    assert watchdog.stuck()


def test_hang_is_forgotten_after_ten_times_its_wait_and_those_in_a_row_wait_longer_each_time() -> None:
    turn = Turn()
    watchdog = Watchdog(turn, lambda: None, lambda *_, **__: None)
    waits = []
    for begin_s in (10, 15, 20, 30, 130, 160):
        turn.entered = (turn.generation, GPU, begin_s * SECOND)
        watchdog.look(begin_s * SECOND + 251 * MS)
        with pytest.raises(Stale):
            turn.come_back(GPU, (begin_s + 1) * SECOND)
        waits.append(turn.returned[GPU] // SECOND - begin_s - 1)
    assert waits == [1, 2, 4, 8, 1, 1]


class Threads:
    """The sampler's threads without its process."""

    def __init__(self, driver: FakeNvml) -> None:
        self.rows, self.turn, self.clock, self.driver = Rows(), Turn(), SystemClock(), driver
        self.machine = driver.open()
        self.plan = plan.make(self.machine, self.machine.gpus, 100, self.clock, max_overhead=1.0)
        self.events: list[tuple[str, dict[str, object]]] = []
        self.cost, self.threads = SamplingCost(10 * MS), list[threading.Thread]()
        self.budget = Budget(self.plan, self.report)
        self.watchdog = Watchdog(self.turn, self.start, self.report)

    def start(self) -> None:
        self.threads.append(threading.Thread(target=self.sample, daemon=True))
        self.threads[-1].start()

    def sample(self) -> None:
        try:
            Loop(
                self.machine,
                self.plan,
                self.rows,
                self.clock,
                cost=self.cost,
                budget=self.budget,
                turn=self.turn,
                report=self.report,
            ).run()
        except Stale:
            return

    def report(self, kind: str, text: str, **facts: object) -> None:
        self.events.append((kind, facts))

    def look_until(self, true: Callable[[], object]) -> None:
        def look() -> object:
            self.watchdog.look(self.clock.monotonic())
            return true()

        until(look, "what the watchdog is to see")

    def power(self, gpu: str) -> list[int | None]:
        columns = self.plan.tiers[0].tier.columns
        return self.rows.column(
            next(i for i, c in enumerate(columns) if (c.name, c.subject) == ("power_w", gpu))
        )


@pytest.mark.needs("cc")
def test_hanging_gpu_is_left_out_and_taken_in_again_while_the_other_goes_on(fake: MakeFake) -> None:
    driver = fake(H100, H100)
    threads = Threads(driver)
    threads.start()
    try:
        threads.look_until(lambda: len(threads.rows.stamps()) > 20)
        driver.state.gpus[1].hang = 1
        threads.look_until(lambda: threads.power("1")[-1] is None)
        before = len(threads.rows.stamps())
        threads.look_until(lambda: len(threads.rows.stamps()) > before + 50)
        assert threads.threads[0].is_alive(), "the call has not come back"
        assert threads.watchdog.stuck()
        driver.state.gpus[1].hang = 0
        threads.look_until(lambda: threads.power("1")[-1] is not None)
    finally:
        driver.state.gpus[1].hang = 0
        threads.turn.stopping = True
    for thread in threads.threads:
        thread.join(PATIENCE_S)
    assert set(threads.power("0")) == {300_000}
    assert set(threads.power("1")) == {300_000, None}
    assert [(kind, facts["gpu"]) for kind, facts in threads.events] == [("gpu_lost", "1"), ("gpu_back", "1")]
    assert threads.turn.generation == 1
    assert not threads.watchdog.stuck()


def test_gpu_that_hangs_again_and_again_is_tried_less_and_less() -> None:
    turn, waits = Turn(), []
    for hangs in (1, 2, 3, 10):
        turn.hangs[GPU] = hangs
        with pytest.raises(Stale):
            turn.come_back(GPU, 5 * SECOND)
        waits.append(turn.returned[GPU] // SECOND - 5)
    assert waits == [1, 2, 4, 60]
