"""Measures of a test set have a name of their own where the log gives the same ones for a validation set."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
TEST = "Test loss: 0.9113, Test acc: 0.7012\n"


def _trained(evaluation: str) -> str:
    epochs = range(1, 9)
    return "".join(f"Epoch {e}/8, Train loss: {2 / e:.4f}{evaluation.format(3 / e)}\n" for e in epochs)


@pytest.mark.parametrize(
    "evaluation",
    [", Val loss: {:.4f}", "\nVal loss: {:.4f}", "\nDev loss: {:.4f}", "\nValid | loss: {:.4f}"],
    ids=["on the record's line", "below it", "of a dev set", "with a bar"],
)
@pytest.mark.parametrize("trainings", [1, 2, 5])
def test_test_at_the_end_is_told_from_validations(read: Read, evaluation: str, trainings: int) -> None:
    log = read((_trained(evaluation) + TEST) * trainings)
    assert log.records.height == 8 * trainings
    assert log.evals.filter(name="val_loss").height == 8 * trainings
    tests = log.evals.filter(name="test_loss")
    assert tests["value"].to_list() == [0.9113] * trainings
    assert set(tests["step"]) == {8}


def test_test_alone_is_the_validation(read: Read) -> None:
    log = read(_trained("") + TEST)
    assert log.evals.filter(name="val_loss").rows(named=True)[0]["value"] == 0.9113
    assert "test_loss" not in log.evals["name"]


def test_measures_with_names_of_their_own_keep_them(read: Read) -> None:
    log = read(_trained("\nVal loss: {:.4f}") + "Test accuracy: 0.7012\n" * 2)
    assert {*log.evals["name"]} == {"val_loss", "Test_accuracy"}
