"""The cost of each record on the axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from gputel.analysis.compare import axes
from gputel.analysis.logs.log import Log


def test_prices_are_known_if_one_is_given() -> None:
    assert axes.Prices(kwh=0.3).known
    assert not axes.Prices().known


def test_single_timestamp_is_no_clock() -> None:
    rows = pl.DataFrame({"time": [1, None], "dt_ms": [10.0, 10.0]})
    assert axes.available_clocks(rows) == ["dt"]


def test_shared_clock_is_the_most_reliable_that_all_runs_have() -> None:
    first = pl.DataFrame({"time": [1, 2], "dt_ms": [10.0, 10.0]})
    second = pl.DataFrame({"dt_ms": [10.0]})
    assert axes.shared([first, second]) == "dt"
    assert axes.shared([first, second.drop("dt_ms")]) is None


@pytest.mark.parametrize(("announced", "covered"), [("", 10), ("Resuming from checkpoint at step 16\n", 5)])
def test_first_record_of_an_attempt_covers_the_steps_since_the_resume(
    read: Callable[[str], Log], announced: str, covered: int
) -> None:
    """The usual number of steps, where no line says at which step the run goes on."""
    before, behind = ("".join(f"step {n} | loss: 2.0\n" for n in steps) for steps in ((10, 20, 30), (20, 30)))
    log = read(before + announced + behind)
    done, attempt = (log.records[name].to_numpy().astype(float) for name in ("step", "attempt"))
    records = axes.Records(log.records, done, attempt, numbered=False)
    assert axes.gaps(records, log.events).tolist() == [10, 10, 10, covered, 10]


def test_step_times_are_multiplied_by_the_steps_they_cover(read: Callable[[str], Log]) -> None:
    log = read(
        "".join(f"step {step} | loss: 2.0 | dt: {dt}ms\n" for step, dt in ((10, 100), (20, "nan"), (30, 100)))
    )
    records = axes.Records(log.records, np.array([10.0, 20, 30]), np.ones(3), numbered=False)
    seconds = axes.elapsed_seconds(log, records, "dt")
    assert seconds == pytest.approx([1, 2, 3])


@pytest.mark.parametrize("clock", ["dt", "stamps"])
def test_compilation_within_the_first_step_is_no_time_of_training(
    read: Callable[[str], Log], clock: str
) -> None:
    """As in the energy and in `gputel report`, where it belongs to the start."""
    times = [41, *range(42, 60)]
    log = read(
        "".join(
            f"2026-10-03 07:00:{at}.000 step {n} | loss: 2.0 | dt: {40_000 if n == 0 else 1000}ms\n"
            for n, at in enumerate(times)
        )
    )
    records = axes.Records(log.records, np.arange(1.0, 20), np.ones(19), numbered=False)
    seconds = axes.elapsed_seconds(log, records, clock)
    assert seconds == pytest.approx(np.arange(1, 20))
