"""Loops that people write themselves, each beside the log that looks like it and means something else."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import gputel
from gputel.analysis.logs import summary
from gputel.analysis.logs.log import Log


def parsed(folder: Path, *lines: str) -> Any:
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return gputel.parse(path)


def test_a_short_dict_of_settings_is_no_record(tmp_path: Path) -> None:
    losses = [f"Epoch [{n}/5] loss:{4 / n:.3f}\tlr:0.00{n}" for n in range(1, 6)]
    run = parsed(tmp_path, "{'lr': 0.0003, 'wd': 0.01, 'epochs': 10}", *losses)
    assert run.records["step"].to_list() == [1, 2, 3, 4, 5]
    assert run.records["attempt"].unique().to_list() == [1]


def test_a_dict_of_measures_is_a_record(tmp_path: Path) -> None:
    run = parsed(tmp_path, *(f"{{'loss': {4 / n:.3f}, 'lr': 0.0003, 'epoch': {n}}}" for n in range(1, 6)))
    assert run.records["epoch"].to_list() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("place", ["Epoch {n}/4 - step [100/100]", "epoch {n} | iter 100/100"])
def test_the_last_batch_of_each_epoch_has_a_step_of_its_own(tmp_path: Path, place: str) -> None:
    run = parsed(tmp_path, *(f"{place.format(n=n)} - loss: {4 / n:.3f}" for n in range(1, 5)))
    assert run.records["step"].to_list() == [100, 200, 300, 400]


@pytest.mark.parametrize(
    ("epoch", "step", "loss"),
    [("época", "Paso", "pérdida"), ("époque", "étape", "perte"), ("эпоха", "шаг", "потери")],
)
def test_an_epoch_in_brackets_is_no_name_of_a_host(tmp_path: Path, epoch: str, step: str, loss: str) -> None:
    places = [(e, s) for e in (1, 2) for s in range(50, 401, 50)]
    run = parsed(tmp_path, *(f"[{epoch}: {e}/2] {step} [{s}/400] {loss}: 0.{9 - e}{s}" for e, s in places))
    assert run.records["step"].to_list() == [400 * (e - 1) + s for e, s in places]
    assert run.records["attempt"].unique().to_list() == [1]


@pytest.mark.parametrize("name", ["bce", "mse", "err"])
def test_the_only_measure_beside_a_validation_loss_is_the_loss(tmp_path: Path, name: str) -> None:
    run = parsed(tmp_path, *(f"ep {n}, {name}: {4 / n:.3f}, val loss: {5 / n:.3f}" for n in range(1, 6)))
    assert run.records["loss"][0] == 4.0
    assert run.evals["name"].unique().to_list() == ["val_loss"]


@pytest.mark.parametrize(
    "line",
    [
        "ep {n}, err: 0.{n}, acc: 0.9{n}, val loss: 0.5{n}",
        "step {n} bce: 0.{n} dice: 0.{n}1 kl: 0.{n}2 lr: 0.1",
    ],
)
def test_a_share_of_wrong_answers_and_parts_are_no_loss(tmp_path: Path, line: str) -> None:
    run = parsed(tmp_path, *(line.format(n=n) for n in range(1, 8)))
    assert "loss" not in run.records.columns


@pytest.mark.parametrize(("error", "accuracy"), [(2.5, 0.8), (250.0, 80.0)])
def test_an_error_too_large_for_a_share_of_wrong_answers_is_the_loss(
    tmp_path: Path, error: float, accuracy: float
) -> None:
    line = "ep {}, err: {:.3f}, acc: {:.3f}, lr: 0.001"
    run = parsed(tmp_path, *(line.format(n, error / n, accuracy) for n in range(1, 8)))
    assert run.records["loss"][0] == error


@pytest.mark.parametrize(
    "stamp", ["INFO:09-Oct-25 08:53:0{n}:", "[09.10.2025 08:53:0{n}] [INFO] ", "9-Oct-2025 08:53:0{n} "]
)
def test_a_timestamp_is_no_part_of_the_record(tmp_path: Path, stamp: str) -> None:
    lines = [f"{stamp.format(n=n)}Epoch {n} mse={4 / n:.3f}\tval_loss={5 / n:.3f}" for n in range(1, 8)]
    run = parsed(tmp_path, *lines)
    assert run.records["step"].to_list() == [1, 2, 3, 4, 5, 6, 7]
    assert str(run.records["time"][0])[:19] == "2025-10-09 08:53:01"
    assert "loss" in run.records.columns
    assert {"Oct_25", "Oct"}.isdisjoint(run.records.columns)


def test_journald_names_no_metric(tmp_path: Path) -> None:
    before = "Oct 09 08:53:0{n} gpu-box train.sh[811]: "
    run = parsed(tmp_path, *(f"{before.format(n=n)}Эпоха [{n}/9], потери=2.{n}" for n in range(1, 8)))
    assert run.records["loss"][0] == 2.1
    assert not [name for name in run.records.columns if "gpu_box" in name]


def test_an_unknown_word_does_not_leave_another_name_behind(tmp_path: Path) -> None:
    """`検証` alone is a validation's loss; `検証コサイン類似度` is its cosine similarity."""
    blocks = [
        [f"Epoch {n}", f"  訓練損失: 0.8{n}", f"  検証損失: 0.7{n}", f"  検証コサイン類似度: 0.1{n}"]
        for n in range(1, 6)
    ]
    run = parsed(tmp_path, *(line for block in blocks for line in block))
    losses = run.evals.filter(run.evals["name"] == "val_loss")["value"].to_list()
    assert losses == [0.71, 0.72, 0.73, 0.74, 0.75]


