"""Tables of a comparison: round points of an axis and interruptions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from gputel.analysis.compare import summary
from gputel.analysis.compare.curves import run_phase
from gputel.analysis.runs import read_run


def test_common_end_is_that_of_the_shortest_run() -> None:
    assert summary.common_end([np.array([0.0, 5]), np.array([0.0, 9, np.nan])]) == 5
    assert math.isnan(summary.common_end([np.array([np.nan])]))


@pytest.mark.parametrize(("end", "points"), [(0.0, []), (math.nan, [])])
def test_rounds_of_nothing_are_none(end: float, points: list[float]) -> None:
    assert summary.rounds(end) == points


def test_repeated_steps_count_as_an_interruption(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"step {n} | loss: 3.0\n" for n in (0, 1, 2, 3, 1, 2, 3, 4)))
    assert summary.interruptions(run_phase(read_run(path), "a", "train")) == 1
