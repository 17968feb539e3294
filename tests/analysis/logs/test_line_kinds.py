"""Lines with the same fields are records, evaluations or neither, and give a step in one way."""

from __future__ import annotations

import re

import pytest

from gputel.analysis.logs.line_kinds import LinePlan, plan
from gputel.analysis.logs.patterns import Field, Pattern, Role


def planned(*columns: str, role: Role = "train") -> LinePlan:
    pattern = Pattern("p", role, re.compile(b""), b"")
    return plan(pattern, tuple(Field(column, column) for column in columns))


@pytest.mark.parametrize(
    ("columns", "record"),
    [
        (("step", "loss"), True),
        (("step", "lr"), True),
        (("step", "box_loss"), True),
        (("step", "samples_per_s"), True),
        (("step", "acc"), False),
        (("count", "total"), False),
        (("val_loss", "dt_ms"), False),
        (("val_loss", "loss"), True),
        (("loss_scale",), False),
    ],
)
def test_line_is_a_record_if_it_measures_training(columns: tuple[str, ...], record: bool) -> None:
    assert planned(*columns).record is record


def test_evaluation_line_gives_no_record_and_its_training_loss_is_an_evaluation() -> None:
    line = planned("step", "loss", "val_loss", "lr", role="eval")
    assert (line.record, set(line.evals), set(line.columns)) == (False, {"train_loss", "val_loss"}, {"step"})


def test_rates_of_groups_and_the_time_are_no_evaluations() -> None:
    """`{'eval_loss': 1.5, 'lr/vision': 1e-05}`, and `Valid Loss 0.5 | Time 12.5 sec`."""
    line = planned("epoch", "val_loss", "lr_vision", "Time_s", "val_lrap", role="eval")
    assert set(line.evals) == {"val_loss", "val_lrap"}


@pytest.mark.parametrize(
    ("cells", "zero_based", "step"),
    [
        ({"step": 7.0, "epoch": 2.0}, False, 7.0),
        ({"iteration": 7.0, "batch": 3.0}, False, 7.0),
        ({"epoch": 2.0, "index": 50.0, "length": 100.0}, False, 150.0),
        ({"epoch": 2.0, "index": 50.0, "length": 100.0}, True, 250.0),
        ({"epoch": 2.0}, False, None),
    ],
)
def test_step_comes_from_the_finest_place(
    cells: dict[str, float], zero_based: bool, step: float | None
) -> None:
    assert planned(*cells, "loss").step(cells, zero_based) == step


def test_places_that_only_give_the_step_are_no_columns_of_the_record() -> None:
    assert "index" in planned("epoch", "index", "length", "loss").places
    assert "batch" not in planned("step", "batch", "loss").places


def test_second_field_of_one_column_keeps_its_own_name() -> None:
    pattern = Pattern("p", "train", re.compile(b""), b"")
    fields = (Field("loss", "loss"), Field("loss", "lm loss"), Field("rank", "rank"))
    assert set(plan(pattern, fields).columns) == {"loss", "lm_loss", "rank_"}
