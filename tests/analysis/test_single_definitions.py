"""Facts that several figures share have one definition in the source, and the figures agree."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import gputel.analysis
from gputel.analysis import facts
from gputel.analysis.align import placing
from gputel.analysis.planning import sizes

ROOMS = Path(gputel.analysis.__file__).resolve().parent

DEFINITIONS = {
    "usual time of a step": (r"rolling_median|AROUND = ", "align/placing.py"),
    "FLOPs a parameter": (
        r"FLOPS_PER_PARAMETER = 6|\b6(\.0)? ?\* ?(float\()?[\w.\[\"]*parameters",
        "facts.py",
    ),
    "joules": (r"coalesce\(\s*['\"]energy_counter_j", "align/join.py"),
}


def homes(pattern: str) -> list[str]:
    """The modules of the package's analysis in which the pattern occurs."""
    return [
        str(path.relative_to(ROOMS))
        for path in sorted(ROOMS.rglob("*.py"))
        if re.search(pattern, path.read_text())
    ]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definition_stands_in_one_module(name: str) -> None:
    pattern, home = DEFINITIONS[name]
    assert homes(pattern) == [home]


def test_plan_estimates_the_flops_of_a_size_as_compare_does() -> None:
    size = sizes.of_parameters(10**9, "1B")
    assert size.flops_per_token == facts.estimated_flops(10**9) == 6e9


def test_usual_time_of_a_step_is_the_median_of_the_51_records_around_it() -> None:
    times = pl.DataFrame({"ms": [10.0] * 30 + [None] * 5 + [1000.0] * 10 + [30.0] * 60})
    usual = times.select(placing.usual_near(pl.col("ms")))["ms"]
    assert (usual[0], usual[40], usual[-1]) == (10.0, 30.0, 30.0)
