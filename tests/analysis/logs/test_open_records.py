"""Bars count by their last redraws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl


def test_redraws_before_the_last_are_partial_rows(read: Callable[[str], Any]) -> None:
    bar = "\r 10%|#| 1/10 [00:01<00:09,  1.0it/s, loss={}]"
    log = read(bar.format(2.5) + bar.format(2.25) + bar.format(2.0) + "\n")
    assert log.records["loss"].to_list() == [2.0]
    assert log.partials["loss"].to_list() == [2.5, 2.25]


def test_bar_of_another_length_after_a_finished_epoch_is_a_test(read: Callable[[str], Any]) -> None:
    train = "Epoch 1/2\n" + "".join(f"{i}/10 [==>..] - ETA: 3s - loss: 0.{i}\r" for i in (5, 10)) + "\n"
    log = read(train + "4/4 [====] - 3s 2ms/step - loss: 0.75\n")
    assert log.records.height == 1
    assert log.evals.filter(pl.col("name") == "val_loss")["value"].to_list() == [0.75]


def test_training_of_another_length_begins_where_its_epochs_do(read: Callable[[str], Any]) -> None:
    """A second `fit` in one script, whose data has another size, is no test of the first."""
    bar = "{0}/{0} [==============================] - 1s 5ms/step - loss: {1}\n"
    fits = ["".join(f"Epoch {e}/3\n{bar.format(size, 1 / e)}" for e in (1, 2, 3)) for size in (100, 70)]
    log = read("".join(fits))
    assert log.records.select("attempt", "step").rows() == [(a, e) for a in (1, 2) for e in (1, 2, 3)]
    assert log.evals.height == 0


def test_bar_that_begins_once_more_below_its_epoch_is_another_record(read: Callable[[str], Any]) -> None:
    """The lines of later epochs are missing: no step is made up for their bars."""
    bar = "{0:3d}%|{1:10}| {0}/100 [00:01<00:01, 9.5it/s, loss=0.{2}]\n"
    epoch = "".join(bar.format(done, "#" * (done // 10), "{0}") for done in (10, 50, 100))
    log = read("Epoch 1/3\n" + "".join(epoch.format(loss) for loss in (75, 5, 25)))
    assert log.records.select("step", "loss").rows() == [(1, 0.75), (None, 0.5), (None, 0.25)]
    assert log.partials.height == 6
    whole = read("".join(f"Epoch {at + 1}/3\n" + epoch.format(loss) for at, loss in enumerate((75, 5, 25))))
    assert whole.records.select("step", "loss").rows() == [(1, 0.75), (2, 0.5), (3, 0.25)]
