"""A learning rate above the steps of an epoch, and an accuracy of the training below its loss, are of a record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]

STEPS = range(50, 251, 50)


def epochs(heading: str, step: str = "  step {s} loss {loss:.4f}\n") -> str:
    return "".join(
        heading.format(e=e, lr=0.1 / e) + "".join(step.format(s=s, loss=3 / (e * s)) for s in STEPS)
        for e in (1, 2, 3)
    )


@pytest.mark.parametrize(
    "heading",
    ["Epoch {e}, lr = {lr:.5f}\n", "Epoch {e}/3\nLearning rate: {lr:.5f}\n", "第 {e} 轮\n学习率: {lr:.5f}\n"],
)
def test_rate_above_the_steps_of_an_epoch_is_that_of_the_first(heading: str, read: Read) -> None:
    log = read(epochs(heading))
    first = log.records.filter(step=50)
    assert first["lr"].to_list() == [0.1, 0.05, 0.03333]
    assert log.records["lr"].count() == 3
    assert log.records["step"].to_list() == [*STEPS] * 3


def test_rate_of_an_epoch_whose_batches_name_it_is_of_its_first_record(read: Read) -> None:
    step = "Epoch: {e:03}/003 | Batch {s:04}/0300 | Loss: {loss:.4f}\n"
    text = "".join(
        f"Epoch: {e:03}/003 | Learning Rate: {0.1 / e:.5f}\n"
        + "".join(step.format(e=e, s=s, loss=3 / (e * s)) for s in STEPS)
        for e in (1, 2, 3)
    )
    log = read(text)
    assert log.records.filter(log.records["lr"].is_not_null()).select("step", "lr").rows() == [
        (50, 0.1),
        (350, 0.05),
        (650, 0.03333),
    ]
    assert log.records.height == 15


def test_time_above_the_steps_of_an_epoch_is_of_the_one_before(read: Read) -> None:
    log = read(epochs("Epoch {e}, took {lr:.2f}s\n"))
    assert "dt_ms" not in log.records.columns or log.records["dt_ms"].count() == 0


def test_rate_that_changes_is_no_part_of_a_record(read: Read) -> None:
    log = read(epochs("Epoch {e}\n") + "Reducing learning rate to 0.001\nReducing learning rate to 0.0001\n")
    assert "lr" not in log.records.columns or log.records["lr"].count() == 0


@pytest.mark.parametrize("name", ["accuracy on training set", "train accuracy", "Training acc"])
def test_accuracy_of_the_training_below_its_loss_is_of_the_record(name: str, read: Read) -> None:
    log = read(
        "".join(
            f"epoch: {e}, loss: {3 / e:.4f}\n{name}: 0.{e}1\naccuracy on test set: 0.{e}2\n"
            for e in range(1, 9)
        )
    )
    accuracy = [column for column in log.records.columns if "acc" in column.lower()]
    assert log.records[accuracy[0]].to_list() == [float(f"0.{e}1") for e in range(1, 9)]
    assert log.evals["value"].to_list() == [float(f"0.{e}2") for e in range(1, 9)]


def test_accuracy_of_a_whole_epoch_is_of_no_step(read: Read) -> None:
    steps = [f"step {s} loss {3 / s:.4f}\n" for s in range(1, 41)]
    log = read(
        "".join(line + ("train accuracy: 0.61\n" if at % 10 == 9 else "") for at, line in enumerate(steps))
    )
    assert not [column for column in log.records.columns if "acc" in column.lower()]
