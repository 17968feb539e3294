"""The values of a line and the names that are printed for them."""

from __future__ import annotations

import pytest

from gputel.analysis.logs.infer import shapes, slots, split_names


def keys(*lines: str) -> list[str | None]:
    rows = [line.encode() for line in lines]
    (shape,) = shapes.line_shapes(rows, rows)
    return [slot.key for slot in split_names.complete(slots.find_slots(shape), shape)]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("step 3 | loss: 2.5 | lr = 1e-4", ["step", "loss", "lr"]),
        ("806.66 avg loss, 3 epochs", ["avg loss", "epochs"]),
        ("loss 0.31 (0.35)", ["loss", "loss()"]),
        ("D Accuracy (Loss): 0.5 (1.37)", ["D Accuracy", "D Loss"]),
        ("Loss (Acc): 1.37 (0.5)", ["Loss", "Acc"]),
        ("Loss (CE): 1.37 (1.4)", ["Loss (CE)", "Loss (CE)()"]),
        ("The loss is 2.5", ["The loss"]),
        ("step 10, loss_train, 0.838", ["step", "loss_train"]),
        ("loss tensor(2.5)", ["loss"]),
        ("Validation loss at step 200: 1.3", ["step", "Validation loss"]),
        ("train: loss 1.2 | val: loss 1.3", ["loss", "val loss"]),
        ("loss train: 1.2, val: 1.3", ["loss train", "val loss"]),
        ("nll 1.2 (avg 1.3)", ["nll", "nll()"]),
        ("epoch/iter: 9/2579", ["epoch", "iter"]),
        ("hellaswag @ 40: acc 0.2952", ["step", "hellaswag acc"]),
        ("MMLU accuracy: 29/100 = 0.29", [None, None, "MMLU accuracy"]),
        ("step 3 loss 6.1 tok/s 431", ["step", "loss", "tok/s"]),
        ("step 3 loss 6.1 tok/s: 431", ["step", "loss", "tok/s"]),
        ("step 3 loss: 6.1, 431 tok/s, 0.3 s/step", ["step", "loss", "tok/s", "step_time"]),
        ("|  10/ 100 steps| 431 tokens/s| loss 6.1", [None, "total", "tok/s", "loss"]),
        ("batch 10/100 steps 431 loss 6.1", ["batch", "batch total", "steps", "loss"]),
        ("rate 431 tok/s 0.3 s/step", ["rate", "step_time"]),
        ("val IoU: {0.9: 0.12, '0.5': 0.35}", [None, "val IoU 0.9", None, "val IoU 0.5"]),
        ("{loss: 2.5, acc: 0.35}", ["loss", "acc"]),
        ("Epoch 3 Losses {'ner': 20.5, 'tagger': 3.5} acc: 0.5", ["Epoch", "ner loss", "tagger loss", "acc"]),
        ("Losses: {'ner_loss': 20.5} {'ner': 0.5}", ["ner_loss", "ner"]),
        ("loss {total 1.5, num_matched 488.3}", ["total", "num_matched"]),
        ("training this batch, loss, lr: 400, 2.5, 0.001", ["training this batch", "loss", "lr"]),
        ("eval loss mean, metric: 2.5, 97.5", ["eval loss mean", "eval metric"]),
        ("Epoch 3   [Avg. Loss, Loss]: [2.7, 2.5], 0", ["Epoch", "Avg. Loss", "Loss", None]),
        ("Dev f-score (p/r/f): (84.5/79.5/81.5)", ["Dev f-score p", "Dev f-score r", "Dev f-score f"]),
        ("('loss at step ', 400, ': ', 2.5)", ["step", "loss"]),
        ("(u'Epoch', 3, 'loss =', 2.5, 'acc', 0.5)", ["Epoch", "loss", "acc"]),
        ("('shape', 3, 4)", [None, None]),
        ("Loss 1.6 (R:116.3 M:0.8)", ["Loss", "R", "M"]),
        ("Loss 1.6 (seen: 116.3 M, lr: 0.8)", ["Loss", "seen", "lr"]),
        ("Round 3: cost went from 2.75 to 2.5", ["Round", None, "cost"]),
        ("val loss has improved from 2.75 to 2.5 (new best)", [None, "val loss"]),
        ("Round 3: cost 2.75 -> 2.5", ["Round", None, "cost"]),
        ("Round 3: loss 2.75 to beat, acc 0.5", ["Round", "loss", "acc"]),
        ("loss(x, y) = param(2.5)", ["loss"]),
        ("acc: jnp.float32(0.5), loss: Float32(2.5)", ["acc", "loss"]),
        ("loss(val) = 2.5", ["loss(val)"]),
        ("loss = Array([2.5], dtype=float32) lr = 0.5", ["loss", "lr"]),
        ("step 3 total 1.25 + 0.25 = 1.5 lr 0.5", ["step", None, None, "total", "lr"]),
        ("step 3 loss: 1.25 (rec) + 0.25 (kl) = 1.5", ["step", "rec", "kl", "loss"]),
        ("loss 1.25 + kl 0.25 = total 1.5 lr 0.5", ["loss", "kl", "total", "lr"]),
        ("step 3 loss: 1.5 (1.25 + 0.25)", ["step", "loss", None, None]),
        ("step 3 loss: 1.5 (1.25) + 2 lines", ["step", "loss", "loss()", "lines"]),
        ("Epoch 3 cost: 2.5 (train), 2.75 (dev)", ["Epoch", "train cost", "dev cost"]),
        (
            "cost 2.5 [train] 2.75 [test] | f1 0.5 [train] 0.25 [test]",
            ["train cost", "test cost", "train f1", "test f1"],
        ),
        ("cost 2.5 (train), lr 0.5", ["cost", "lr"]),
        ("cost 2.5/2.75 (train/dev)", ["train cost", "dev cost"]),
        ("Epoch 3 (tr) cost=2.5 on train, cost=2.75 on the dev set", ["Epoch", "train cost", "dev cost"]),
        ("cost on train 2.5 on dev 2.75", ["cost on train", "on dev"]),
        ("Epoch 3: 2.5 train cost | 2.75 val cost", ["Epoch", "train cost", "val cost"]),
        ("Epoch 3: 2.5 lr | cost 2.75", ["Epoch", "lr", "cost"]),
        ("loss <tf.Tensor: shape=(), dtype=float32, numpy=2.5>", ["loss"]),
        ("return avg -0.25 min -2.5 max 1.5", ["return avg", "min", "max"]),
        ("took 0.25 min, loss 2.5", ["took", "loss"]),
        ("100 steps per epoch. 2000 steps in all", [None, "steps in all"]),
        ("steps per epoch: 100", ["steps per epoch"]),
        ("Train 2.5 | Val~20% 2.75", ["Train", None, "Val"]),
        ("top-5: 20% loss 2.75", ["top-5", "loss"]),
        ("Training loss (epoch 3): 2.5", ["epoch", "Training loss"]),
        ("lowered by 0.25", ["lowered by"]),
        ("epoch 3 TestErr[0]OfAll = 0.6; time: 2.5", ["epoch", None, "TestErrOfAll", "time"]),
        ("epoch[3]loss: 0.6", ["epoch", "loss"]),
        ("Batch[  1- 500, 64.5%]: loss 0.6", [None, "Batch", None, "loss"]),
        ("Batch 1 - 500: loss 0.6", ["Batch", None, "loss"]),
        ("step 3 reward: 1.5 [0.5, 2.5], mean action: 0.25", ["step", "reward", None, None, "mean action"]),
        ("step 3 1.5 mean loss 1.25", ["step", "loss", "mean loss"]),
        ("run train.py:215[276] INFO loss: 2.5", [None, None, "INFO loss"]),
    ],
)
def test_value_is_named_by_the_words_beside_it(line: str, names: list[str | None]) -> None:
    assert keys(line) == names


