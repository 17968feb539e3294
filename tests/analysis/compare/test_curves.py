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


def test_metric_called_value_is_no_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"step {n} loss {9 - n}.0 value 0.{n}\n" for n in (1, 2, 3, 1, 2, 3, 4)))
    track = run_phase(read_run(path), "a", "train")
    assert track.subject.log.places == [("train", 1), ("train", 2)]
    assert metric_curve(track, "value").y.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_curve_of_a_run_that_went_on_between_two_steps_leaves_out_what_was_rolled_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.log"
    again = "".join(f"step {n} | loss: 4.0\n" for n in (15, 25, 35))
    path.write_text("".join(f"step {n} | loss: 9.0\n" for n in (0, 10, 20, 30)) + again)
    found = metric_curve(run_phase(read_run(path), "a", "train"), "loss")
    assert found.step.tolist() == [0, 10, 15, 25, 35]
    assert found.y.tolist() == [9, 9, 4, 4, 4]


def loss_curve(path: Path, *attempts: str, metric: str = "loss") -> tuple[list[float], list[float]]:
    path.write_text("".join(attempts))
    found = metric_curve(run_phase(read_run(path), "a", "train"), metric)
    return found.step.tolist(), found.y.tolist()


def records(steps: range, loss: float, prefix: str = "") -> str:
    return "".join(f"{prefix}step {n} | loss: {loss:.4f} | dt: 100.00ms\n" for n in steps)


def test_curve_of_trainings_in_one_log_is_of_the_last(tmp_path: Path) -> None:
    path = tmp_path / "grid.log"
    grid = [records(range(0, 60, 10), 9), records(range(0, 60, 10), 8), records(range(0, 30, 5), 7)]
    assert loss_curve(path, *grid) == ([0, 5, 10, 15, 20, 25], [7] * 6)
    track = run_phase(read_run(path), "grid", "train")
    assert track.done.tolist() == [1, 6, 11, 16, 21, 26]
    assert track.total("time") is not None


def test_curve_follows_each_resume_to_the_attempt_before(tmp_path: Path) -> None:
    parts = records(range(0, 60, 10), 9), records(range(35, 80, 10), 8), records(range(20, 50, 10), 7)
    assert loss_curve(tmp_path / "a.log", *parts) == ([0, 10, 20, 30, 40], [9, 9, 7, 7, 7])


def test_curve_of_ranks_that_print_one_after_the_other_has_every_step(tmp_path: Path) -> None:
    late = "".join(records(range(n, n + 20, 10), 9) for n in range(0, 100, 10))
    assert loss_curve(tmp_path / "late.log", late)[0] == list(range(0, 110, 10))
    named = "".join(
        records(range(n, n + 1), loss, f"[rank{rank}]: ")
        for start in (range(0, 60, 10), range(25, 60, 10))
        for n in start
        for rank, loss in enumerate((4.0, 5.0))
    )
    assert loss_curve(tmp_path / "ranks.log", named) == ([0, 10, 20, 25, 35, 45, 55], [4.5] * 7)


def test_stray_step_without_a_word_of_a_restart_takes_no_steps_from_a_curve(tmp_path: Path) -> None:
    path, stray = tmp_path / "a.log", records(range(1), 3)
    assert loss_curve(path, records(range(0, 40, 10), 9), stray) == ([0, 10, 20, 30], [3, 9, 9, 9])
    resumed = "Resuming from checkpoint out/step_15.pt\n" + records(range(15, 16), 3)
    assert loss_curve(path, records(range(0, 40, 10), 9), resumed) == ([0, 10, 15], [9, 9, 3])


def test_evaluations_of_a_rolled_back_attempt_are_not_in_its_curve(tmp_path: Path) -> None:
    def evaluated(steps: range, value: float) -> str:
        return "".join(
            f"Step {n} | Validation bpb: {value:.4f}\n{records(range(n, n + 1), 5)}" for n in steps
        )

    first, then = evaluated(range(0, 50, 10), 2.0), evaluated(range(25, 60, 10), 1.0)
    resumed, kept = [0, 10, 20, 25, 35, 45, 55], [2, 2, 2, 1, 1, 1, 1]
    assert loss_curve(tmp_path / "a.log", first, then, metric="val_bpb") == (resumed, kept)
    anew = evaluated(range(0, 30, 15), 1.0)
    assert loss_curve(tmp_path / "b.log", first, anew, metric="val_bpb") == ([0, 15], [1, 1])
