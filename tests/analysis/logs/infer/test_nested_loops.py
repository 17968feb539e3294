"""Loops of evaluation whose lines say so themselves give one result each, and sanity checks give none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]

EPOCHS = (1, 2, 3)


def log_of(train: str, evaluation: str, result: str = "", *, batches: range = range(10, 71, 10)) -> str:
    """Epochs of training, each followed by a loop of evaluation; `{i}` counts batches, `{e}` epochs."""
    passes = (
        [train.format(e=e, i=i, loss=f"{e}.{i:04}") for i in range(10, 51, 10)]
        + [evaluation.format(e=e, i=i, loss=f"5.{e}{i:03}", total=60.5 + e) for i in batches]
        + [result.format(loss=f"6.{e}", total=60.5 + e)]
        for e in EPOCHS
    )
    return "\n".join(line for lines in passes for line in lines if line) + "\n"


@pytest.mark.parametrize(
    ("train", "evaluation"),
    [
        ("[TRAIN] e{e:03} it {i:04}/0050 | loss {loss}", "[VALID] e{e:03} it {i:04}/0070 | loss {loss}"),
        ("[TRAIN] e{e:03} b{i:04} loss={loss}", "[VALID] e{e:03} b{i:04} loss={loss}"),
        ("Training: Epoch [{e}/3], Step [{i}/70], Loss: {loss}",) * 2,
        ("Epoch: {e} Step: {i} batch_loss: {loss}", "Evaluation step: {i} batch_loss: {loss}"),
    ],
)
def test_last_line_of_each_pass_is_the_result(train: str, evaluation: str, read: Read) -> None:
    """Also where the lines count as far as those of the training do, or to no total."""
    evaluation = evaluation.replace("Training", "Evaluating")
    log = read(log_of(train, evaluation))
    assert log.records.height == 15
    assert log.evals.filter(name="val_loss")["value"].to_list() == [5.107, 5.207, 5.307]


def test_result_is_the_average_and_the_total_keeps_its_name(read: Read) -> None:
    result = "Total eval loss: {total}\nAverage Evaluation Loss: {loss}"
    log = read(log_of("Epoch: {e} Step: {i} loss: {loss}", "Evaluation step: {i} batch_loss: {loss}", result))
    assert log.evals.filter(name="val_loss")["value"].to_list() == [6.1, 6.2, 6.3]
    assert log.evals.filter(name="Total_eval_loss")["value"].to_list() == [61.5, 62.5, 63.5]


def test_average_and_total_of_an_evaluation_on_one_line(read: Read) -> None:
    line = "Average eval loss: {loss}, total eval loss: {total}"
    log = read(log_of("epoch {e} step {i} loss {loss}", line, batches=range(1, 2)))
    assert log.evals.filter(name="val_loss").height == 3


def test_evaluations_at_steps_of_which_the_training_prints_nothing_stay(read: Read) -> None:
    lines = [f"val step {i} loss {e}.{i:04}\n" for e in EPOCHS for i in range(10, 71, 10)]
    epochs = [f"epoch {e} train loss {5 / e:.3f}\n" for e in EPOCHS]
    log = read("".join("".join(lines[7 * (e - 1) : 7 * e]) + epochs[e - 1] for e in EPOCHS))
    assert log.evals.height == 21


@pytest.mark.parametrize("sets", [2, 5])
def test_several_sets_of_an_evaluation_stay(sets: int, read: Read) -> None:
    evaluation = "Evaluation batch {i}/5 epoch {e} loss {loss}"
    log = read(log_of("epoch {e} batch {i}/50 loss {loss}", evaluation, batches=range(1, sets + 1)))
    assert log.evals.height == 3 * sets


SANITY = "Sanity check validation\n[1/2] loss: 9.21\n[2/2] loss: 9.20\n"


def test_loop_above_the_first_record_is_no_training(read: Read) -> None:
    epochs = (
        f"Epoch {e}\n"
        + "".join(f"[{i}/100] loss: {e}.{i}\n" for i in range(20, 101, 20))
        + f"Validation\n[1/2] loss: 5.1\n[2/2] loss: 5.{e}\n"
        for e in EPOCHS
    )
    log = read(SANITY + "".join(epochs))
    assert log.records["step"].to_list() == [20, 40, 60, 80, 100] * 3
    assert log.evals["value"].to_list() == [9.2, 5.1, 5.2, 5.3]


def test_sanity_check_is_no_evaluation(read: Read) -> None:
    checks = "".join(f"Sanity check validation: batch {i} loss 9.2{i}\n" for i in (0, 1))
    steps = (
        f"step {s}: loss {9 / s:.4f}\n" + (f"validation: step {s} loss 2.{s}\n" if s % 50 == 0 else "")
        for s in range(10, 201, 10)
    )
    log = read(checks + "".join(steps))
    assert log.evals["step"].to_list() == [50, 100, 150, 200]


def test_loop_longer_than_the_lines_that_are_kept_ends_with_its_result(read: Read) -> None:
    train = "train | epoch = {e}, iter = [{i}|50], loss = {loss}"
    log = read(
        log_of(
            train, train.replace("train", "val").replace("50", "900"), "val loss = {loss}", batches=range(900)
        )
    )
    assert log.evals.select("name", "value").rows() == [("val_loss", 6.0 + e / 10) for e in EPOCHS]
    assert log.records.height == 15
