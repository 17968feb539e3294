"""The causes that the rules name for trainings that were slowed on purpose, by the figures that were measured."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from benchmarks.slow_steps import CAUSES, NO_CAUSE, RESULTS, Judged, has_slowed
from gputel.analysis.report.causes import named_cause

KILLED = "memory"
"""It is judged by the end of the run, not by its slow seconds."""
PLANTED = [json.loads(line) for line in RESULTS.read_text().splitlines()]


def judged(row: dict[str, Any]) -> Judged:
    """The row with the answer of today's rules."""
    cause = named_cause(row["slow"], row["usual"]) if row["slow"] else None
    return Judged(row["cause"], row["number"], row["slowed"], cause.answer if cause else NO_CAUSE)


@pytest.fixture(scope="module")
def answers() -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {cause: Counter() for cause in CAUSES if cause != KILLED}
    for each in map(judged, (row for row in PLANTED if row["cause"] != KILLED)):
        if has_slowed(each, CAUSES[each.cause]):
            found[each.cause][each.answer] += 1
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


def test_nothing_is_named_where_nothing_was_planted_or_a_gpu_was_slow(
    answers: dict[str, Counter[str]],
) -> None:
    assert set(answers["undisturbed"]) | set(answers["gpu"]) == {NO_CAUSE}