@pytest.mark.parametrize("stamp", ["0:00:{s} ", "INFO:09-Oct-25 08:53:{s}:"])
def test_a_row_does_not_begin_within_the_clock_before_it(tmp_path: Path, stamp: str) -> None:
    rows = [f"{stamp.format(s=10 + n)}{n}\t{4 / n:.4f}\t{5 / n:.4f}" for n in range(1, 8)]
    run = parsed(tmp_path, stamp.format(s="08") + "epoch\ttrain_loss\tval_loss", *rows)
    assert run.records["step"].to_list() == [1, 2, 3, 4, 5, 6, 7]
    assert run.records["loss"].to_list()[:2] == [4.0, 2.0]


def test_total_time_lasts_as_long_as_its_unit_says_where_it_runs_on(tmp_path: Path) -> None:
    line = "Train epoch {}, total time {:.2f}{}, accuracy: 12.{}"
    rising = [3.0 * n for n in range(1, 11)]
    cases = {
        ("", (*rising,)): None,
        ("s", (*rising,)): 30.0,
        ("s", (*rising[:2], *rising)): 30.0,  # begun again behind a warm-up
        ("s", (*rising[::-1],)): None,
        ("s", (18.9, 18.8, 18.9, 18.7, 18.8, 18.7, 18.9)): None,  # of each epoch
    }
    for (unit, times), lasts in cases.items():
        lines = [line.format(n, time, unit, n) for n, time in enumerate(times, 1)]
        assert summary.duration_s(parsed(tmp_path, *lines).records) == lasts


FORECAST = "Epoch: {0}, Steps: 266 | Train Loss: 0.{0}4 Vali Loss: 0.{0}6 Test Loss: 0.{0}3\n"
BATCHES = "\titers: 100, epoch: {0} | loss: 0.{0}5\n\titers: 200, epoch: {0} | loss: 0.{0}5\n"


@pytest.mark.parametrize("above", ["", BATCHES])
def test_validation_stands_beside_a_test_and_the_length_of_the_epoch(
    read: Callable[[str], Log], above: str
) -> None:
    log = read("".join((above + FORECAST).format(epoch) for epoch in range(1, 6)))
    validated = log.evals.filter(log.evals["name"] == "val_loss")
    places = [(200 if above else e, float(f"0.{e}6")) for e in range(1, 6)]
    assert validated.select("step", "value").rows() == places
    assert "Test_Loss" in log.evals["name"]
    losses = [float(f"0.{e}5") for e in range(1, 6) for _ in range(2)]
    assert log.records["loss"].to_list() == (losses if above else [float(f"0.{e}4") for e in range(1, 6)])


