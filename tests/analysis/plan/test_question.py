"""The question to a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputel.analysis.plan.inputs import machine
from gputel.analysis.plan.memory import Recipe
from gputel.analysis.plan.question import Question, accumulation
from gputel.telemetry.errors import GputelError

ASKED = Question(machine("2xH100"), Recipe(1))


def test_budget_buys_hours_of_all_gpus() -> None:
    assert replace(ASKED, budget=100, price=5).most_hours == 10
    assert replace(ASKED, budget=100, price=5, hours=3).most_hours == 3
    assert ASKED.most_hours is None


def test_batches_that_divide_a_step_are_tried_largest_first() -> None:
    assert [recipe.device_batch for recipe in ASKED.recipes(2048)] == [32, 16, 8, 4, 2, 1]
    assert [recipe.device_batch for recipe in replace(ASKED, device_batch=4).recipes(2048)] == [4]


def test_accumulation_fills_a_step() -> None:
    assert accumulation(524_288, 32, 2048, 2) == 4
    with pytest.raises(GputelError, match="--total-batch-size 516096"):
        accumulation(524_288, 7, 2048, 2)
