"""The causes that the rules name for trainings that were slowed on purpose, by the figures that were measured."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.plants.slow_causes import CAUSES, NO_CAUSE
from gputel.analysis.report.causes import named_cause

KILLED = "memory"
"""It is judged by the end of the run, not by its slow seconds."""
RESULTS = Path(__file__).parents[3] / "benchmarks" / "results" / "slow_steps.jsonl"
PLANTED = [json.loads(line) for line in RESULTS.read_text().splitlines()]


def answer_today(row: dict[str, Any]) -> str:
    """What the rules of today say of the figures."""
    cause = named_cause(row["slow"], row["usual"]) if row["slow"] else None
    return cause.answer if cause else NO_CAUSE


@pytest.fixture(scope="module")
def answers() -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {cause: Counter() for cause in CAUSES if cause != KILLED}
    for row in PLANTED:
        if row["cause"] != KILLED and CAUSES[row["cause"]].counts(row["slowed"]):
            found[row["cause"]][answer_today(row)] += 1
    return found


@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause != KILLED])
def test_four_of_five_plants_of_each_cause_are_named(cause: str, answers: dict[str, Counter[str]]) -> None:
    right = sum(answers[cause][answer] for answer in CAUSES[cause].answers)
    assert answers[cause].total() > 0
    assert right >= 0.8 * answers[cause].total()


def test_nineteen_of_twenty_causes_that_are_named_are_right(answers: dict[str, Counter[str]]) -> None:
    named = right = 0
    for cause, counts in answers.items():
        for answer, count in counts.items():
            named += count * (answer != NO_CAUSE)
            right += count * (answer != NO_CAUSE and answer in CAUSES[cause].answers)
    assert right >= 0.95 * named > 0


def test_nothing_is_named_where_a_gpu_was_slow(answers: dict[str, Counter[str]]) -> None:
    assert set(answers["gpu"]) == {NO_CAUSE}


def test_undisturbed_trainings_are_seldom_blamed_and_only_on_what_ran_beside_them(
    answers: dict[str, Counter[str]],
) -> None:
    """Other programs ran on the machine of the recordings, and slowed a training now and then."""
    found = answers["undisturbed"]
    assert set(found) <= {NO_CAUSE, *CAUSES["neighbors"].answers}
    assert found[NO_CAUSE] >= 0.95 * found.total()
