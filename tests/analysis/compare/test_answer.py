"""The JSON of a comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputel.analysis.compare import compare
from gputel.analysis.compare.answer import comparison_json


def test_runs_are_nested_under_the_point_that_they_share(tmp_path: Path) -> None:
    for name, loss in (("a", 3), ("b", 2)):
        lines = [f"step {n} | loss: {loss}.0\n" for n in range(11)]
        (tmp_path / f"{name}.log").write_text("".join(lines))
    answer = comparison_json(compare([tmp_path / "a.log", tmp_path / "b.log"]))
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    point = answer["milestones"][-1]
    assert (point["x"], point["runs"]["b"]["difference"]) == (10, pytest.approx(-1))
    assert list(answer["summary"]) == ["a", "b"]
    assert answer["scaling"]["law"] is None
