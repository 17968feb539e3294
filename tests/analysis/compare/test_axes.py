"""The cost of each record on the axes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from gputel.analysis.compare import axes


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


def test_first_record_of_an_attempt_covers_the_usual_number_of_steps() -> None:
    done, attempt = np.array([10.0, 20, 30, 20, 30]), np.array([1.0, 1, 1, 2, 2])
    assert axes.gaps(done, attempt).tolist() == [10, 10, 10, 10, 10]


def test_step_times_are_multiplied_by_the_steps_they_cover() -> None:
    rows = pl.DataFrame({"dt_ms": [100.0, None, 100.0]})
    seconds = axes.elapsed_seconds(rows, np.array([10.0, 20, 30]), np.ones(3), "dt")
    assert seconds == pytest.approx([1, 2, 3])
