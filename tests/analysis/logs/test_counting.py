"""The step of a line, from the line and those before it; the step of an evaluation that prints none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from gputel.analysis.logs.log import Log

Rows = Callable[..., Any]


@pytest.mark.parametrize(
    ("first", "steps"), [(0, [10, 20, 60, 70]), (1, [10, 20, 60, 70])], ids=["epochs from 0", "epochs from 1"]
)
def test_epochs_done_times_the_length_are_added_to_the_index(
    rows: Rows, first: int, steps: list[int]
) -> None:
    """Whether epochs count from 0 or from 1 shows as the log goes on."""
    lines = [(epoch, index) for epoch in (0, 1) for index in (10, 20)]
    text = "".join(f"Epoch: [{first + e}][{i}/50]\tLoss 3.{i}\tlr: 0.1, eta: 0:10\n" for e, i in lines)
    assert [step for (step,) in rows(text, "step")] == steps


def test_fraction_of_an_epoch_makes_no_epoch_a_step(read: Callable[[str], Log]) -> None:
    text = "{'loss': 2.5, 'epoch': 0.5}\n{'loss': 2.25, 'epoch': 1.0}\n{'eval_loss': 2.0, 'epoch': 1.0}\n"
    log = read(text)
    assert log.records["step"].to_list() == [None, None]
    assert log.evals["step"].to_list() == [None]


def test_several_evaluations_wait_for_the_step_of_the_next_record(read: Callable[[str], Log]) -> None:
    text = "validation loss: 5.5\nHellaSwag accuracy: 10/40=0.2500\nstep     7 | loss: 5.0 | lr 1e-4\n"
    log = read(text)
    assert log.evals.select("step", "name").rows() == [(7, "val_loss"), (7, "hellaswag")]


def test_evaluation_behind_a_restart_keeps_its_own_step(read: Callable[[str], Log]) -> None:
    line = "step {0}: train loss 3.5, val loss 3.{0}\niter {0}: loss 3.0, time 10.00ms, mfu 20.00%\n"
    log = read("".join(line.format(step) for step in (10, 20, 10, 20)))
    values = log.evals.filter(log.evals["name"] == "val_loss")
    assert values.select("attempt", "step").rows() == [(1, 10), (1, 20), (2, 10), (2, 20)]


EPOCH = "Epoch {0}, Batch 0/8, Loss: 2.{0}\nEpoch {0} Validation - Loss: 3.{0}\n"


def test_evaluation_takes_the_epoch_that_it_names_in_the_attempt_before_a_restart(
    read: Callable[[str], Log],
) -> None:
    log = read("".join(EPOCH.format(epoch) for epoch in (1, 2, 3, 1, 2)))
    values = log.evals.filter(log.evals["name"] == "val_loss").select("attempt", "step", "value")
    assert values.rows() == [(1, 1, 3.1), (1, 2, 3.2), (1, 3, 3.3), (2, 1, 3.1), (2, 2, 3.2)]


def test_evaluation_that_its_format_places_within_an_epoch_takes_the_step_of_the_next_record(
    read: Callable[[str], Log],
) -> None:
    losses = "loss[loss=0.5, over 9.0 frames. ], tot_loss[loss=0.5, over 9.0 frames. ]"
    record = f"INFO [train.py:1] Epoch 1, batch {{0}}, {losses}\n"
    evaluation = "INFO [train.py:2] Epoch 1, validation: loss=0.25, over 9.0 frames.\n"
    log = read(record.format(50) + evaluation + record.format(100))
    assert log.evals.select("step", "name").rows() == [(100, "val_loss")]


def test_evaluation_without_a_step_stays_in_the_attempt_before_a_restart(read: Callable[[str], Log]) -> None:
    line = "step {0:5d} | loss: 5.0 | lr 1e-4\n"
    log = read(line.format(7) + line.format(8) + "validation loss: 5.5\n" + line.format(1) + line.format(2))
    assert log.evals.select("attempt", "step").rows() == [(1, 8)]


def test_tasks_of_a_benchmark_take_the_step_that_its_summary_names(read: Callable[[str], Log]) -> None:
    """After the last record, step 99, nanochat evaluates its model as step 100."""
    record = (
        "step {:05d}/00100 ({:.2f}%) | loss: 3.0 | lrm: 1.00 | dt: 9.00ms | tok/sec: 10 | mfu: 41.00 | "
        "total time: 0.01m\n"
    )
    kind = "(0-shot, type: language_modeling)"
    task = f"Evaluating: jeopardy {kind}... accuracy: 0.3827 | centered: 0.1769 | time: 1.00s\n"
    text = "".join(record.format(step, step) for step in (98, 99))
    log = read(text + task + "Step 00100 | CORE metric: 0.1614\n")
    assert log.evals["step"].to_list() == [100, 100, 100]


@pytest.mark.parametrize("line", ["HelloSwag accuracy: 11/40=0.2750", "7 hellaswag 0.2750"])
def test_hellaswag_is_read_in_other_spellings(read: Callable[[str], Log], line: str) -> None:
    log = read(f"step     7 | loss: 5.0 | lr 1e-4 | norm: 1.0\n{line}\n")
    assert log.evals.select("step", "name", "value").rows() == [(7, "hellaswag", 0.275)]


TOKENS = "tokens: {:,} | loss: {:.4f} | tok/s: 87,381\n"


def counted(first: float, banner: str = "batch size in tokens: 65,536\n") -> str:
    lines = [TOKENS.format(round(first * 65_536 * 10 * n), 4 - n / 10) for n in range(1, 9)]
    return banner + "".join(lines) + "eval at 5,242,880 tokens: val_loss 3.25\n"


def test_token_count_that_is_whole_batches_says_the_step(read: Callable[[str], Log]) -> None:
    log = read(counted(1))
    assert log.records["step"].to_list() == list(range(10, 90, 10))
    assert log.evals["step"].to_list() == [80]


@pytest.mark.parametrize(
    "text", [counted(1, ""), counted(1.0371)], ids=["no batch known", "no whole batches"]
)
def test_token_count_that_is_no_whole_batches_says_no_step(read: Callable[[str], Log], text: str) -> None:
    assert read(text).records["step"].null_count() == 8


AFTER = "Epoch {0} train loss 2.{0}\nTest loss 3.{0}, acc 0.{0}\n"
ABOVE = "Test loss 3.{0}, acc 0.{0}\nEpoch {0} train loss 2.{0}\n"
NOW_AND_THEN = "Epoch {0}1 train loss 2.{0}1\nEpoch {0}2 train loss 2.{0}2\nTest loss 3.{0}, acc 0.{0}\n"


@pytest.mark.parametrize(
    ("log", "steps"),
    [
        (AFTER, list(range(10, 20))),
        (ABOVE, list(range(10, 20))),
        (NOW_AND_THEN, list(range(102, 202, 10))),
        ("Epoch 1 step {0} loss 2.{0}\nTest loss 3.{0}, acc 0.{0}\n", list(range(10, 20))),
    ],
    ids=["below the epoch's record", "above it", "not after each epoch", "of steps"],
)
def test_unnamed_evaluation_is_of_the_epoch_that_its_records_reached(
    read: Callable[[str], Log], log: str, steps: list[int]
) -> None:
    """Where steps are printed, one right below every record takes that of the record."""
    values = read("".join(log.format(i) for i in range(10, 20))).evals
    assert values.filter(values["name"] == "val_loss")["step"].to_list() == steps


def test_unnamed_evaluation_below_the_last_epoch_before_a_restart_stays_in_its_attempt(
    read: Callable[[str], Log],
) -> None:
    values = read("".join(AFTER.format(i) for i in (10, 11, 12, 10, 11))).evals
    rows = values.filter(values["name"] == "val_loss").select("attempt", "step").rows()
    assert rows == [(1, 10), (1, 11), (1, 12), (2, 10), (2, 11)]


EPOCHS = "Epoch {0}/4\nstep 0 loss 3.{0}\nstep 10 loss 2.{0}\nstep 20 loss 1.{0}\n"


def test_step_that_falls_leaves_the_announced_epoch(read: Callable[[str], Log]) -> None:
    """The line of the next epoch is missing, or another run begins: the epoch is unknown, and not the old one."""
    text = "".join(map(EPOCHS.format, (1, 2, 3)))
    epochs = read(text.replace("Epoch 2/4\n", "")).records["epoch"].to_list()
    assert epochs == [1] * 3 + [None] * 3 + [3] * 3


def test_step_that_falls_below_the_line_of_an_epoch_is_of_that_epoch(read: Callable[[str], Log]) -> None:
    epochs = read("".join(map(EPOCHS.format, (1, 2, 3)))).records["epoch"].to_list()
    assert epochs == [1] * 3 + [2] * 3 + [3] * 3


ESTIMATOR = "INFO:tensorflow:loss = {loss}, step = {step}\n"
SAVED = "INFO:tensorflow:Saving dict for global step {step}: eval_loss = {val}, global_step = {step}, loss = 2.5\n"


def test_evaluation_that_is_reported_again_counts_once(read: Callable[[str], Log]) -> None:
    steps = [(step, 7.2 - step / 100, 7.1664 - step / 100) for step in (0, 100, 200)]
    again = "INFO:tensorflow:***** Eval results *****\nINFO:tensorflow:  eval_loss = {val}\n"
    log = read("".join((ESTIMATOR + SAVED + again).format(step=s, loss=loss, val=v) for s, loss, v in steps))
    losses = log.evals.filter(name="val_loss")
    assert losses.select("step", "value").rows() == [(s, v) for s, _, v in steps]


def test_evaluation_that_gives_the_same_below_another_record_counts(read: Callable[[str], Log]) -> None:
    lines = "".join(
        f"step {s}: train loss {3 - s / 500:.4f}, lr 0.01\nval accuracy: 0.1135\n" for s in (100, 200, 300)
    )
    assert read(lines).evals["value"].to_list() == [0.1135] * 3


def test_evaluation_without_a_step_stays_in_its_attempt_in_a_log_without_records(
    read: Callable[[str], Log],
) -> None:
    text = "".join(
        "".join(f"Epoch {epoch} validation loss: {run}.{epoch}863\n" for epoch in (1, 2, 3))
        + f"Final validation loss: {run}.5\n"
        for run in (11, 12)
    )
    unplaced = read(text).evals.filter(pl.col("step").is_null())
    assert unplaced.select("attempt", "value").rows() == [(1, 11.5), (2, 12.5)]


@pytest.mark.parametrize("between", [1, 40])
def test_evaluation_that_names_the_iteration_of_a_record_is_of_its_step(
    between: int, read: Callable[[str], Log]
) -> None:
    """A step may have several iterations; one that no record names stays as it is printed."""
    text = ""
    for at in range(1, 121):
        text += f"iter {4 * at} step {2 * at}: loss {9 / at:.4f}, iter time: 12.10ms\n"
        text += f"step {4 * at}: val loss {9.5 / at:.4f}\n" if at % between == 0 else ""
    steps = read(text + "step 481: val loss 0.0750\n").evals["step"].to_list()
    assert steps == [*(2 * at for at in range(between, 121, between)), 481]


def test_last_evaluation_without_a_place_counts_as_the_others_of_its_measures_do(
    read: Callable[[str], Log],
) -> None:
    epoch = "Epoch: {0}, Iter: {1}/188, Loss: 1.{0}{1}\n"
    epochs = "".join(
        epoch.format(e, 50) + epoch.format(e, 150) + f"Epoch: {e}, Valid, Loss: 1.5{e}\n" for e in range(1, 6)
    )
    log = read(epochs + "valid loss: 1.415, test loss: 1.408\n")
    assert log.records["step"].to_list()[-1] == 4 * 188 + 150
    assert log.evals.filter(name="val_loss")["step"].to_list() == [1, 2, 3, 4, 5, 5]


def test_mean_number_of_a_batch_is_no_step(read: Callable[[str], Log]) -> None:
    """Keras printed it among the figures of a bar; without the line of an epoch the bar has no step."""
    bar = "100/100 [==============================] - 8s - loss: 1.{0}500 - batch: 49.5000 - acc: 0.{0}\n"
    bars = [bar.format(e) for e in range(4)]
    assert read("".join(bars)).records["step"].to_list() == [None] * 4
    headed = "".join(f"Epoch {e}/4\n{text}" for e, text in enumerate(bars, start=1))
    assert read(headed).records["step"].to_list() == [1, 2, 3, 4]
