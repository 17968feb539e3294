"""Figures that the bar of an epoch shows before its first batch: they are of the epoch before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BAR = "Epoch {}/3 ━━━━━━━━ {}/2 0:00:01 • 0:00:00 9.00it/s {}"


def bar(epoch: int, count: int, figures: str) -> str:
    return BAR.format(epoch, count, figures) + "\r"


def test_mean_that_shows_when_the_next_bar_begins_is_of_the_epoch_before(read: Callable[..., Any]) -> None:
    text = bar(0, 0, "") + bar(0, 2, "train_loss_step: 2.500 lr: 0.100")
    text += bar(1, 0, "train_loss_step: 2.500 train_loss_epoch: 2.750 lr: 0.100")
    text += bar(1, 2, "train_loss_step: 2.000 train_loss_epoch: 2.750 lr: 0.100")
    text += bar(2, 0, "train_loss_step: 2.000 train_loss_epoch: 2.250 lr: 0.010")
    text += bar(2, 2, "train_loss_step: 1.500 train_loss_epoch: 1.750 lr: 0.010")
    rows = read(text + "\n").records.select("step", "loss", "loss_avg", "lr").rows()
    assert rows == [(0, 2.5, 2.75, 0.1), (1, 2.0, 2.25, 0.1), (2, 1.5, 1.75, 0.01)]


def test_only_mean_of_an_epoch_shows_when_the_next_bar_begins(read: Callable[..., Any]) -> None:
    text = bar(0, 0, "") + bar(0, 2, "")
    for epoch, before in ((1, "2.750"), (2, "2.250")):
        text += bar(epoch, 0, f"train_loss: {before}") + bar(epoch, 2, f"train_loss: {before}")
    rows = read(text + bar(2, 2, "train_loss: 1.750") + "\n").records.select("step", "loss").rows()
    assert rows[-2:] == [(1, 2.25), (2, 1.75)]


def test_loss_that_a_bar_shows_above_its_own_count_is_of_its_epoch(read: Callable[..., Any]) -> None:
    text = "".join(
        f"Epoch {epoch}:   0%|    | 0/1 [00:00<?, ?it/s]\r"
        f"Epoch {epoch}:   0%|    | 0/1 [00:00<?, ?it/s, loss={loss}]\r"
        f"Epoch {epoch}: 100%|████| 1/1 [00:00<00:00, 9.00it/s, loss={loss}]\n"
        for epoch, loss in enumerate(("2.750", "2.250", "1.750"))
    )
    assert read(text).records["loss"].to_list() == [2.75, 2.25, 1.75]


def test_epoch_and_loss_stand_in_front_of_a_bar_with_strokes_between_them(read: Callable[..., Any]) -> None:
    text = "".join(
        f"\rEpoch={epoch} | Batch_id={at} | Loss={4 / (2 * epoch + at):.4f}: {50 * at:3}%|███  | {at}/2 [0:01<0:00]"
        for epoch in (1, 2, 3)
        for at in (1, 2)
    )
    assert read(text + "\n").records.select("step", "loss").rows() == [(1, 1.0), (2, 0.6667), (3, 0.5)]


def test_stroke_of_a_bar_does_not_join_it_to_the_next_one(read: Callable[..., Any]) -> None:
    drawn = "100%|███ | 4/4 [00:01<00:00, 9.00it/s"
    text = "".join(f"Epoch {e}: {drawn}] loss: 2.5: {drawn}, loss={4 / e}]\n" for e in (1, 2, 4))
    assert 2.5 not in read(text).records["loss"].to_list()