def test_count_that_never_changes_is_the_step_where_no_epoch_rises(read: Callable[[str], Log]) -> None:
    log = read("".join(f"Epoch: 1, Steps: 266 | Train Loss: 0.{i}4\n" for i in range(1, 6)))
    assert log.records["step"].to_list() == [266] * 5


def test_a_number_that_changes_with_each_training_is_no_batch(tmp_path: Path) -> None:
    places = [(run, epoch) for run in range(1, 5) for epoch in range(1, 100, 10)]
    run = parsed(tmp_path, *(f"lake Run {r}/4, Epoch {e}/100, Loss (NLL): {3 / e:.4f}" for r, e in places))
    assert run.records["step"].to_list() == [epoch for _, epoch in places]
    batches = parsed(
        tmp_path,
        *(f"part {b}/4, Epoch {e}/9, Loss: {3 / (b + e):.4f}" for e, b in product(range(1, 10), range(1, 5))),
    )
    assert batches.records["step"].to_list() == [*range(1, 37)]


def test_a_sum_is_the_loss_beside_measures_without_names(tmp_path: Path) -> None:
    """The loss and its parts, then recall and hits at two ranks."""
    lines = [
        f"Epoch {n} [9.1s + 3.{n}s]: train==[{9 / n + 2:.4f}={9 / n:.4f} + 2.0000], "
        f"recall=[0.0{n}1, 0.1{n}2], hit=[0.3{n}4, 0.5{n}6], ndcg=[0.1{n}, 0.2{n}]"
        for n in range(1, 9)
    ]
    run = parsed(tmp_path, *lines)
    assert run.records["loss"].to_list() == [round(9 / n + 2, 4) for n in range(1, 9)]


def test_losses_of_the_test_stand_in_their_block_though_the_first_has_no_step(tmp_path: Path) -> None:
    """Before training both losses are printed, and no step says where."""
    blocks = [
        f"Step {5 * n:5} of   40:\nTrain loss: {2 - n / 9:.4f}\nTest loss: {2.1 - n / 9:.4f}"
        for n in range(8)
    ]
    run = parsed(tmp_path, "Train loss: 2.3001\nTest loss: 2.4002", *blocks)
    assert run.evals.tail(8)["step"].to_list() == run.records["step"].to_list() == [5 * n for n in range(8)]


def test_a_measure_of_both_sets_is_of_no_loop_of_evaluation(tmp_path: Path) -> None:
    """Each optimizer trains again, and its line counts to a total, too."""
    lines = []
    for trial in range(1, 4):
        pairs = [(round(0.9 + n / 99, 4), round(0.8 + n / 99 + trial / 999, 4)) for n in range(1, 8)]
        lines += [f"{trial}/9. Adagrad, lr=0.{trial}"]
        lines += [f"{n}/7 | acc: {a} | val_acc: {b} | time: 9.{n}5 s." for n, (a, b) in enumerate(pairs, 1)]
        lines += [f"acc, val_acc={pairs}", f"mean time=9.{trial}5 s."]
    run = parsed(tmp_path, *lines)
    assert run.records.select("attempt", "step").rows() == [(t, n) for t in (1, 2, 3) for n in range(1, 8)]
    assert run.evals.select("step", "name").rows() == [(n, "val_acc") for n in range(1, 8)] * 3


@pytest.mark.parametrize(
    ("train", "held_out"), [("train-auc:", "test-auc:"), ("training's auc: ", "valid_1's auc: ")]
)
def test_boosters_without_a_loss_have_records_that_evaluate(
    train: str, held_out: str, tmp_path: Path
) -> None:
    """One measure of both sets: rounds of two folds are two attempts. One of held-out data alone is none."""
    rounds = [(fold, n) for fold in (1, 2) for n in range(1, 9)]
    lines = [f"[{n}]\t{train}0.9{n}{fold}\t{held_out}0.8{n}{fold}" for fold, n in rounds]
    run = parsed(tmp_path, *lines)
    assert run.records.select("attempt", "step").rows() == rounds
    name = {"test-auc:": "test_auc"}.get(held_out, "valid_1_auc")
    assert run.evals.select("attempt", "step", "name").rows() == [(*each, name) for each in rounds]
    assert parsed(tmp_path, *(line.replace(train, "valid-auc: ") for line in lines)).records.is_empty()


