"""Tests for analysis.logs.infer.score_blocks: figures right below an evaluation, or around a score."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

EPOCHS = range(1, 9)
Read = Callable[[str], Log]


def log_of(*lines: str) -> str:
    return "".join(
        f"{line}\n".format(
            e=e, loss=3 / e, half=2.9 / (e + 0.5), val=3.3 / e, acc=0.5 + e / 100, top=0.4 + e / 90
        )
        for e in EPOCHS
        for line in lines
    )


def test_figures_of_one_group_are_of_its_evaluation(read: Read) -> None:
    """Their names need not be known, but those of another group need."""
    lines = (
        "step {e} loss: {loss:.4f}",
        "Scores:",
        "city.err: {val:.4f}",
        "city.ber: {top:.4f}",
        "city.acc: {acc}",
    )
    names = {"city_err", "city_ber", "city_acc"}
    assert {*read(log_of(*lines)).evals["name"]} == names
    assert "town_ber" not in {
        *read(log_of(*(line.replace("city.b", "town.b") for line in lines))).evals["name"]
    }


def test_a_time_beside_a_measure_is_none(read: Read) -> None:
    log = read(log_of("step {e} loss: {loss:.4f}", "Val MAE: {val:.4f}, MSE: {half:.4f} Cost {e}.5 sec"))
    assert {*log.evals["name"]} == {"Val_MAE", "MSE"}


def test_lines_of_the_training_are_the_records_though_they_give_no_loss(read: Read) -> None:
    log = read(log_of("Epoch {e} Train, mae: {loss:.4f}, mse: {half:.4f}", "Epoch {e} Val, MAE: {val:.4f}"))
    assert (log.records["step"].to_list(), log.evals["step"].to_list()) == ([*EPOCHS], [*EPOCHS])


def test_scores_right_below_a_test_are_of_it(read: Read) -> None:
    log = read(
        log_of(
            "Training epoch: {e}",
            "Mean training loss: {loss:.4f}",
            "Mean test loss of 63 batches: {val:.4f}",
            "Top1: {acc:.2%}",
            "Top5: {top:.2%}",
        )
    )
    assert log.evals["name"].value_counts().sort("name").rows() == [
        ("Top1_pct", 8),
        ("Top5_pct", 8),
        ("val_loss", 8),
    ]
    assert log.evals["step"].unique(maintain_order=True).to_list() == [*EPOCHS]
    assert not {"Top1_pct", "Top5_pct"} & {*log.records.columns}


@pytest.mark.parametrize("prefix", ["", "2024-03-01 10:00:00,123 - /home/a/my-run/train.log - INFO - "])
@pytest.mark.parametrize("name", ["intent accuracy", "intent accuracy score", "intent accuracy score is"])
def test_lines_of_several_scores_and_of_one_below_a_heading(prefix: str, name: str, read: Read) -> None:
    lines = (
        "step {e} loss {loss:.4f}",
        "evaluate:dev",
        "recall: {acc:.2%}; FB1: {top:.2%}",
        name + ": {acc:.3f}",
    )
    log = read(log_of(*(prefix + line for line in lines)))
    assert (log.records.height, log.doubts) == (8, ())
    assert log.evals["name"].value_counts().sort("name").rows() == [
        ("FB1_pct", 8),
        (name.replace(" ", "_").removesuffix("_is"), 8),
        ("recall_pct", 8),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ("Val loss: {val:.4f}", "Train accuracy: {acc:.3f}"),
        ("Val loss: {val:.4f}", "Accuracy: {acc:.3f}", "Val accuracy: {top:.3f}"),
    ],
)
def test_score_below_a_validation_is_of_the_training_if_its_name_or_another_line_says_so(
    lines: tuple[str, ...], read: Read
) -> None:
    log = read(log_of("Epoch {e}", "Loss: {loss:.4f}", *lines))
    assert "Accuracy" not in log.evals["name"].to_list()
    assert "Train_accuracy" not in log.evals["name"].to_list()


def test_best_score_so_far_below_a_test_is_none_of_its_figures(read: Read) -> None:
    lines = (
        "Epoch {e}",
        "Loss: {loss:.4f}",
        "Test loss: {val:.4f}",
        "Already saved the best model (top1 acc) {acc:.4f}",
    )
    assert read(log_of(*lines)).evals["name"].unique().to_list() == ["val_loss"]


def test_loss_above_scores_of_held_out_data_is_of_that_data(read: Read) -> None:
    lines = (
        "epoch {e} iter 0 loss {loss:.4f}",
        "epoch {e} iter 50 loss {half:.4f}",
        "weights path: ckpt/{e}.pth",
    )
    log = read(log_of(*lines, "loss: {val:.4f}", "AP: {acc:.4f}", "MaxRecall: {top:.4f}"))
    assert log.records.height == 16
    names = log.evals["name"].value_counts().sort("name").rows()
    assert names == [("AP", 8), ("MaxRecall", 8), ("val_loss", 8)]


def test_loss_above_a_lone_score_keeps_its_meaning(read: Read) -> None:
    log = read(log_of("Epoch {e}/8", "loss: {val:.4f}", "AP: {acc:.4f}"))
    assert log.records["loss"].to_list() == [round(3.3 / e, 4) for e in EPOCHS]


def test_measure_that_improved_below_its_evaluation_is_no_other_one(read: Callable[[str], Log]) -> None:
    lines = []
    for step in range(1, 31):
        lines.append(f"step {step} loss {9 / step:.4f}")
        if step % 5 == 0:
            lines.append(f"Validation-ppl={90 / step:.4f} Validation-bleu=0.{step:02}7")
            lines.append(f"Validation-bleu improved to 0.{step:02}7 (delta=0.05).")
    log = read("\n".join(lines))
    assert log.evals["name"].unique().sort().to_list() == ["Validation_bleu", "Validation_ppl"]
