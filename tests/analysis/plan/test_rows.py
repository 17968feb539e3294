"""One planned run: every figure, its range, its warnings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.plan import inputs, rows
from gputel.analysis.plan.inputs import machine
from gputel.analysis.plan.memory import Recipe
from gputel.analysis.plan.question import Question
from gputel.analysis.plan.rows import Row

Plan = Callable[..., Row]


def test_assumed_figures_are_ranges_and_others_are_not(plan: Plan) -> None:
    for name, figure in plan(24, "8xA100", nodes=2, link=12.5e9, price=2, data_tokens=10**10).figures.items():
        assert figure.is_range == (figure.origin == "assumed"), name
        assert figure.sources, name


def test_more_tokens_than_the_hours_allow_are_a_warning(plan: Plan) -> None:
    (warning,) = plan(24, "8xH100", tokens=10**12, hours=31.0, price=4.0).warnings
    assert warning.startswith("takes ")
    assert warning.endswith("; the limit is 1 d 07 h")


def test_data_read_more_than_four_times_is_a_warning(plan: Plan) -> None:
    asked = {"tokens": 34 * 350_000_000, "data_tokens": 350_000_000, "vocab": 32}
    row = plan(64, "8xH100-PCIe", **asked)
    assert row.figures["epochs"].value == pytest.approx(34, rel=1e-3)
    assert row.warnings == ("reads its data 34 times; more than 4 epochs help little",)


def test_parameters_alone_are_warned_to_take_a_shape() -> None:
    size = inputs.of_parameters(1_500_000_000, "1.5B")
    assert (size.parameters, size.flops_per_token) == (1_500_000_000, 9_000_000_000)
    row = rows.row(Question(machine("8xA100"), Recipe(1)), size)
    assert row.figures["dim"].origin == "assumed"
    assert row.warnings == ("has no shape: memory and MFU are those of 29 layers of width 1,856",)