def test_the_bar_of_a_test_is_no_epoch_though_the_one_before_was_broken_off(tmp_path: Path) -> None:
    bar = "{}/{} [====================] - 9s 9ms/step - loss: {} - accuracy: 0.5"
    run = parsed(
        tmp_path,
        "Epoch 1/3",
        bar.format(80, 80, 2.5),
        "Epoch 2/3",
        bar.format(31, 80, 2.25),
        "KeyboardInterrupt",
        bar.format(20, 20, 2.75),
    )
    assert run.records.select("step", "loss").rows() == [(1, 2.5), (2, 2.25)]
    assert 2.75 in run.evals["value"].to_list()


def test_the_result_of_a_split_is_of_no_epoch(tmp_path: Path) -> None:
    """It names the split, and that is no step."""
    bar = "9/9 [====================] - 9s 9ms/step - loss: {:.4f} - val_loss: {:.4f}"
    lines = []
    for split in range(1, 5):
        lines += [f"Split {split}/4"]
        for n in range(1, 4):
            lines += [f"Epoch {n}/3", bar.format(3 / n + split / 9, 4 / n + split / 9)]
        lines += [f"Validation loss for split {split}: {4 / 3 + split / 9:.6f}"]
    run = parsed(tmp_path, *lines)
    assert run.evals["step"].to_list() == [1, 2, 3] * 4


EPOCHS = range(1, 9)


def of_epochs(line: str) -> str:
    return "".join(line.format(e=e, t=3 / e, v=4 / e, a=0.5 + e / 50) for e in EPOCHS)


def assert_both_losses(log: Log) -> None:
    assert log.records.select("step", "loss").rows() == [(e, round(3 / e, 4)) for e in EPOCHS]
    assert log.evals.filter(name="val_loss")["value"].to_list() == [round(4 / e, 4) for e in EPOCHS]


@pytest.mark.parametrize(
    "line",
    [
        "After epoch {e}, the training loss is {t:.4f} and the validation loss is {v:.4f}.\n",
        "epoch {e}: loss (train/val) {t:.4f}/{v:.4f}, acc (train/val) {a:.3f}/0.4{e}\n",
        "epoch {e} - train loss/acc: {t:.4f}/{a:.4f}, val loss/acc: {v:.4f}/0.4{e}\n",
        "epoch={e} tr_loss={t:.4f} va_loss={v:.4f} va_acc={a:.4f}\n",
    ],
)
def test_names_of_both_losses(line: str, read: Callable[[str], Log]) -> None:
    assert_both_losses(read(of_epochs(line)))


def test_two_of_one_measure_are_no_loss_and_score(read: Callable[[str], Log]) -> None:
    log = read(of_epochs("epoch {e} loss: {t:.4f} acc: 4{e}/50\n"))
    assert log.records["loss"].to_list() == [round(3 / e, 4) for e in EPOCHS]
    assert "acc_total" not in log.records.columns


@pytest.mark.parametrize("head", ["phase: {} | ", "[{}] ", "{}: "])
@pytest.mark.parametrize(
    "line", ["step {s} | loss: {x:.4f} | lr 1e-3", "iter {s}: loss {x:.4f}, time 12.3ms"]
)
def test_set_in_front_of_a_known_line_tells_an_evaluation(
    head: str, line: str, read: Callable[[str], Log]
) -> None:
    lines = []
    for s in range(100, 1100, 100):
        lines.append(head.format("train") + line.format(s=s, x=300 / s))
        if s % 200 == 0:
            lines.append(head.format("val") + line.format(s=s, x=400 / s))
    log = read("\n".join(lines))
    assert log.records["step"].to_list() == [*range(100, 1100, 100)]
    losses = [(s, round(400 / s, 4)) for s in range(200, 1100, 200)]
    assert log.evals.filter(name="val_loss").select("step", "value").rows() == losses


