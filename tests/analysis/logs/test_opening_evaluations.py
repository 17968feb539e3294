"""Evaluations above the first record of a training, where nothing says of which epoch the later ones are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputel.analysis.logs.log import Log

EPOCHS = "Epoch {}/3 - loss: {:.2f}"


def training(begins: float, *, above: bool = True, below: bool = True) -> list[str]:
    """Three epochs with a validation above the first one, below the last one, or both."""
    records = [EPOCHS.format(epoch, begins - epoch / 4) for epoch in (1, 2, 3)]
    losses = [f"Validation loss: {begins + 0.5 - at / 8:.4f}" for at in range(4)]
    lines = [line for pair in zip(losses, records, strict=False) for line in pair]
    return [*lines[not above :], *losses[3:] * below]


def placed(log: Log) -> list[tuple[int, int, float]]:
    return log.evals.select("attempt", "step", "value").rows()


def test_evaluations_above_the_first_and_below_the_last_epoch_are_of_the_epoch_above(
    read: Callable[..., Any],
) -> None:
    log = read("\n".join(training(4.0)) + "\n")
    assert placed(log) == [(1, 1, 4.5), (1, 1, 4.375), (1, 2, 4.25), (1, 3, 4.125)]


def test_evaluation_above_epoch_0_leaves_the_others_in_their_epochs(read: Callable[..., Any]) -> None:
    lines = [
        line for e in range(9) for line in (f"Epoch {e} loss: {4 - e / 9:.3f}", f"val loss: {5 - e / 9:.3f}")
    ]
    log = read("\n".join(["val loss: 7.125", *lines]) + "\n")
    assert log.evals["step"].to_list() == [0, *range(9)]
    assert not log.doubts


def test_evaluations_that_none_follows_are_of_the_epoch_below(read: Callable[..., Any]) -> None:
    log = read("\n".join(training(4.0, below=False)) + "\n")
    assert placed(log) == [(1, 1, 4.5), (1, 2, 4.375), (1, 3, 4.25)]


@pytest.mark.parametrize("below", [True, False])
def test_evaluation_above_the_first_record_of_a_second_training_belongs_to_it(
    *, below: bool, read: Callable[..., Any]
) -> None:
    lines = [*training(4.0, below=below), "Now the wider network", *training(5.0, below=below)]
    log = read("\n".join(lines) + "\n")
    each = placed(read("\n".join(training(5.0, below=below)) + "\n"))
    assert placed(log)[len(each) :] == [(2, step, loss) for _, step, loss in each]


def test_last_evaluation_of_a_training_stays_in_it_where_none_stands_above_the_first_record(
    read: Callable[..., Any],
) -> None:
    lines = [*training(4.0, above=False), *training(5.0, above=False)]
    log = read("\n".join(lines) + "\n")
    assert log.evals["attempt"].to_list() == [1, 1, 1, 2, 2, 2]
    assert log.evals["step"].to_list() == [1, 2, 3] * 2


def test_line_of_figures_alone_at_a_step_below_the_records_belongs_to_the_next_training(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    records = iteration(5, 4.0) + iteration(10, 3.5)
    first = '{"step": 0, "val_loss": 4.5}\n' + records + '{"step": 10, "val_loss": 4.25}\n'
    log = read(first * 2)
    assert log.evals.select("attempt", "step").rows() == [(1, 0), (1, 10), (2, 0), (2, 10)]


def test_evaluation_below_the_heading_of_an_earlier_epoch_is_of_the_training_that_it_begins(
    read: Callable[..., Any],
) -> None:
    alone, evaluated = [], []
    for epoch in (1, 2):
        heading = f"Epoch [{epoch}/2]"
        steps = (200 * epoch, 200 * epoch + 100)
        records = [f"Iter: {at} | Train Loss: {9.5 - at / 100:.4f}" for at in steps]
        tests = [f"Test accuracy: {40.5 + at / 64:.2f}%" for at in steps]
        alone += [heading, *records]
        evaluated += [heading, *(line for pair in zip(tests, records, strict=True) for line in pair)]
    log = read("\n".join(alone + evaluated) + "\n")
    assert log.evals.select("attempt", "step").rows() == [(2, step) for step in (200, 300, 400, 500)]


@pytest.mark.parametrize("first", [0, 1])
def test_loss_above_the_first_epoch_is_of_the_untrained_model(read: Callable[[str], Log], first: int) -> None:
    line = "  train loss {:.4f}\n  val loss {:.4f}\n"
    text = "Untrained:\n" + line.format(16.5, 17.5)
    text += "".join(f"Epoch {e}\n{line.format(9 / (e + 1), 8 / (e + 1))}" for e in range(first, 9))
    log = read(text)
    assert log.records["step"].to_list() == [*range(first, 9)]
    assert ("train_loss", 16.5, first) in log.evals.select("name", "value", "step").rows()
    assert log.evals.filter(name="val_loss")["value"][0] == 17.5
    assert not log.doubts


def test_record_above_a_later_epoch_is_of_the_one_before(read: Callable[[str], Log]) -> None:
    line = "  train loss {:.4f}\n  val loss {:.4f}\n"
    text = line.format(16.5, 17.5) + "".join(f"Epoch {e}\n{line.format(9 / e, 8 / e)}" for e in range(4, 12))
    assert read(text).records["loss"].to_list()[:2] == [16.5, 2.25]


def test_each_training_may_begin_with_the_loss_of_the_untrained_model(read: Callable[[str], Log]) -> None:
    text = ""
    for model, untrained in (("vgg", 16.5), ("resnet", 15.5)):
        text += f"Model: {model}\nTrain loss: {untrained}, val loss: 17.5\n"
        text += "".join(f"Epoch {e}\nTrain loss: {9 / e:.3f}, val loss: {8 / e:.3f}\n" for e in range(1, 9))
    log = read(text)
    assert log.records.select("attempt", "step").rows() == [(at, e) for at in (1, 2) for e in range(1, 9)]
    assert log.evals.filter(name="train_loss")["value"].to_list() == [16.5, 15.5]


def test_figures_below_an_evaluation_that_names_its_epoch_are_of_that_epoch(read: Callable[..., Any]) -> None:
    """The first ones stand above all records, and the last ones are missing, as in an excerpt."""
    epochs = [
        f"epoch {e} training took 9.5s, train loss: {4 / e:.3f}\n"
        f"epoch {e} evaluating took 2.5s, valid score: 0.{e}5\nvalid result:\nrecall: 0.{e}5 ndcg: 0.{e}25\n"
        for e in range(4, 8)
    ]
    excerpt = "valid result:\nrecall: 0.35 ndcg: 0.325\n" + "".join(epochs)
    log = read(excerpt[: excerpt.rindex("recall")])
    recalls = log.evals.filter(name="recall").select("step", "value").rows()
    assert recalls[1:] == [(4, 0.45), (5, 0.55), (6, 0.65)]


@pytest.mark.parametrize(("last", "steps"), [(100, [100, 200]), (80, [120, 220])])
def test_evaluation_below_the_last_batch_of_an_epoch_is_of_that_batch(
    last: int, steps: list[int], read: Callable[..., Any]
) -> None:
    """Below another batch the log leaves open when it was made."""
    batches = [
        [f"Epoch {e} [{b}/100] loss: {4 / (e + b / 100):.3f}" for b in (20, 60, last)] for e in (1, 2, 3)
    ]
    first, second, third = ("\n".join(each) for each in batches)
    log = read(f"{first}\nTest loss: 1.5\n{second}\nTest loss: 1.25\n{third}\n")
    assert log.evals["step"].to_list() == steps


@pytest.mark.parametrize(
    ("count", "epoch", "attempts", "step"),
    [("batch", 13, [1], None), ("batch", 1, [1, 2], 200), ("step", 13, [1, 2], 200)],
)
def test_batches_above_a_later_epoch_are_of_one_that_an_excerpt_leaves_out(
    count: str, epoch: int, attempts: list[int], step: int | None, read: Callable[..., Any]
) -> None:
    """Above the first epoch they are of another training, and so are steps, which go on over epochs."""
    first, second = (
        "".join(f"{count} {b} loss {of / (b + 9):.4f}\n" for b in (50, 100, 150, 200)) for of in (90, 80)
    )
    log = read(f"{first}Dev F1: 0.75\nEpoch:  {epoch}\n{second}")
    assert log.records["attempt"].unique().to_list() == attempts
    assert log.evals["step"].to_list() == [step]


@pytest.mark.parametrize(("first", "steps"), [(1, [1, 1, 2, 3]), (7, [None, 7, 8, 9])])
@pytest.mark.parametrize("place", ["", "epoch {e} "])
def test_evaluation_above_an_excerpt_is_of_an_epoch_that_it_leaves_out(
    place: str, first: int, steps: list[int | None], read: Callable[..., Any]
) -> None:
    epochs = [
        f"epoch {e} loss: {4 / e:.3f}\n{place.format(e=e)}val auc: 0.{e}5\n" for e in range(first, first + 3)
    ]
    log = read("val auc: 0.4375\n" + "".join(epochs))
    assert sorted(log.evals.select("value", "step").rows()) == sorted(
        zip([0.4375, *(float(f"0.{e}5") for e in range(first, first + 3))], steps, strict=True)
    )
    assert not log.doubts
