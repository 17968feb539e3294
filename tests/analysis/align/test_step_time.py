"""The time of a step, from clocks that are finer or coarser than a step."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import polars as pl
import pytest

from gputel.analysis.align.step_time import StepTime, step_ns_near, step_time, step_times
from gputel.analysis.align.timestamps import timed_log
from gputel.analysis.runs import read_run
from gputel.analysis.runs.printed_times import contains_others
from tests.analysis.align.conftest import evaluated_every_20


def stamped(step_s: float, count: int, resolution_s: float, seed: int = 1) -> pl.DataFrame:
    """Steps of nearly one length, their ends cut to the resolution of the clock."""
    rng = random.Random(seed)
    ends = [0.3]
    for _ in range(count):
        ends.append(ends[-1] + step_s * rng.uniform(0.99, 1.01))
    cut = [int(end / resolution_s) * resolution_s for end in ends]
    seconds = [later - earlier for earlier, later in itertools.pairwise(cut)]
    return pl.DataFrame({"chain": [0] * count, "steps": [1] * count, "seconds": seconds})


@pytest.mark.parametrize("step_s", [0.31, 0.645, 1.217, 2.94])
def test_whole_second_stamps_give_the_step_time_within_the_stated_error(step_s: float) -> None:
    estimate = step_time(stamped(step_s, 200, 1.0), None, 1.0)
    assert estimate is not None
    assert abs(estimate.seconds - step_s) < 2 * estimate.error_s
    assert estimate.error_s < 0.05 * step_s
    assert estimate.origin == "timestamps"


def test_stated_error_holds_the_truth_in_nine_of_ten_cases() -> None:
    estimates = [step_time(stamped(1.217, 150, 1.0, seed), None, 1.0) for seed in range(60)]
    held = sum(abs(estimate.seconds - 1.217) <= estimate.error_s for estimate in estimates if estimate)
    assert 48 <= held <= 60


def test_printed_step_times_win_over_coarse_stamps_that_agree_with_them() -> None:
    estimate = step_time(stamped(1.217, 100, 1.0), pl.Series([1217.1, 1216.9, 1217.0] * 33), 1.0)
    assert estimate is not None
    assert estimate.seconds == pytest.approx(1.217)
    assert estimate.origin == "printed step times"


@pytest.mark.parametrize("count", [4, 6, 10])
def test_stated_error_of_few_printed_step_times_holds_the_truth_in_nine_of_ten_cases(count: int) -> None:
    held = 0
    for seed in range(200):
        rng = random.Random(seed)
        estimate = step_time(pl.DataFrame(), pl.Series([rng.gauss(8600, 430) for _ in range(count)]), 0.0)
        held += estimate is not None and abs(estimate.seconds - 8.6) <= estimate.error_s
    assert 172 <= held <= 196


def test_printed_time_that_stands_for_five_steps_is_one_time(tmp_path: Path) -> None:
    """Without stamps the last gap of the log's clock is five times the only step time without an evaluation."""
    lines = [f"iter 0: loss 4.0000, time {8200:.2f}ms, mfu 41.00%"]
    for step in range(5, 41, 5):
        dt_ms = 8100 + 8600 * (step < 40)
        lines += [f"step {step}: train loss 3.0, val loss 3.1"] * (step < 40)
        lines.append(f"iter {step}: loss 3.0000, time {dt_ms:.2f}ms, mfu 41.00%")
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    (time,) = step_times(timed_log(read_run(path))).values()
    assert time.origin == "printed step times"
    assert abs(time.seconds - 8.6) <= time.error_s < 1.0


def test_stamps_win_over_step_times_that_leave_out_part_of_a_step() -> None:
    estimate = step_time(stamped(1.217, 100, 0.001), pl.Series([600.0] * 100), 0.001)
    assert estimate is not None
    assert estimate.seconds == pytest.approx(1.217, rel=0.005)


def test_checkpoints_outside_of_step_times_do_not_hide_evaluations_inside(tmp_path: Path) -> None:
    """Every record behind an evaluation is long; the twice as many behind a checkpoint are not."""
    path = tmp_path / "run.log"
    path.write_text(evaluated_every_20(60, lambda step: step % 10 == 5, rate=True))
    log = read_run(path).log
    assert log.records.filter(contains_others(log.records, log))["step"].to_list() == [20, 40]


def gaps_of_ten_steps(seconds: list[float | None]) -> pl.DataFrame:
    """A record every ten steps; None where an evaluation lies in the gap."""
    return pl.DataFrame(
        {
            "width": [None if gap is None else gap * 1e9 for gap in seconds],
            "steps": 10.0,
            "printed": 1.2268e9,
            "first": [place == 0 for place in range(len(seconds))],
            "phase": "train",
        },
        schema_overrides={"width": pl.Float64},
    )


def test_usual_step_time_is_that_of_the_phase_where_evaluations_fill_every_second_gap() -> None:
    """Gaps of 12.268 s that a clock of whole seconds shows as 13 s more often than not."""
    gaps = gaps_of_ten_steps([None, 13.0, None, 13.0, None, 12.0, None, 13.0, None, 13.0])
    phase = StepTime(1.2268, 0.004, "printed step times")
    assert step_ns_near(gaps, 10**9, {"train": phase}) == pytest.approx([1.2268e9] * 10)


def test_usual_step_time_is_that_of_the_gaps_around_if_their_ends_cannot_explain_the_difference() -> None:
    gaps = gaps_of_ten_steps([None, *[25.0] * 60])
    phase = StepTime(1.2268, 0.004, "printed step times")
    assert step_ns_near(gaps, 10**9, {"train": phase}) == pytest.approx([2.5e9] * 61)


@pytest.mark.parametrize(
    ("printed", "error_ms"),
    [("5.20s", 5.0), ("5.200s", 0.5), ("5200ms", 0.5), ("5s", 500.0), ("0.30 s", 5.0), ("1m 12.5s", 50.0)],
)
def test_printed_digits_are_the_range_of_a_step_time_that_never_changes(
    tmp_path: Path, printed: str, error_ms: float
) -> None:
    path = tmp_path / "run.log"
    path.write_text("".join(f"step {step} | loss: 2.5{step:02d} | dt: {printed}\n" for step in range(40)))
    (time,) = step_times(timed_log(read_run(path))).values()
    assert 1000 * time.error_s == pytest.approx(error_ms)


def test_median_of_coarse_digits_lies_within_the_digit(tmp_path: Path) -> None:
    """Steps of 1.203 s on average that print 1.19, 1.20, 1.21 or 1.22: most would say 1.20."""
    rng = random.Random(3)
    path = tmp_path / "run.log"
    times = [1.203 * rng.uniform(0.99, 1.01) for _ in range(400)]
    path.write_text(
        "".join(f"step {step} | loss: 2.5 | dt: {each:.2f}s\n" for step, each in enumerate(times))
    )
    (time,) = step_times(timed_log(read_run(path))).values()
    assert abs(time.seconds - 1.203) < 0.001 < time.error_s < 0.006