def test_second_stage_that_validates_is_a_training(read: Callable[[str], Log]) -> None:
    first = "".join(f"Epoch {e}/8 recon loss: {3 / e:.4f}\n" for e in EPOCHS)
    second = "".join(f"Epoch {e}/4 cls loss: {2 / e:.4f} val acc: 0.{e}1\n" for e in range(1, 5))
    log = read(f"Pretraining\n{first}Fine-tuning\n{second}")
    assert log.records["loss"].to_list() == [
        *(round(3 / e, 4) for e in EPOCHS),
        *(round(2 / e, 4) for e in range(1, 5)),
    ]
    assert log.records["attempt"].to_list() == [1] * 8 + [2] * 4
    assert log.evals["name"].unique().to_list() == ["val_acc"]


def test_results_of_a_step_are_of_it(read: Callable[[str], Log]) -> None:
    lines = []
    for s in range(100, 1100, 100):
        lines.append(f"Step: {s}, Training loss: {300 / s:.4f}")
        if s % 200 == 0:
            lines += [
                f"***** Eval results step {s} *****",
                f"  eval_loss = {400 / s:.4f}",
                "  eval_acc = 0.5",
            ]
    log = read("\n".join(lines))
    losses = [(s, round(400 / s, 4)) for s in range(200, 1100, 200)]
    assert log.evals.filter(name="val_loss").select("step", "value").rows() == losses


def test_table_with_semicolons_is_named_by_its_heading(read: Callable[[str], Log]) -> None:
    log = read("epoch;loss;val_loss\n" + of_epochs("{e};{t:.4f};{v:.4f}\n"))
    assert_both_losses(log)


@pytest.mark.parametrize(
    "line",
    [
        "Epoch {e}: {{'train': {{'loss': {t:.4f}, 'acc': {a:.4f}}}, 'val': {{'loss': {v:.4f}, 'acc': 0.4{e}}}}}\n",
        "Epoch {e} train (loss, acc): ({t:.4f}, {a:.4f}) val (loss, acc): ({v:.4f}, 0.4{e})\n",
    ],
)
def test_a_set_names_the_figures_in_its_brackets(line: str, read: Callable[[str], Log]) -> None:
    assert_both_losses(read(of_epochs(line)))


def test_a_word_of_capitals_tells_an_evaluation(read: Callable[[str], Log]) -> None:
    lines = []
    for s in range(100, 1100, 100):
        lines.append(f"step {s} | loss {300 / s:.4f} | lr 1e-3")
        if s % 200 == 0:
            lines.append(f"MILESTONE_EVAL step {s} | loss: {400 / s:.4f} | si_sdr: -{s / 300:.2f} dB")
    log = read("\n".join(lines))
    losses = [(s, round(400 / s, 4)) for s in range(200, 1100, 200)]
    assert log.evals.filter(name="val_loss").select("step", "value").rows() == losses
    assert log.records["step"].to_list() == [*range(100, 1100, 100)]


def test_losses_of_both_sets_with_a_bar_between_them(read: Callable[[str], Log]) -> None:
    lines = [f"iter {s}: loss {300 / s:.4f} | lr 1e-3" for s in range(100, 1100, 100)]
    lines += [f"step {s}: train loss 0.5{s} | val loss {400 / s:.4f}" for s in range(200, 1100, 200)]
    log = read("\n".join(lines))
    losses = [(s, round(400 / s, 4)) for s in range(200, 1100, 200)]
    assert log.evals.filter(name="val_loss").select("step", "value").rows() == losses


def test_set_in_front_of_pairs_that_name_an_epoch(read: Callable[[str], Log]) -> None:
    lines = "train epoch={e}, loss={t:.4f}, accuracy=5{e}.5\neval epoch={e}, loss={v:.4f}, accuracy=4{e}.5\n"
    log = read(of_epochs(lines))
    assert_both_losses(log)


