"""Recordings of a fake driver with a true power, which the tests integrate by themselves."""

from collections.abc import Sequence

import numpy as np

from gputel.telemetry.nvml.devices import Nvml
from gputel.telemetry.readings import BY_NAME
from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.budget import Budget
from gputel.telemetry.sampling.cost import SamplingCost
from gputel.telemetry.sampling.loop import Loop
from gputel.telemetry.sampling.watchdog import Turn
from tests.fake_nvml import (
    MS,
    SECOND,
    FakeNvml,
)
from tests.telemetry.conftest import Rows, Spending, SteppedClock

STEPS = [(310 * MS, 690_000), (90 * MS, 420_000), (57 * MS, 95_000)]


def truth(stretches: Sequence[tuple[int, int]], start: int, end: int) -> float:
    """Joules between two moments, summed millisecond by millisecond."""
    levels = np.concatenate([np.full(duration // MS, level / 1000) for duration, level in stretches])
    at = np.arange(start // MS, end // MS) % len(levels)
    return float(levels[at].sum() / 1000)


def sample(
    fake: FakeNvml, seconds: float, names: Sequence[str], hz: float = 100.0, gpu: int = 0
) -> list[list[int | None]]:
    """Rows of these readings, on the driver's own clock, from a minute on."""
    machine = fake.open()
    fake.at(60)
    reader = machine.reader(machine.gpus[gpu], [BY_NAME[name] for name in names])
    rows = []
    for tick in range(round(seconds * hz)):
        now = 60 * SECOND + round(tick * SECOND / hz)
        fake.state.now_ns = now
        reader.ask()
        rows.append(list(reader.answer(now)))
    return rows


def numbers(column: Sequence[int | None]) -> list[int]:
    return [value for value in column if value is not None]


class DriverClock(SteppedClock):
    """The fake driver's own clock, which its slow calls move on, too."""

    def __init__(self, driver: FakeNvml) -> None:
        self._state = driver.state
        super().__init__(self._move)

    def monotonic(self) -> int:
        self.now = self._state.now_ns
        return self.now

    def _move(self, now: int) -> None:
        self._state.now_ns = now


class Recording:
    """The loop over a fake driver, both on a clock that the test moves."""

    def __init__(self, driver: FakeNvml, hz: float = 100.0, max_overhead: float = 0.02) -> None:
        self.driver, self.rows = driver, Rows()
        self.clock = DriverClock(driver)
        self.events: list[tuple[str, str]] = []
        self.rates: list[dict[str, object]] = []
        """The facts of each change of a rate."""
        self.machine: Nvml = driver.open()
        self.plan = plan.make(self.machine, self.machine.gpus, hz, self.clock, max_overhead=max_overhead)
        self.cost = SamplingCost(round(SECOND / hz))
        self.budget = Budget(self.plan, self._report, Spending())
        self.loop = Loop(
            self.machine,
            self.plan,
            self.rows,
            self.clock,
            cost=self.cost,
            budget=self.budget,
            turn=Turn(),
            report=self._report,
        )

    def run(self, seconds: float) -> None:
        self.loop.run(until=self.clock.monotonic() + round(seconds * SECOND))

    def power(self, gpu: str) -> list[int | None]:
        columns = self.plan.tiers[0].tier.columns
        return self.rows.column(
            next(i for i, c in enumerate(columns) if (c.name, c.subject) == ("power_w", gpu))
        )

    def _report(self, kind: str, text: str, **facts: object) -> None:
        self.events.append((kind, text))
        if kind == "rate":
            self.rates.append(facts)
