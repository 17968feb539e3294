"""A figure is read by its own name, not by the last words of a longer one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log


def epochs(summary: str) -> str:
    """Three epochs; below each stand the results of an evaluation, and a line that sums up the epoch."""
    lines = []
    for epoch in range(3):
        lines += [
            f"INFO:run:Epoch {epoch} | Step {step}/60 | Loss: {9 / (60 * epoch + step):.4f} | LR: 1e-4"
            for step in range(10, 61, 10)
        ]
        lines += ["INFO:run:Evaluation Results:", f"INFO:run:   Loss: 0.{9 - epoch}301"]
        lines += [f"INFO:run:   Perplexity: 2.{9 - epoch}0", "INFO:run:" + summary.format(epoch)]
    return "\n".join(lines)


def test_average_loss_of_an_epoch_is_no_loss_of_its_evaluation(read: Callable[[str], Log]) -> None:
    log = read(epochs("Epoch {0} completed in 29.23s | Avg Loss: 0.1{0}70"))
    assert log.evals.filter(name="val_loss")["value"].to_list() == [0.9301, 0.8301, 0.7301]


def test_loss_of_an_evaluation_is_read_behind_any_prefix(read: Callable[[str], Log]) -> None:
    """The words before it are no part of its name."""
    log = read(epochs("saved {0}.pt").replace("INFO:run:", "2024-05-01 10:00:00 INFO run "))
    assert log.evals.filter(name="val_loss")["value"].to_list() == [0.9301, 0.8301, 0.7301]


@pytest.mark.parametrize("name", ["Best Valid_Loss", "Lowest Valid_Loss"])
def test_longer_name_of_a_lone_figure_is_another_one(name: str, read: Callable[[str], Log]) -> None:
    lines = [
        f"step {s} loss={9 / s:.4f}\n" + f"Valid_Loss={8 / s:.4f}\n" * (s % 5 == 0) for s in range(1, 31)
    ]
    log = read("".join(lines) + f"{name}=0.1234\nTraining finished\n")
    assert log.evals["value"].to_list() == [round(8 / s, 4) for s in range(5, 31, 5)]
