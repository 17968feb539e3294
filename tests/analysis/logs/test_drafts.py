"""Open records and the phases and attempts that they belong to."""

from __future__ import annotations

import re

import pytest

from gputel.analysis.logs.drafts import OpenRecord, ParsedLine, Stages
from gputel.analysis.logs.line_kinds import plan
from gputel.analysis.logs.patterns import Field, Pattern, Role


def line(pattern: Pattern, **cells: float) -> ParsedLine:
    fields = tuple(Field(name, name) for name in cells)
    return ParsedLine(pattern, plan(pattern, fields), cells, {}, 1, None, None)


def kind(name: str, role: Role = "train") -> Pattern:
    return Pattern(name, role, re.compile(b""), b"")


FIRST = kind("first")


def opened(**cells: float) -> OpenRecord:
    begun = line(FIRST, **cells)
    return OpenRecord(begun, cells.get("step"), begun.metrics(), begun.evaluations())


@pytest.mark.parametrize(
    ("cells", "takes"),
    [
        ({"step": 3.0, "lr": 1e-4}, True),
        ({"step": 3.0, "loss": 2.5, "lr": 1e-4}, True),
        ({"step": 4.0, "lr": 1e-4}, False),
        ({"step": 3.0, "epoch": 2.0, "lr": 1e-4}, False),
    ],
)
def test_line_of_another_shape_adds_to_the_record_of_its_step(cells: dict[str, float], takes: bool) -> None:
    assert opened(step=3.0, epoch=1.0, loss=2.0).takes(line(kind("other"), **cells), cells["step"]) is takes


def test_line_of_the_same_kind_that_prints_a_value_again_is_a_copy() -> None:
    assert not opened(step=3.0, loss=2.0).takes(line(FIRST, step=3.0, loss=2.0), 3.0)


@pytest.mark.parametrize(
    ("cells", "takes"),
    [
        ({"loss": 2.0, "val_loss": 2.5}, True),
        ({"loss": 2.25, "val_loss": 2.5}, False),
        ({"loss": 2.0, "lr": 1e-4}, False),
    ],
)
def test_line_of_the_same_kind_with_the_same_loss_and_an_evaluation_ends_the_epoch(
    cells: dict[str, float], takes: bool
) -> None:
    assert opened(step=3.0, loss=2.0).takes(line(FIRST, step=3.0, **cells), 3.0) is takes


def test_part_adds_to_any_record_that_lacks_its_values() -> None:
    record = opened(step=3.0, loss=2.0)
    part = line(kind("part", "part"), lr=1e-4)
    assert record.takes(part, None)
    record.add(part, None)
    assert (record.cells["lr"], record.step) == (1e-4, 3.0)
    assert not record.takes(part, None)


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
