"""A bar goes on showing the last evaluation: its figures are of the epoch in which they were measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Read = Callable[[str], Any]
LOSSES = (0.75, 0.5, 0.625, 0.375)


def redraw(epoch: int, count: int, loss: float, validated: float | None = None) -> str:
    shown = "" if validated is None else f", val_loss={validated}"
    drawn = f"{5 * count:3d}%|{'#' * (count // 2):10}| {count}/20"
    return f"Epoch {epoch}: {drawn} [00:01<00:01, 9.50it/s, loss={loss}{shown}]\r"


def late(epochs: int) -> str:
    """Each epoch ends before its validation, whose result the bar of the next one shows first."""
    text, before = "", None
    for epoch in range(epochs):
        text += "".join(redraw(epoch, count, 1 / (epoch + 1), before) for count in (0, 10, 20)) + "\n"
        before = LOSSES[epoch]
    return text


def steps_and_losses(log: Any) -> list[tuple[int, float]]:
    rows: list[tuple[int, float]] = log.evals.filter(name="val_loss").select("step", "value").rows()
    return rows


def test_figures_before_the_first_batch_are_of_the_epoch_before(read: Read) -> None:
    log = read(late(4) + redraw(4, 0, 0.2, LOSSES[3]) + redraw(4, 20, 0.2, 0.25) + "\n")
    assert steps_and_losses(log) == [*enumerate(LOSSES), (4, 0.25)]
    assert log.records["step"].to_list() == [0, 1, 2, 3, 4]


def test_epoch_that_is_broken_off_shows_nothing_of_its_own(read: Read) -> None:
    ends = [
        redraw(0, 0, 1.0) + redraw(0, 20, 0.9, 0.75) + "\n",
        redraw(1, 0, 0.8, 0.75) + redraw(1, 8, 0.7, 0.75),
    ]
    assert steps_and_losses(read("".join(ends))) == [(0, 0.75)]


@pytest.mark.parametrize(("loss", "epochs"), [(0.9, [0]), (0.8, [0, 1])])
def test_mean_loss_that_a_bar_shows_until_it_breaks_off_is_of_the_epoch_before(
    loss: float, epochs: list[int], read: Read
) -> None:
    log = read(redraw(0, 10, 1.0) + redraw(0, 20, 0.9) + "\n" + redraw(1, 0, 0.9) + redraw(1, 8, loss))
    assert log.records["step"].to_list() == epochs


def test_figures_that_a_whole_epoch_shows_again_count_again(read: Read) -> None:
    """An accuracy of 1 may be the same in each epoch."""
    epochs = "".join(
        redraw(e, 0, 0.5, 0.25 if e else None) + redraw(e, 20, 0.5, 0.25) + "\n" for e in range(4)
    )
    assert steps_and_losses(read(epochs)) == [(e, 0.25) for e in range(4)]


def test_bar_of_a_run_that_begins_again_shows_nothing_of_the_run_before(read: Read) -> None:
    log = read(late(3) + redraw(0, 0, 1.0, 2.5) + redraw(0, 20, 1.0, 0.875) + "\n")
    assert log.evals.filter(name="val_loss").select("attempt", "step", "value").rows() == [
        (1, 0, 0.75),
        (1, 1, 0.5),
        (2, 0, 0.875),
    ]


def test_figure_that_a_line_prints_with_more_digits_counts_once(read: Read) -> None:
    line = "Epoch 0, global step 20: 'val_loss' reached 0.75041 (best 0.75041), saving model to 'a/epoch=0.ckpt'\n"
    shown = redraw(1, 0, 0.8, 0.75) + redraw(1, 20, 0.7, 0.5) + "\n"
    log = read(redraw(0, 0, 1.0) + redraw(0, 20, 0.9) + "\n" + line + shown)
    assert steps_and_losses(log) == [(0, 0.75041), (1, 0.5)]


@pytest.mark.parametrize("metric", ["val_loss", "valid/accuracy"])
def test_monitored_metric_is_all_that_a_file_has_of_an_epoch(metric: str, read: Read) -> None:
    """rich draws no bar where the output is no terminal."""
    line = "Epoch {0}, global step {1}: '{2}' reached {3} (best {3}), saving model to 'a.ckpt'\n"
    lines = [line.format(e, 20 * e + 20, metric, value) for e, value in enumerate(LOSSES)]
    log = read("".join(lines))
    assert log.evals.select("step", "value").rows() == [*enumerate(LOSSES)]
    assert log.records.height == 0
    assert read(lines[0].replace(metric, "train_loss")).evals.height == 0


def _announced(epochs: int, total: int, ends: str = "20/20 - 1s - loss: {}\n") -> str:
    return "".join(f"Epoch {at}/{total}\n" + ends.format(1 / at) for at in range(1, epochs + 1))


DRAWN = " 1/20 [=>......] - ETA: 1s - loss: 2.5\r20/20 [======] - 1s 5ms/step - loss: {}\n"


@pytest.mark.parametrize("bar", ["20/20 - 1s - loss: {}\n", DRAWN])
def test_bar_below_that_of_the_last_epoch_is_of_a_test(bar: str, read: Read) -> None:
    log = read(_announced(4, 4, bar) + bar.format(0.125))
    assert log.records["loss"].to_list() == [1 / at for at in range(1, 5)]
    assert steps_and_losses(log) == [(4, 0.125)]


def test_bar_below_that_of_an_earlier_epoch_is_a_record_whose_heading_is_missing(read: Read) -> None:
    log = read(_announced(3, 4, DRAWN) + DRAWN.format(0.125))
    assert log.records["loss"].to_list() == [1.0, 0.5, 1 / 3, 0.125]
    assert log.evals.height == 0


def _every(first: int, shown: list[float | None]) -> str:
    """Bars of epochs that show a validation loss at their end, and the one before until then."""
    text, before = "", None
    for epoch, loss in enumerate(shown, first):
        text += redraw(epoch, 0, 1 / (epoch + 1), before) + redraw(epoch, 20, 1 / (epoch + 1), loss) + "\n"
        before = loss
    return text


def test_epochs_between_evaluations_show_the_last_one(read: Read) -> None:
    losses = [None, None, 0.75, 0.75, 0.75, 0.5, 0.5, 0.5, 0.5]
    assert steps_and_losses(read(_every(0, losses))) == [(2, 0.75), (5, 0.5), (8, 0.5)]
    assert steps_and_losses(read(_every(1, losses))) == [(3, 0.75), (6, 0.5), (9, 0.5)]


def test_every_epoch_may_measure_the_same(read: Read) -> None:
    assert steps_and_losses(read(_every(0, [0.75, 0.75, 0.5]))) == [(0, 0.75), (1, 0.75), (2, 0.5)]


def test_mean_that_the_next_bar_shows_first_makes_a_record(read: Read) -> None:
    bar = "Epoch {}: {:3d}%|{:10}| {}/20 [00:01<00:01, 9.50it/s{}]"
    text, before, mean = "", "", ""
    for epoch, loss in enumerate(LOSSES):
        measured = f", val_loss={loss / 2}"
        text += bar.format(epoch, 0, "", 0, before) + "\r"
        text += bar.format(epoch, 100, "#" * 10, 20, measured + mean) + "\n"
        mean = f", train_loss={loss}"
        before = measured + mean
    log = read(text)
    assert log.records.select("step", "loss").rows()[:3] == [*enumerate(LOSSES[:3])]
    assert steps_and_losses(log) == [(epoch, loss / 2) for epoch, loss in enumerate(LOSSES)]


def test_ends_of_several_bars_in_the_last_epoch_are_records_as_in_those_before(read: Read) -> None:
    ends = "20/20 - 1s - loss: {0:.2f}\n20/20 - 1s - loss: {0:.2f}5\n"
    log = read(_announced(3, 3, ends))
    assert log.records.height == 6
    assert log.evals.height == 0
