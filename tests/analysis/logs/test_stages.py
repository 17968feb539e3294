"""The phase and the attempt that a record belongs to."""

from __future__ import annotations

from gputel.analysis.logs.stages import Stages


def test_falling_step_begins_an_attempt_for_each_rank_on_its_own() -> None:
    stages = Stages()
    places = [stages.record(step, rank) for step, rank in ((1, "0"), (1, "1"), (2, "0"), (2, "1"), (1, "0"))]
    assert [place.attempt for place in places] == [1, 1, 1, 1, 2]


def test_step_that_falls_in_a_later_epoch_begins_none() -> None:
    stages = Stages()
    places = [stages.record(step, None, epoch) for step, epoch in ((90.0, 1.0), (10.0, 2.0), (5.0, 2.0))]
    assert [place.attempt for place in places] == [1, 1, 2]


def test_announced_stage_begins_a_phase_with_its_first_row() -> None:
    stages = Stages()
    stages.announce("base")
    stages.record(5, None)
    stages.announce("sft")
    assert stages.names == ["base"]
    assert (stages.record(0, None), stages.names) == ((1, 1), ["base", "sft"])


def test_evaluations_separate_attempts_only_where_there_are_no_records() -> None:
    alone, beside = Stages(), Stages()
    beside.record(100, None)
    for stages in (alone, beside):
        stages.evaluation(50)
        stages.evaluation(10)
    assert (alone.here.attempt, beside.here.attempt) == (2, 1)
