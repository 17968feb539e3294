"""Bars of a training and of an evaluation whose figures have names of their own: `dice_loss=0.5`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Read = Callable[[str], Any]
EPOCHS = range(4)


def _bar(words: str, total: int, figure: float, sep: str) -> str:
    """A bar with a redraw for each batch; the last one is drawn twice."""
    rows = []
    for count in [*range(1, total + 1), total]:
        figures = f"dice_loss{sep}{figure - count / 64:.4f}, overlap_score{sep}{figure / 2:.4f}"
        drawn = f"{100 * count // total:3d}%|{'#' * count:10}| {count}/{total}"
        rows.append(f"\r{words}: {drawn} [00:01<00:00, 9.50it/s, {figures}]")
    return "".join(rows) + "\n"


def _log(
    train: str, held_out: str, totals: tuple[int, int], heading: str = "Epoch: {}\n", sep: str = "="
) -> str:
    return "".join(
        heading.format(at)
        + _bar(train.format(at), totals[0], 2 / (at + 1), sep)
        + _bar(held_out.format(at), totals[1], 3 / (at + 1), sep)
        for at in EPOCHS
    )


@pytest.mark.parametrize("totals", [(4, 2), (4, 4)])
@pytest.mark.parametrize(
    ("train", "held_out", "heading"),
    [
        ("train", "valid", "Epoch: {}\n"),
        ("Training", "Evaluating", "Epoch: {}\n"),
        ("Epoch {} train", "Epoch {} valid", ""),
    ],
)
@pytest.mark.parametrize("sep", ["=", " - "])
def test_bar_of_a_held_out_set_gives_an_evaluation(
    totals: tuple[int, int], train: str, held_out: str, heading: str, sep: str, read: Read
) -> None:
    log = read(_log(train, held_out, totals, heading, sep))
    assert log.records["step"].to_list() == [*EPOCHS]
    assert log.records["loss"].to_list() == pytest.approx([2 / (at + 1) - 4 / 64 for at in EPOCHS], abs=1e-4)
    losses = log.evals.filter(name="val_dice_loss")
    assert losses["step"].to_list() == [*EPOCHS]
    expected = [3 / (at + 1) - totals[1] / 64 for at in EPOCHS]
    assert losses["value"].to_list() == pytest.approx(expected, abs=1e-4)
    assert {*log.evals["name"]} == {"val_dice_loss", "val_overlap_score"}


def test_words_before_a_bar_of_the_training_may_differ(read: Read) -> None:
    text = "".join(f"Epoch: {at}\n" + _bar(("first", "then")[at % 2], 4, 2 / (at + 1), "=") for at in EPOCHS)
    assert read(text).records["step"].to_list() == [*EPOCHS]
