"""One metric of one run along its steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gputel.analysis.compare import curves
from gputel.analysis.compare.curves import RunPhase, metric_curve, metrics, run_phase
from gputel.analysis.runs import read_run


@pytest.fixture
def phase(tmp_path: Path) -> RunPhase:
    path = tmp_path / "a.log"
    lines = [f"step {n} | loss: {9 - n:.4f} | dt: 100.00ms\n" for n in range(5)]
    path.write_text("".join(lines) + "Step 4 | Validation bpb: 1.5000\n")
    return run_phase(read_run(path), "a", "train")


def test_counter_from_zero_has_done_one_step_more_than_it_prints(phase: RunPhase) -> None:
    assert metric_curve(phase, "loss").done.tolist() == [1, 2, 3, 4, 5]
    assert metric_curve(phase, "val_bpb").done.tolist() == [4]


def test_curve_of_a_metric_that_the_run_lacks_is_empty(phase: RunPhase) -> None:
    assert metric_curve(phase, "mfu").y.tolist() == []


def test_smoothing_averages_the_last_steps(phase: RunPhase) -> None:
    assert metric_curve(phase, "loss").smoothed(2).tolist() == [9, 8.5, 7.5, 6.5, 5.5]


def test_cost_after_the_last_record_stays_the_same(phase: RunPhase) -> None:
    assert phase.at("time", np.array([0.0, 2.5, 99.0])) == pytest.approx([0, 0.25, 0.5])


def test_target_is_reached_at_the_first_good_value() -> None:
    x, y = np.array([1.0, 2, 3]), np.array([0.1, 0.5, 0.4])
    assert curves.reached(x, y, 0.4, "higher") == 2
    assert curves.reached(x, y, 0.05, "lower") is None


def test_values_between_the_records_of_a_store_are_a_curve_of_the_last_attempt(tmp_path: Path) -> None:
    """The learning rate makes the records, returns of episodes come at other steps; the run went on from step 8."""
    path = tmp_path / "metrics.csv"
    rows = "0,0.1,\n3,,40\n7,,5\n10,0.1,7\n14,,2\n8,0.1,\n9,,60\n20,0.1,\n"
    path.write_text(f"step,train/lr,episode/return\n{rows}")
    track = run_phase(read_run(path), "store", "train")
    found = metric_curve(track, "episode_return")
    assert "episode_return" in metrics(track)
    assert (found.step.tolist(), found.y.tolist()) == ([3, 7, 9], [40, 5, 60])


def test_steps_of_a_run_that_went_on_between_two_of_them_only_rise(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    again = "".join(f"step {n} | loss: 4.0\n" for n in (15, 25, 35))
    path.write_text("".join(f"step {n} | loss: 9.0\n" for n in (0, 10, 20, 30)) + again)
    found = metric_curve(run_phase(read_run(path), "a", "train"), "loss")
    assert found.step.tolist() == [0, 10, 15, 20, 25, 30, 35]
    assert found.y.tolist() == [9, 9, 4, 9, 4, 9, 4]
