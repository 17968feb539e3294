"""What other shapes are beside the records of a log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.infer import roles, shape_roles, shapes
from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]

RECORDS = [f"step {i} loss {9 / i:.3f} lr 3e-4" for i in range(1, 61)]


def role(*lines: str) -> str | None:
    """The role of the last shape beside the records above it."""
    rows = [line.encode() for line in [*RECORDS, *lines]]
    main, *_, other = (shape_roles.make_candidate(shape, rows) for shape in shapes.line_shapes(rows, rows))
    assert main is not None
    assert other is not None
    return roles.role_beside(other, main, None)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step 60 val loss 2.5", "eval"),
        ("new best val loss 2.5", None),
        ("best loss so far 2.5", None),
        ("{'lr': 0.1, 'val_split': 0.5, 'eval_loss': 'mse', 'seed': 1, 'steps': 60}", None),
        ("epoch 1", "epoch"),
        ("mean over all steps: loss 2.5", None),
    ],
)
def test_role_of_a_line_beside_records(line: str, expected: str | None) -> None:
    assert role(line) == (None if expected == "epoch" else expected)


def test_record_with_text_right_behind_it_is_read_as_the_others_are() -> None:
    records = [f"E{i}/500 | Loss:{9 / i:.3f} | Best:{i}.5%" for i in range(1, 61)]
    glued, validated = (
        "E61/500 | Loss:0.125 | Best:61.5%Val 73/500: 80%",
        "E61/500 | Loss:0.125 | Best:61.5% | Val loss:0.5",
    )
    rows = [line.encode() for line in [*records, glued, validated]]
    main, bar, evaluation = (
        shape_roles.make_candidate(shape, rows) for shape in shapes.line_shapes(rows, rows)
    )
    assert main is not None
    assert bar is not None
    assert evaluation is not None
    assert roles.role_beside(bar, main, None) is None
    assert roles.role_beside(evaluation, main, None) == "train"  # in the words of a record: both, rule 18


def test_saved_best_model_with_its_step_is_no_evaluation(read: Read) -> None:
    text = "".join(
        f"Epoch {epoch}/9 Train Loss: {4 / epoch:.4f} | Val Loss: {5 / epoch:.4f}\n"
        f"Saved new best model at epoch {epoch} with val loss {5 / epoch:.4f}\n"
        for epoch in range(1, 10)
    )
    assert read(text).evals["name"].to_list() == ["val_loss"] * 9
    assert len(set(read(text.replace("Saved new best", "Swapped in the")).evals["name"])) == 2


@pytest.mark.parametrize(
    ("line", "is_evaluation"),
    [
        ("Evaluating {epoch} ... BEST_ACC: {value}% ({value}%)", False),
        ("  [BEST] New best CER={value} - model saved to out", False),
        ("Best model saved (val_loss={value}, macro_f1={value})", False),
        ("validation bestAcc {value}", False),
        ("achieve BEST dev acc: {value}", False),
        ("test best_of_4_acc {value}", True),
        ("test error of best model {value}", True),
        ("test acc {value}, best acc 0.9875", True),
    ],
)
def test_best_value_so_far_is_no_evaluation_by_whatever_name(
    read: Read, line: str, is_evaluation: bool
) -> None:
    log = read(
        "".join(
            "".join(
                f"epoch {epoch} step {epoch * 9 + at} loss {9 / (epoch * 9 + at):.4f}\n" for at in range(9)
            )
            + line.format(epoch=epoch, value=f"0.{50 - epoch}")
            + "\n"
            for epoch in range(1, 9)
        )
    )
    assert log.records.height == 72
    assert log.evals["value"].to_list() == [float(f"0.{50 - e}") for e in range(1, 9)] * is_evaluation


def test_numbered_heading_about_tests_is_no_evaluation(read: Read) -> None:
    text = "".join(f"step {at} loss {9 / at:.4f}\n" for at in range(1, 30))
    assert read(f"{text}### 4. 测试与优化\n").evals.height == 0
    assert read(f"{text}测试损失: 4.5\n").evals["value"].to_list() == [4.5]


def test_parts_of_a_loss_beside_a_learning_rate_are_records_without_a_loss(read: Read) -> None:
    log = read("".join(f"k={i} CE {2 / (i + 1):.3f} Dice {1 / (i + 1):.3f} lr 0.01\n" for i in range(40)))
    assert {"CE", "Dice"} <= set(log.metrics())
    assert (log.records.height, "loss" in log.metrics()) == (40, False)
    assert read("".join(f"k={i} price {2 / (i + 1):.3f} lr 0.01\n" for i in range(40))).records.height == 0


def test_figures_right_below_a_record_are_of_its_epoch(read: Read) -> None:
    """Those of the training belong to the record; a bar of the next epoch may stand before the others."""
    text = "".join(
        f"Epoch {epoch}/9: 100%|####| 6/6 [00:02<00:00,  2.05it/s]\n"
        f"Epoch {epoch}/9 Loss: {4 / epoch:.4f}\n"
        f"Train - Acc: 0.4{epoch}, F1: 0.51{epoch}\n"
        + ("" if epoch % 3 else f"Epoch {epoch + 1}/9:   0%|    | 0/6 [00:00<?, ?it/s]")
        + f"Val   - Acc: 0.5{epoch}, F1: 0.72{epoch}\n\n"
        for epoch in range(1, 9)
    )
    log = read(text)
    assert log.records.select("step", "F1").rows() == [(e, float(f"0.51{e}")) for e in range(1, 9)]
    scores = log.evals.filter(log.evals["name"].is_in(["F1", "Val_F1"]))
    assert scores.select("step", "value").rows() == [(e, float(f"0.72{e}")) for e in range(1, 9)]
    assert "F1" not in read(text.replace("Train - ", "Other - ")).records.columns


@pytest.mark.parametrize(("images", "evaluations"), [(1, 6), (3, 0)])
def test_quality_of_pictures_between_the_records_is_an_evaluation(
    read: Read, images: int, evaluations: int
) -> None:
    """But not a list of it, with a line for each picture."""
    log = read(
        "".join(
            f"[{epoch}/6] train loss: {1 / epoch:.4f}\n"
            + "".join(f"===> Avg. PSNR: {20 + epoch + at / 9:.4f} dB\n" for at in range(images))
            for epoch in range(1, 7)
        )
    )
    assert log.evals.filter(name="PSNR_db").height == evaluations
    assert log.records.height == 6


def test_figure_of_the_validation_beside_its_loss_keeps_its_name(read: Read) -> None:
    log = read(
        "".join(
            f"==> Epoch {epoch}/6\ntrain_loss {9 / epoch:.4f}\nval_loss {8 / epoch:.4f}\nval ### 0.0{epoch}\n"
            for epoch in range(1, 7)
        )
    )
    assert log.records.select("step", "loss").row(0) == (1, 9.0)
    assert log.evals.filter(name="val_loss")["value"].to_list()[:2] == [8.0, 4.0]
    assert log.evals.filter(name="val")["value"].to_list()[:2] == [0.01, 0.02]


@pytest.mark.parametrize(("name", "count"), [("eval_anls", 3), ("eval_seconds", 0), ("anls", 0)])
def test_figure_that_is_named_by_its_set_is_an_evaluation(read: Read, name: str, count: int) -> None:
    """It names the fraction of an epoch at which the record above stands: that is its step."""
    records = [
        f"loss: {3 / i:.4f}, lr: 1e-4, global_step: {100 * i}, epoch: {i / 4 + 0.1}\n" for i in range(1, 7)
    ]
    scored = [
        text + f"{name}: 6{i}.25, epoch: {i / 4 + 0.1}\n" * (i % 2 == 0)
        for i, text in enumerate(records, start=1)
    ]
    log = read("".join(scored))
    assert log.records.height == 6
    assert log.evals["step"].to_list() == [200, 400, 600][:count]


def test_validate_loss_is_of_the_validation(read: Read) -> None:
    log = read("".join(f"Train Loss: {9 / i:.4f} Validate Loss {8 / i:.4f}\n" for i in range(1, 9)))
    assert log.evals.filter(name="val_loss").height == log.records["loss"].count() == 8


def test_evaluation_without_a_place_between_placed_records_is_read(read: Read) -> None:
    lines = [f"iter {i}, loss: {9 / i:.4f} time: 5{i}.25ms" for i in range(1, 13)]
    log = read("\n".join([*lines[:6], "train loss: 2.6250, val loss: 2.7500", *lines[6:]]))
    evaluated = log.evals.filter(name="val_loss")
    assert (evaluated["step"].to_list(), evaluated["value"].to_list()) == ([7], [2.75])
    assert log.records["step"].to_list() == list(range(1, 13))


def test_steps_beside_records_of_epochs_are_no_records_of_theirs(read: Read) -> None:
    """A step of 115 between epochs 2 and 3 would be a restart."""
    epochs = [f"Epoch: {i}, learning rate: 0.001, average loss: {2 - i / 8:.4f}" for i in range(6)]
    counted = [
        f"step#: {i}   learning rate: 0.001   average loss: 1.75   patience: {i % 7}" for i in (0, 115)
    ]
    log = read("\n".join([counted[0], *epochs[:3], counted[1], *epochs[3:]]))
    assert log.records["step"].to_list() == list(range(6))
    assert set(log.records["attempt"]) == {1}


def test_figures_below_a_line_of_the_best_model_repeat_an_evaluation(read: Read) -> None:
    rows = [f"step {i} train loss {9 / i:.3f} test loss {12 / i:.3f}" for i in range(1, 9)]
    again = ["", "Best model at step 8:", "  train loss: 1.125", "  test loss: 1.500"]
    log = read("\n".join([*rows, *again]))
    assert log.evals.filter(name="val_loss").height == 8
    other = read("\n".join([*rows, "", "Held-out figures:", "  test loss: 1.500"]))
    assert other.evals.filter(name="val_loss").height == 9


def test_records_that_differ_in_the_unit_of_a_time_are_records_of_their_own(read: Read) -> None:
    """Those whose place was not read, too: none is a part of the one before it."""
    times = (
        "190ms\tremaining: 3m 9s",
        "45s\tremaining: 1m 45s",
        "1m 30s\tremaining: 1m",
        "2m 15s\tremaining: 14.2s",
    )
    folds = [
        "".join(
            f"{250 * i}:\tlearn: 0.{fold}{i}25\ttest: 0.{fold}{i}75\tbest: 0.{fold}{i}75 ({250 * i})"
            f"\ttotal: {time}\n"
            for i, time in enumerate(times)
        )
        for fold in (7, 8)
    ]
    log = read(
        "".join(
            f"\nfold {at}\n{rows}bestTest = 0.9\nbestIteration = 750\n" for at, rows in enumerate(folds, 1)
        )
    )
    assert log.records["loss"].drop_nulls().to_list() == [
        0.7025,
        0.7125,
        0.7225,
        0.7325,
        0.8025,
        0.8125,
        0.8225,
        0.8325,
    ]


def test_rows_of_classes_are_no_evaluations_at_their_numbers(read: Read) -> None:
    rows = "".join(f"Class {kind}: Train acc: 0.9{kind}, Val acc: 0.8{kind}\n" for kind in range(3))
    log = read(
        "".join(
            f"Epoch {epoch}/6\nTrain Loss: {9 / epoch:.4f}\nVal Loss: {8 / epoch:.4f}\n{rows}"
            for epoch in range(1, 7)
        )
    )
    assert log.evals["name"].unique().to_list() == ["val_loss"]
    assert log.evals["step"].to_list() == [1, 2, 3, 4, 5, 6]


def test_number_in_brackets_is_the_epoch_where_the_records_have_as_many(read: Read) -> None:
    log = read(
        "".join(
            "".join(
                f"Train: [ {epoch}/5] Step {at:03d}/335 Loss {9 / epoch - at / 999:.3f}\n"
                for at in range(0, 335, 50)
            )
            + f"Train: [ {epoch}/5] Final Loss {9 / epoch:.3f}\n"
            + f"Valid: [ {epoch}/5] Final Accuracy 0.{epoch}26 F1 0.{epoch}06\n"
            for epoch in range(1, 6)
        )
    )
    assert log.records.height == 35
    assert log.records["attempt"].unique().to_list() == [1]
    assert log.evals.filter(name="F1")["step"].to_list() == [1, 2, 3, 4, 5]


def test_threshold_that_is_printed_again_is_a_setting(read: Read) -> None:
    settings = "TEST:\n  SCORE_THRESH_TEST: 0.{}5\n  BASE_LR: 0.02\n  MAX_ITER: 90\n"
    records = "".join(f"iter {i} loss {9 / (i + 1):.3f}\n" for i in range(20))
    log = read((settings.format(0) + records) + (settings.format(4) + records) * 2)
    assert log.evals.height == 0


def test_rate_that_stays_the_same_and_parts_of_the_loss_are_of_the_record(read: Read) -> None:
    log = read(
        "".join(
            f"Iteration {i}, loss = {9 / (i + 20):.4f}\n"
            f"    Train net output #0: pair_loss = {8 / (i + 20):.4f} (* 1 = {8 / (i + 20):.4f} loss)\n"
            f"Iteration {i}, lr = 6e-05\n"
            for i in range(0, 200, 20)
        )
    )
    assert log.records.select("step", "loss", "lr", "pair_loss").row(0) == (0, 0.45, 6e-05, 0.4)
    assert log.records.height == 10


def test_measure_below_each_record_is_of_it_where_the_evaluation_names_its_own(read: Read) -> None:
    """Where nothing tells them apart, it may be of held-out data."""
    text = "".join(
        f"**** EPOCH {epoch:03d} ****\nmean loss: {3 / epoch:.4f}\naccuracy: 0.5{epoch}\n"
        f"eval mean loss: {4 / epoch:.4f}\neval accuracy: 0.4{epoch}\n"
        for epoch in range(1, 9)
    )
    log = read(text)
    assert log.records["accuracy"].to_list() == [float(f"0.5{epoch}") for epoch in range(1, 9)]
    assert log.evals.filter(name="eval_accuracy").height == 8
    other = read(text.replace("eval accuracy", "eval f1"))
    assert "accuracy" not in other.records.columns
    assert [doubt.what for doubt in other.doubts] == ["unread-figures"]


def test_line_that_says_what_was_saved_is_no_record(read: Read) -> None:
    lines = []
    for step in range(1, 41):
        loss = 10 / step
        lines.append(f"Epoch: {step // 10}, Batch: {step % 10}, Loss: {loss}, Accuracy: {1 / (1 + loss)}\n")
        if step % 4 == 0:
            lines.append(f"Saving model at iteration {step} with loss {loss} and accuracy {1 / (1 + loss)}\n")
    log = read("".join(lines))
    assert log.records.height == 40
    assert log.records["attempt"].n_unique() == 1


def test_time_of_testing_is_no_evaluation_of_a_record(read: Read) -> None:
    line = "INFO batch {} training time {:.2f} s, testing time 0.02 s, total wall time {:.2f} s\n"
    log = read("".join(line.format(at * 100, 4 + at / 9, 5 + at / 7) for at in range(1, 15)))
    assert log.records["step"].to_list() == [at * 100 for at in range(1, 15)]
    assert log.evals.is_empty()


def test_training_and_validation_loss_by_the_names_of_their_sets(read: Callable[[str], Log]) -> None:
    """Their line names no step; only the steps of the records above are evenly apart."""
    lines = [f"[10_{n:02}_07] Epoch: 0, Update: {20 * n}, Cost: {900 / (n + 9):.4f}" for n in range(1, 26)]
    for at in (25, 20, 15, 10, 5):
        lines.insert(at, f"Train: {50 - at}.25 Val: {60 - at}.5 ValPerp: {40 - at}.75")
    log = read("\n".join(lines))
    losses = log.evals.filter(name="val_loss").select("after", "step", "value").rows()
    assert losses[:-1] == [(None, 20 * at, 60.5 - at) for at in (5, 10, 15, 20)]
    assert (losses[-1], log.records.height) == ((None, 500, 35.5), 25)


def test_row_of_numbers_below_lines_of_both_losses_is_no_evaluation(read: Read) -> None:
    records = "".join(f"iteration {i} | cost: {9 / i:.4f}\n" for i in range(1, 11))
    both = "".join(f"{i}-Epoch train err:{8 / i:.4f} test err:{9 / i:.4f}\n" for i in range(1, 4))
    log = read(f"{records}{both}J =\n\n   1.5363e-02   1.0495e-02   7.1697e-03   4.8980e-03   3.3461e-03\n")
    assert max(log.evals["line"], default=0) <= 13


@pytest.mark.parametrize("trainings", [1, 3])
@pytest.mark.parametrize(
    "line", ["Best model at epoch 3 with val acc 0.7{n}43", "Average accuracy over folds: 0.7{n}43"]
)
@pytest.mark.parametrize(
    "record",
    ["Epoch {e}/4, Train loss: {a:.4f}, Val loss: {b:.4f}", "Step {e}, Loss: {a:.4f}\nval_loss: {b:.4f}"],
)
def test_summary_of_each_training_is_no_evaluation(
    line: str, trainings: int, record: str, read: Read
) -> None:
    epochs = [record.format(e=e, a=9 / e, b=8 / e) for e in range(1, 5)]
    text = "".join("\n".join([*epochs, line.format(n=n)]) + "\n" for n in range(trainings))
    assert {*read(text).evals["name"]} == {"val_loss"}


@pytest.mark.parametrize("done", [(1, 2), (0, 1, 2), (2,)])
def test_epoch_that_is_over_is_no_place_of_steps_that_count_on(done: tuple[int, ...], read: Read) -> None:
    """The steps of a second training begin again below the last such line of the first."""
    lines = []
    for step in range(10, 250, 10):
        lines += [f"steps: {step} tr_loss: {9 / step:.4f}", f"Val_loss: {8 / step:.4f}"]
        lines += [f"*** epoch {step // 80 - 1} done ***"] * (step % 80 == 0 and step // 80 - 1 in done)
    log = read("\n".join(lines * 2) + "\n")
    assert log.records.select("attempt", "step").rows() == [
        (a, s) for a in (1, 2) for s in range(10, 250, 10)
    ]
    assert log.evals["attempt"].to_list() == [1] * 24 + [2] * 24