def test_number_in_braces_that_changes_is_no_key() -> None:
    assert keys(*(f"loss {{{n}: 0.{n}1}}" for n in range(1, 6))) == [None, "loss"]


def test_name_before_a_counter_belongs_to_the_value_behind_it() -> None:
    assert keys(*(f"Train loss {i} {9 / i:.3f}" for i in range(10, 60, 10))) == [None, "Train loss"]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("iteration 50: gradient norm = 0.25 (50 iterations in 0.9s)", ["iteration", "gradient norm", None]),
        ("on 80 raw words (51 effective words)", ["on", "effective words"]),
        ("loss 2.5, elapsed time: 8.5s(20 iters)", ["loss", "elapsed time", "iters"]),
        ("loss 2.5 (2.75)", ["loss", "loss()"]),
        ("Train Loss: 1.6 Val. Loss: 1.7", ["Train Loss", "Val. Loss"]),
        ("loss 2.5 (2.75 avg)", ["loss", "loss()"]),
    ],
)
def test_words_in_brackets_say_what_a_figure_counts(line: str, names: list[str | None]) -> None:
    (shape,) = shapes.line_shapes([line.encode()], [line.encode()])
    assert [slot.key for slot in slots.find_slots(shape)][: len(names)] == names


def test_loss_before_the_name_of_the_next_value_is_that_of_the_value_before_it() -> None:
    lines = ["eval 90/512 1.8%, 0.62 val_loss STEP=  20", "eval 99/512 1.9%, 0.52 val_loss STEP=  40"]
    assert keys(*lines)[-2:] == ["val_loss", "STEP"]


