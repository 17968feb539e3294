"""The columns that the values of a line get from their printed names, units and headings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.infer import naming, shapes
from gputel.analysis.logs.log import Log


def columns(*lines: str) -> list[str | None]:
    rows = [line.encode() for line in lines]
    (shape,) = shapes.line_shapes(rows, rows)
    return [cell.column for cell in naming.name(shape, naming.vocabulary())]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("upd 3 nll 2.5 l_r 1e-4", ["step", "loss", "lr"]),
        ("iter 3 train/loss 2.5 optim/grad_norm 0.5", ["iteration", "loss", "grad_norm"]),
        ("val --- Current batch:3/9 loss:[ 0.5]", ["batch", "total_steps", "loss"]),
        ("iter 3 loss 2.5 feature norm 0.5", ["iteration", "loss", "feature_norm"]),
        ("iter 3 loss 2.5 line search step 0.5", ["iteration", "loss", "line_search_step"]),
        ("epoch 3 loss 2.5 iter 0.5", ["epoch", "loss", "dt_ms"]),
        ("epoch 1 validLoss 2.5 trainLoss 2.0", ["epoch", "val_loss", "loss"]),
        ("epoch 1 trloss 2.0 tracc 0.5 valacc 0.4", ["epoch", "loss", "tracc", "val_acc"]),
        ("epoch 1 trloss 2.0 testloss_1 2.5 testf1_1 0.4", ["epoch", "loss", "test_loss_1", "test_f1_1"]),
        ("epoch 1 loss_box 0.5 loss_cls 1.25 loss_overall 2.5", ["epoch", "loss_box", "loss_cls", "loss"]),
        ("step 3 policy 0.5 value 0.2 total 0.7", ["step", "policy", "value", "loss"]),
        ("step 3 loss 2.5 total 0.7", ["step", "loss", "total_"]),
        ("step 3 lm_loss 3.4 ppl 30.1 loss 14.3", ["step", "lm_loss", "ppl", "loss"]),
        ("step 3 lm_loss 3.4 ppl 30.1", ["step", "loss", "ppl"]),
        ("loss: [2.7, 2.5, 7.2], step: 3, lr: 0.1", ["losses", None, None, "step", "lr"]),
        ("loss: [2.7, 0.5], step: 3, lr: 0.1", ["loss", None, "step", "lr"]),
        ("{'loss': [2.7, 2.5, 2.2], 'val_loss': [2.8, 2.6, 2.4]}", ["losses"] + 5 * [None]),
        ("step 3 loss 2.7 acc_per_class: [0.5, 0.6, 0.7]", ["step", "loss", None, None, None]),
        ("- ETA: 0s - loss: 2.5 - 2s - loss: 2.4 - val_loss: 2.6", [None, None, "dt_ms", "loss", "val_loss"]),
        ("step 3 loss: 2.5 acc: 0.5 | loss: 2.6 acc: 0.4", ["step", "loss", "acc", None, None]),
        ("epoch 3; train: [0.5, 0.6, 0.7]; val: [0.6, 0.7, 0.8]", ["epoch"] + 6 * [None]),
        ("Pass 3, batch 20, cost 2.5", ["epoch", "batch", "loss"]),
        ("pair_loss = 0.973 (* 1 = 0.973 loss)", ["pair_loss", None, None]),
        ("step 3 loss 2.5 81.2k tok/s", ["step", "loss", "tok_per_sec"]),
        ("epoch 3 loss 2.5, B: 0.01, S: 0.926", ["epoch", "loss", "B", "S"]),
        ("epoch 1/20 TrainAcc=39.02%  TestAcc=38.5%", ["epoch", "epochs", "Train_Acc_pct", "Test_Acc_pct"]),
        ("step 3 loss 2.5 took 0.25", ["step", "loss", "dt_ms"]),
        ("step 3 loss 2.5 took 0.25s", ["step", "loss", "dt_ms"]),
        ("step 3 loss 2.5 in 0.25 sec", ["step", "loss", "dt_ms"]),
        ("step 3 loss 2.5 eta 725s", ["step", "loss", "eta_min"]),
        ("step 3 loss 2.5, 0.014 h left", ["step", "loss", "eta_min"]),
        ("step 3 loss 2.5, patience left 4", ["step", "loss", "patience_left"]),
        ("holdout @30: 3.4125", ["step", "val_loss"]),
        ("held-out cost after step 10: 1.64", ["step", "val_loss"]),
        ("[epoch:1/9] [step:20] [loss:0.233] [lr:0.0093]", ["epoch", "epochs", "step", "loss", "lr"]),
        ("(trainer:732) step 20 loss 0.233", [None, "step", "loss"]),
        ("held_out_nll 1.64", ["val_loss"]),
        ("step 3 / STATE observe / ACTION 0.5 / EPSILON 0.1", ["step", "ACTION", "EPSILON"]),
        ("step 3 loss 2.5 error rate 0.1", ["step", "loss", "error_rate"]),
        ("=== Validation at step 500 ===", ["step"]),
        ("Validation loss at step 500: 1.3", ["step", "val_loss"]),
        ("Client 3 Local Epoch: 4 Loss: 2.5", ["Client", "Local_Epoch", "loss"]),
        ("Step 3 Avg Reward: 5.0 Win Rate: 0.45", ["step", "Avg_Reward", "Win_Rate"]),
        ("Epoch 3 - avg_train_loss: 2.5 avg_val_loss: 2.6", ["epoch", "loss_avg", "val_loss"]),
        (
            "step 3 loss 2.5 forward time: 0.003 backward time: 0.02",
            ["step", "loss", "forward_time", "backward_time"],
        ),
        ("step 3 loss 2.5 data time: 0.003 time: 0.02", ["step", "loss", "data_time", "dt_ms"]),
        ("Porcello rows: train=10105, test=2657.", [None, None]),
        ("step 3 loss 2.5 eta 0.001", ["step", "loss", "eta"]),
        ("step 3 loss 2.5 eta 12s", ["step", "loss", "eta_min"]),
        ("step 3 loss 2.5 remaining time 12.5", ["step", "loss", "remaining_time"]),
        ("Train epoch 3, total time 18.91, accuracy:12.31", ["epoch", "total_time", "accuracy"]),
        ("Train epoch 3, total time 18.91s, accuracy:12.31", ["epoch", "total_time_min", "accuracy"]),
        ("Epoch 3 Loss(train) 2.5 Acc(train) 0.3 Loss(val) 2.6", ["epoch", "loss", "train_Acc", "val_loss"]),
        ("ep 3 trn_loss=2.5 vld_loss=2.6", ["epoch", "loss", "val_loss"]),
        ("E [3/9] L_train 2.5 L_val 2.6", ["epoch", "epochs", "loss", "val_loss"]),
        ("epoch 3 loss 2.5 loss on the validation set 2.6", ["epoch", "loss", "val_loss"]),
        ("epoch 3 loss 2.5 accuracy validation 0.3", ["epoch", "loss", "validation_accuracy"]),
        ("epoch 3 accuracy on validation: 0.3", ["epoch", "validation_accuracy"]),
        ("第5/9轮, 损失 2.5", ["epoch", "epochs", "loss"]),
        ("step 3 rmse 2.5 val_rmse 2.6 lr 0.1", ["step", "loss", "val_loss", "lr"]),
        ("Epoch 3: Train=2.5  Val=2.6  MAE=0.4", ["epoch", "loss", "val_loss", "MAE"]),
        ("Epoch 3: MAE=0.4  Val=0.5", ["epoch", "loss", "val_loss"]),
        ("ITERATION 3: TRAIN AVG.LOSS 2.5, CROSSVAL AVG.LOSS 2.6", ["iteration", "loss_avg", "val_loss"]),
        ("step 3 loss 2.5 cross-validation loss 2.6", ["step", "loss", "val_loss"]),
        ("step 3 Loss 2.5 Loss_dev 2.6 Acc_dev 51%", ["step", "loss", "val_loss", "Acc_dev_pct"]),
        ("epoch 3 train=2.5, val=2.75, ppl=15.64", ["epoch", "loss", "val_loss", "val_ppl"]),
        ("epoch 3 train=2.5, val=2.75, ppl=12.18", ["epoch", "loss", "val_loss", "ppl"]),
    ],
)
def test_values_get_the_columns_that_all_formats_share(line: str, names: list[str | None]) -> None:
    assert columns(line) == names


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_total_that_adds_up_is_the_loss_beside_what_is_called_loss(weight: float) -> None:
    rows = [(5 / i, 0.3 / i**0.5) for i in range(1, 30)]
    lines = [f"loss: {a:.4f}, orth_loss: {b:.4f}, total_loss: {a + weight * b:.4f}" for a, b in rows]
    assert columns(*lines) == ["loss_", "orth_loss", "loss"]


def test_total_that_is_summed_over_the_epoch_is_not_the_loss() -> None:
    lines = [f"loss: {5 / i:.4f}, reg_loss: {0.3 / i:.4f}, total_loss: {i * 2.5:.4f}" for i in range(1, 30)]
    assert columns(*lines) == ["loss", "reg_loss", "total_loss"]


def test_time_that_runs_on_is_no_step_time() -> None:
    lines = [f"step {i} loss {9 / i:.3f} time {100 * i}.5" for i in range(1, 9)]
    assert "dt_ms" not in columns(*lines)


def test_validation_is_known_by_its_letter_where_two_measures_have_it() -> None:
    line = "Epoch 3: v_recons 4.5e-01 recons 4.6e-01 v_loss 4.5e+00 loss 5.3e+00 v_R10 14.7"
    assert columns(line) == ["epoch", "val_recons", "recons", "val_loss", "loss", "val_R10"]


def test_loss_of_a_value_is_no_validation() -> None:
    assert columns("iter 3 pg_loss 0.5 v_loss 0.2 loss 0.7") == ["iteration", "pg_loss", "v_loss", "loss"]


def test_count_since_the_last_report_is_no_step_beside_the_total() -> None:
    lines = [
        f"{{'loss': {9 / i:.3f}, 'updates': {17 + i % 3}, 'total_train_updates': {18 * i}}}"
        for i in (1, 2, 3, 4)
    ]
    assert columns(*lines) == ["loss", None, "step"]


def test_evaluation_before_the_training_is_a_validation_and_a_first_loss_is_none() -> None:
    assert columns("Initial validation loss: 12.2458") == ["val_loss"]
    assert columns("Initial loss: 12.2458") != ["val_loss"]


@pytest.mark.parametrize(
    ("values", "name"),
    [(("-0.687", "-0.535"), "objective"), (("0.687", "0.535"), "loss"), (("-0.1", "0.2"), "loss")],
)
def test_objective_that_is_a_likelihood_is_no_loss(values: tuple[str, ...], name: str) -> None:
    lines = [
        f"Overall average objective function for minibatches {at}0-{at}9 is {value}"
        for at, value in enumerate(values)
    ]
    assert name in columns(*lines)


def test_validation_loss_of_any_words_and_capitals_is_the_validation_loss() -> None:
    assert columns("Epoch [0]/[9] \t Validation Phase Loss: 0.0597")[-1] == "val_loss"
    assert columns("END epoch:1   val loss_avg: 3.62 top1_avg: 0.14")[1] == "val_loss"


def test_cost_with_a_unit_of_time_is_no_loss() -> None:
    line = "END epoch:1   val loss_avg: 3.62 avg_batch_cost: 0.03663 sec, avg_reader_cost: 0.00000 sec"
    assert "loss" not in columns(line)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[epoch: {e}/200, iter: {i}5/448] total: 1.4{i}", "loss"),
        ("[epoch: {e}/200, iter: {i}5/448] total: 1.4{i} seen: 0.1{i}", "total_"),
        ("epoch: {e} total: 1.4{i}", "total_"),
    ],
)
def test_total_is_the_loss_where_it_is_all_that_a_batch_gives(line: str, name: str) -> None:
    assert name in columns(*(line.format(e=e, i=i) for e in (1, 2, 3) for i in (1, 2, 3)))


def test_letter_that_begins_the_next_name_is_no_unit() -> None:
    line = "[GAN] Epoch 1/10 D Loss: 1.4102 G Loss: 0.6668 | Val G Loss: 0.6625"
    assert columns(line)[2:] == ["D_Loss", "G_Loss", "Val_G_Loss"]
    assert columns("epoch 1 mem: 12.5 G loss: 0.6668")[-1] == "loss"


def test_tot_beside_its_parts_is_the_loss() -> None:
    assert columns("it 10 Tot: 3.1 Rec: 2.1 KL: 1.0")[1:] == ["loss", "Rec", "KL"]
    assert "loss" not in columns("it 10 Tot: 3.1 Seen: 2.1")


def test_mean_that_is_never_near_the_loss_is_of_something_else() -> None:
    lines = [f"Step: {i}, All Loss: {{}}, Smooth Loss: {{}}, Unpen Loss: {7 + i}.5" for i in range(4)]
    apart = [line.format(60.5 + i, 5.25 + i) for i, line in enumerate(lines)]
    near = [line.format(6.5 - i, 6.25 - i / 2) for i, line in enumerate(lines)]
    assert columns(*apart) == ["step", "loss", "Smooth_Loss", "Unpen_Loss"]
    assert columns(*near) == ["step", "loss", "loss_avg", "Unpen_Loss"]


def test_times_and_rates_behind_their_numbers_are_named_by_their_units(read: Callable[[str], Log]) -> None:
    """An update is a step: `1217 ms/update`."""
    line = "update {}/100 | loss {:.4f} | 1217 ms/update | 430,766 tokens/sec | lr 6.0e-04\n"
    log = read(
        "".join(line.format(n, 3 - n / 99) for n in range(60)) + "checkpoint written: out/update_60.pt\n"
    )
    assert log.records.select("dt_ms", "tok_per_sec").unique().rows() == [(1217.0, 430_766.0)]
    assert log.events.select("kind", "step").rows() == [("checkpoint", 60)]


def test_step_before_three_dots_is_no_time() -> None:
    lines = [f"Calculating validation loss at step {step}..." for step in (0, 10, 20)]
    assert columns(*lines) == ["step"]


@pytest.mark.parametrize(("unit", "scale"), [("", 1000), ("s", 1000), ("ms", 1)])
def test_average_time_in_brackets_has_the_unit_of_the_time(
    unit: str, scale: int, read: Callable[[str], Log]
) -> None:
    line = "Epoch: [0][{0}/90] Batch time {1:.4f}" + unit + " ({2:.4f}" + unit + ") Loss {3:.4f} ({4:.4f})\n"
    rows = [(n, 7 - n / 20, 8 - n / 20, 5 - n / 30, 6 - n / 30) for n in range(0, 90, 10)]
    records = read("".join(line.format(*row) for row in rows)).records
    assert records["dt_ms"].to_list() == pytest.approx([row[1] * scale for row in rows], abs=0.1)
    assert records["dt_ms_avg"].to_list() == pytest.approx([row[2] * scale for row in rows], abs=0.1)
    assert records["loss_avg"].to_list() == pytest.approx([row[4] for row in rows], abs=1e-4)


def test_error_in_metres_is_no_time() -> None:
    lines = [f"Epoch {e}/90 | Range RMSE: 63.{e} m | Epoch time: 2.{e} m" for e in range(1, 5)]
    assert columns(*lines)[2:] == ["Range_RMSE", "Epoch_time_min"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("loss=1.74 (p=1.7 v=0.2) val=1.85 (p=1.8 v=0.3)", "loss p v val_loss val_p val_v"),
        ("val_loss 1.85 acc 0.4 loss 1.74 acc 0.5", "val_loss acc loss"),
        (
            "valid loss: 1.41, valid acc: 0.5, test loss: 1.40, test acc: 0.4",
            "val_loss valid_acc test_loss test_acc",
        ),
    ],
)
def test_figure_that_is_printed_again_behind_a_validation_is_of_it(line: str, named: str) -> None:
    assert [column for column in columns(line) if column] == named.split()
