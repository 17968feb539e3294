"""An evaluation that names no step belongs to the record whose step is round."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gputel.analysis.logs.log import Log


def training(*, first: int, above: bool) -> Iterator[str]:
    """Records at every 20th step, and evaluations at every 100th: above its record, or below it."""
    for step in range(first, 520, 20):
        record = f"[INFO] Step {step}/ 1000; xent: {200 / (step + 40):.3f}; lr: 0.001"
        evaluation = [f"[INFO] Validation perplexity: {900 / (step + 40):.2f}"] * (step % 100 == 0)
        yield from [*evaluation, record] if above else [record, "[INFO] Loading shard 0", *evaluation]


@pytest.mark.parametrize("above", [False, True])
def test_evaluation_takes_the_round_step_beside_it(above: bool, read: Callable[[str], Log]) -> None:
    log = read("\n".join(training(first=20, above=above)))
    assert log.evals["step"].to_list() == [100, 200, 300, 400, 500]
    assert log.records["step"].to_list() == list(range(20, 520, 20))


def test_evaluation_above_the_first_record_shows_that_all_stand_above(read: Callable[[str], Log]) -> None:
    log = read("\n".join(training(first=0, above=True)))
    assert log.evals["step"].to_list() == [0, 100, 200, 300, 400, 500]


def test_two_evaluations_show_no_interval(read: Callable[[str], Log]) -> None:
    text = "\n".join(training(first=20, above=False))
    log = read(text.partition("[INFO] Step 260/")[0])
    assert log.evals["step"].to_list() == [120, 220]


def test_training_and_validation_loss_by_the_names_of_their_sets(read: Callable[[str], Log]) -> None:
    """They are evaluations of the record above them, every 100 updates."""
    lines = [f"[10_{n:02}_07] Epoch: 0, Update: {20 * n}, Cost: {900 / (n + 9):.4f}" for n in range(1, 26)]
    for at in (25, 20, 15, 10, 5):
        lines.insert(at, f"Train: {50 - at}.25 Val: {60 - at}.5 ValPerp: {40 - at}.75")
    log = read("\n".join(lines))
    losses = [(20 * at, 60.5 - at) for at in (5, 10, 15, 20, 25)]
    assert [row for *row, name in log.evals.select("step", "value", "name").rows() if name == "val_loss"] == [
        [*loss] for loss in losses
    ]
    assert log.records.height == 25