def test_name_before_a_hyphen_is_of_the_value_behind_it() -> None:
    assert keys("0 10 loss - 7.25", "0 20 loss - 7.125") == [None, None, "loss"]
    assert keys("12.5 loss - ok", "11.5 loss - ok") == ["loss"]


def test_values_with_slashes_between_them_are_numbered_where_none_is_a_total() -> None:
    rows = ["it 10 residual: 0.25/0.5/0.75", "it 20 residual: 0.5/0.25/0.5", "it 30 residual: 0.5/0.125/0.25"]
    assert keys(*rows) == ["it", "residual", "residual 2", "residual 3"]
    bleu = ["BLEU = 9.5 40.5/20.5/9.5 (BP = 0.5)", "BLEU = 8.5 40.5/21.5/8.5 (BP = 0.5)"] * 2
    assert not any("2" in (key or "") for key in keys(*bleu))
    totals = ["it 10 memory: 0.25/1.5", "it 20 memory: 0.5/1.5", "it 30 memory: 2.5/1.5"]
    assert keys(*totals) == ["it", "memory", "memory total"]
    reached = ["it 10 done: 0.25/1.5", "it 20 done: 0.5/1.75", "it 30 done: 2.5/2.5"]
    assert keys(*reached) == ["it", "done", "done total"]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Quantile[0.1]: 2.5 Quantile[0.9]: 3.5", [None, "Quantile 0.1", None, "Quantile 0.9"]),
        ('"loss[0]": 2.5, "loss[1]": 3.5', [None, "loss 0", None, "loss 1"]),
        ("epoch[3]: 2.5", ["epoch", None]),
        ("accuracy 1:0.5, 2:11.25", [None, "accuracy 1", None]),
        ("Top 1: 0.5", ["Top 1"]),
        ("loss[2.5] step[10]", ["loss", "step"]),
    ],
)
def test_number_in_brackets_behind_a_name_is_its_index_where_a_figure_follows(
    line: str, names: list[str | None]
) -> None:
    assert keys(line) == names


@pytest.mark.parametrize(
    ("line", "unit"),
    [("air temperature RMSE: 2.5012 K", None), ("mean reward: 2.5 K", "K"), ("RMSE: 2.5K", "K")],
)
def test_kelvin_are_no_thousands(line: str, unit: str | None) -> None:
    (shape,) = shapes.line_shapes([line.encode()], [line.encode()])
    assert [slot.unit for slot in slots.find_slots(shape)] == [unit]
