"""Tables of a comparison: round points of an axis and interruptions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gputel.analysis.compare import summary
from gputel.analysis.compare.curves import metric_curve, run_phase
from gputel.analysis.runs import read_run


def test_common_end_is_that_of_the_shortest_run() -> None:
    assert summary.common_end([np.array([0.0, 5]), np.array([0.0, 9, np.nan])]) == 5
    assert math.isnan(summary.common_end([np.array([np.nan])]))


@pytest.mark.parametrize(("end", "points"), [(0.0, []), (math.nan, [])])
def test_rounds_of_nothing_are_none(end: float, points: list[float]) -> None:
    assert summary.rounds(end) == points


def test_axis_on_which_a_run_has_no_place_has_no_row(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"step {n} | loss: 3.0 | dt: 100.00ms\n" for n in range(5)))
    placed = run_phase(read_run(path), "a", "train")
    unplaced = replace(placed, costs={**placed.costs, "time": np.full(5, np.nan)})
    rows = [summary.equal([metric_curve(track, "loss")], None) for track in (placed, unplaced)]
    assert [table["axis"].to_list() for table in rows] == [["step", "time"], ["step"]]


def test_repeated_steps_count_as_an_interruption(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"step {n} | loss: 3.0\n" for n in (0, 1, 2, 3, 1, 2, 3, 4)))
    assert summary.interruptions(run_phase(read_run(path), "a", "train")) == 1


def test_printed_throughput_leaves_out_steps_that_contain_an_evaluation(tmp_path: Path) -> None:
    """Steps of 1 s at 1,000 tok/s; an evaluation of 9 s makes the next step 10 s at 100 tok/s."""
    lines = []
    for number in range(40):
        long = number == 20
        if long:
            lines.append("validation loss: 2.5")
        dt_ms, rate = (10_000, 100) if long else (1000, 1000)
        lines.append(f"step {number} | loss: 3.0 | dt: {dt_ms}.00ms | tok/sec: {rate}.00")
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    (row,) = summary.summarize_runs([run_phase(read_run(tmp_path / "a.log"), "a", "train")]).to_dicts()
    assert row["tok_per_sec"] == pytest.approx(1000)
