"""Open records and the phases and attempts that they belong to."""

from __future__ import annotations

import re

import pytest

from gputel.analysis.logs.drafts import OpenRecord, ParsedLine
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