@pytest.mark.parametrize("before", ["", "epoch_end: "])
@pytest.mark.parametrize(
    "pairs", ['"train_loss": {t:.4f}, "val_loss": {v:.4f}', '"valid_loss": {v:.4f}, "train_loss": {t:.4f}']
)
def test_json_lines_of_numbers_that_begin_with_the_epoch(
    before: str, pairs: str, read: Callable[[str], Log]
) -> None:
    log = read(of_epochs(f'{before}{{{{"epoch": {{e}}, {pairs}}}}}\n'))
    assert_both_losses(log)


def test_object_of_a_set_is_an_evaluation(read: Callable[[str], Log]) -> None:
    lines = []
    for s in range(100, 1100, 100):
        lines.append(f'{{"step":{s},"train":{{"loss":{300 / s:.4f}}},"lr":0.001}}')
        if s % 200 == 0:
            lines.append(f'{{"step":{s},"eval":{{"loss":{400 / s:.4f},"ppl":9.5}}}}')
    log = read("\n".join(lines))
    assert log.records["step"].to_list() == [*range(100, 1100, 100)]
    losses = [(s, round(400 / s, 4)) for s in range(200, 1100, 200)]
    assert log.evals.filter(name="val_loss").select("step", "value").rows() == losses


@pytest.mark.parametrize(("last", "count"), [("0.5001", 8), ("0.5002", 9)])
def test_final_loss_that_repeats_the_record_above_is_no_evaluation(
    last: str, count: int, read: Callable[[str], Log]
) -> None:
    log = read(of_epochs("Epoch {e}: loss {t:.4f} val_loss {v:.3f}1\n") + f"Final val loss: {last}\n")
    assert log.evals.filter(name="val_loss").height == count


@pytest.mark.parametrize(
    "line",
    [
        '{{"valLoss": {v:.4f}, "trainLoss": {t:.4f}, "lr": 0.001, "epoch": {e}}}\n',
        "epoch={e} trainLoss={t:.4f} valLoss={v:.4f}\n",
        "epoch={e} lr=0.001 loss={t:.4f} Val Loss={v:.4f}\n",
        "Val Loss={v:.4f} epoch={e} Train Loss={t:.4f} lr=0.001\n",
        '{{"loss": {t:.4f}, "epoch": {e}, "val_loss": {v:.4f}}}\n',
        '{{"eval_loss": {v:.4f}, "training_loss": {t:.4f}, "epoch": {e}}}\n',
    ],
)
def test_pairs_in_any_order_with_names_in_any_spelling(line: str, read: Callable[[str], Log]) -> None:
    assert_both_losses(read(of_epochs(line)))


def test_humps_in_other_names_stay_as_printed(read: Callable[[str], Log]) -> None:
    log = read(of_epochs('{{"epoch": {e}, "loss": {t:.4f}, "valAcc": {a:.4f}, "topAcc": {a:.4f}}}\n'))
    assert log.evals["name"].unique().to_list() == ["val_Acc"]
    assert "topAcc" in log.records.columns


@pytest.mark.parametrize("head", ["[{}] ", "{}: ", "{} | ", "({}) ", "*** {} *** "])
@pytest.mark.parametrize(
    "line",
    [
        '{{"step": {s}, "loss": {x:.4f}, "acc": 0.5}}',
        "epoch={s} loss={x:.4f} acc=0.5",
        "step: {s} | loss: {x:.4f} | acc: 0.5",
    ],
)
def test_set_in_front_of_the_pairs_tells_an_evaluation(
    head: str, line: str, read: Callable[[str], Log]
) -> None:
    lines = []
    for s in range(1, 11):
        lines.append(head.format("Training") + line.format(s=s, x=3 / s))
        lines.append(head.format("Testing") + line.format(s=s, x=4 / s))
    log = read("\n".join(lines))
    assert log.records.select("step", "loss").rows() == [(s, round(3 / s, 4)) for s in range(1, 11)]
    losses = [(s, round(4 / s, 4)) for s in range(1, 11)]
    assert log.evals.filter(name="val_loss").select("step", "value").rows() == losses
