"""Measures of a test set have a name of their own where the log gives the same ones for a validation set."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
TEST = "Test loss: 0.9113, Test acc: 0.7012\n"


def _trained(evaluation: str) -> str:
    epochs = range(1, 9)
    return "".join(f"Epoch {e}/8, Train loss: {2 / e:.4f}{evaluation.format(3 / e)}\n" for e in epochs)


@pytest.mark.parametrize("name", [", Val loss", "\nVal loss", "\nDev loss", "\nEval loss", "\nValid | loss"])
@pytest.mark.parametrize("trainings", [1, 2, 5])
def test_test_at_the_end_is_told_from_validations(read: Read, name: str, trainings: int) -> None:
    log = read((_trained(name + ": {:.4f}") + TEST) * trainings)
    assert log.records.height == 8 * trainings
    assert log.evals.filter(name="val_loss").height == 8 * trainings
    tests = log.evals.filter(name="test_loss")
    assert tests["value"].to_list() == [0.9113] * trainings
    assert set(tests["step"]) == {8}


def test_set_in_front_of_the_first_of_its_figures_is_that_of_the_second(read: Read) -> None:
    line = "[Epoch {0}] Train-acc: {1:.3f}, loss: {2:.3f} | Val-acc: {3:.3f}, loss: {4:.3f} | time: 9.5\n"
    log = read("".join(line.format(e, 1 - 1 / e, 2 / e, 1 - 1 / e, 3 / e) for e in range(2, 9)))
    assert log.records["loss"].to_list() == [round(2 / e, 3) for e in range(2, 9)]
    assert log.evals.filter(name="val_loss")["value"].to_list() == [round(3 / e, 3) for e in range(2, 9)]


def test_test_alone_is_the_validation(read: Read) -> None:
    log = read(_trained("") + TEST)
    assert log.evals.filter(name="val_loss").rows(named=True)[0]["value"] == 0.9113
    assert "test_loss" not in log.evals["name"]


def test_measures_with_names_of_their_own_keep_them(read: Read) -> None:
    log = read(_trained("\nVal loss: {:.4f}") + "Test accuracy: 0.7012\n" * 2)
    assert {*log.evals["name"]} == {"val_loss", "Test_accuracy"}


def test_test_below_records_of_a_known_format_is_read_with_its_scores(read: Read) -> None:
    epochs = (
        f"epoch={e}, train_loss={2 / e:.4f}, lr=0.001\nepoch={e}, eval loss={3 / e:.4f}, eval auc={e}.5\n"
        for e in range(1, 9)
    )
    log = read("".join(epochs) + "Test loss=0.9113, Test acc=0.7012\n")
    assert log.evals.filter(name="test_loss")["value"].to_list() == [0.9113]


def test_record_of_a_block_that_evaluates_too_stays_in_it(read: Read) -> None:
    lines = []
    for e in range(8):
        evaluation = ", Test_loss 0.98" if e % 3 == 2 else ""
        lines += [f"Epoch [{e}/8]", f"train_loss {9 / (e + 1):.4f}{evaluation}"]
        lines += ["EarlyStopping counter: 2 out of 10"] * (e < 2)
        lines += [f"Epoch {e} took 5{e}.10 seconds"] * (e % 2 == 0)
    log = read("\n".join(lines) + "\n")
    assert log.records.select("step", "loss").rows() == [(e, round(9 / (e + 1), 4)) for e in range(8)]
    assert log.evals["step"].to_list() == [2, 5]


def test_epoch_of_pairs_with_a_colon_behind_it_is_the_step(read: Read) -> None:
    epoch = "epoch={}: tr_loss={:.4f}; lr=0.001\n[Validation] loss={:.4f}\n"
    log = read("".join(epoch.format(e, 2 / e, 3 / e) for e in range(1, 9)))
    assert log.records["step"].to_list() == log.evals["step"].to_list() == [*range(1, 9)]


def test_set_that_is_cut_short_beside_the_training_set_is_held_out(read: Read) -> None:
    sets = "epoch {}\ntraining set : loss {:.4f}, acc 0.{}\nevl set : loss {:.4f}, acc 0.{}\n"
    log = read("".join(sets.format(e, 2 / e, e + 11, 3 / e, e + 21) for e in range(1, 9)))
    assert log.records.height == log.evals.filter(name="val_loss").height == 8


@pytest.mark.parametrize(
    "line",
    [
        "epoch {e} | loss: train {t:.4f} val {v:.4f} test {w:.4f} | acc: train 0.9{e} val 0.8{e} test 0.7{e}\n",
        "epoch {e} | train: loss {t:.4f} acc 0.9{e} | val: loss {v:.4f} acc 0.8{e}"
        " | test: loss {w:.4f} acc 0.7{e}\n",
    ],
)
def test_sets_stand_below_a_measure_or_above_it(line: str, read: Read) -> None:
    log = read("".join(line.format(e=e, t=2 / e, v=3 / e, w=4 / e) for e in range(1, 9)))
    assert log.records["loss"].to_list() == [round(2 / e, 4) for e in range(1, 9)]
    assert set(log.evals["name"]) == {"val_loss", "test_loss", "val_acc", "test_acc"}


def test_line_of_both_sets_is_a_record(read: Read) -> None:
    line = "epoch {e}: loss {t:.4f}; recall 0.9{e}/0.8{e} (train/val)\n"
    log = read("".join(line.format(e=e, t=2 / e) for e in range(1, 9)))
    assert log.records["loss"].to_list() == [round(2 / e, 4) for e in range(1, 9)]
    assert log.evals.select("name", "value").rows()[:2] == [("val_recall", 0.81), ("val_recall", 0.82)]


def test_best_of_a_set_so_far_is_no_evaluation(read: Read) -> None:
    line = "epoch {e} | loss {t:.4f} | trn 0.9{e} | valid loss {v:.4f} | best valid {v:.4f}\n"
    log = read("".join(line.format(e=e, t=2 / e, v=3 / e) for e in range(1, 9)))
    assert set(log.evals["name"]) == {"val_loss"}


@pytest.mark.parametrize(
    "row", ["train {:.4f}, dev {:.4f}", "train {:.4f} | eval {:.4f} | lr 1e-3", "trn: {:.4f} | vld: {:.4f}"]
)
def test_bare_set_beside_the_training_set_has_the_validation_loss(row: str, read: Read) -> None:
    log = read("".join(f"epoch {e}/9: " + row.format(2 / e, 3 / e) + "\n" for e in range(1, 10)))
    assert log.records["loss"].to_list() == [round(2 / e, 4) for e in range(1, 10)]
    assert log.evals.filter(name="val_loss")["value"].to_list() == [round(3 / e, 4) for e in range(1, 10)]


def test_eval_beside_a_loss_alone_is_a_score(read: Read) -> None:
    log = read(
        "".join(
            f"Epoch {e}  Iteration 0  lr = 0.01 loss = {2 / e:.4f}  eval = 0.{e}2\n" for e in range(1, 10)
        )
    )
    assert (log.records["eval"].to_list()[0], log.evals.height) == (0.12, 0)


def test_sets_beside_a_loss_are_scores(read: Read) -> None:
    row = "epoch {}/9: loss {:.4f}, train: 0.{}5, dev: 0.{}4\n"
    log = read("".join(row.format(e, 2 / e, e, e) for e in range(1, 10)))
    assert "val_loss" not in log.evals["name"]


@pytest.mark.parametrize("batches", [10, 40])
def test_line_of_an_epoch_below_the_batches_of_a_known_format_sums_them_up(batches: int, read: Read) -> None:
    batch = "Train Epoch: {} [{}/{} ({}%)]\tLoss: {:.6f}\n"
    text = ""
    for e in (1, 2, 3):
        for k in range(batches):
            text += batch.format(e, 64 * k, 64 * batches, 100 * k // batches, 9 / (e * batches + k))
        text += f"Epoch {e} finished. Train loss: {4 / e:.4f}, Val loss: {5 / e:.4f}\n"
    log = read(text)
    assert log.records.height == 3 * batches
    assert log.evals.select("name", "step").rows() == [
        (n, e) for e in (1, 2, 3) for n in ("train_loss", "val_loss")
    ]


def test_figures_of_two_labels_in_turn_are_named_apart(read: Read) -> None:
    epoch = (
        "Epoch {0}/50, loss 2.{0}: 100%|##| 97/97 [00:22<00:00,  4.34it/s]\nTrain Loss: 2.0{0} | Val Loss: 1.{0}\n"
        "  P-wave: AUC=0.99{0}9, Precision=0.98{0}, Recall=0.97{0}, F1=0.96{0}\n"
        "  S-wave: AUC=0.99{0}8, Precision=0.95{0}, Recall=0.94{0}, F1=0.93{0}\n"
    )
    log = read("".join(epoch.format(e) for e in range(1, 7)))
    values = dict(log.evals.filter(step=3).select("name", "value").rows())
    assert (values["P_wave_AUC"], values["S_wave_AUC"], values["S_wave_F1"]) == (0.9939, 0.9938, 0.933)
    assert "AUC" not in values
