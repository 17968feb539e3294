"""What stands between the line of an epoch and its first record is of that record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
EPOCHS = range(1, 10)


def log_of(lines: str) -> str:
    return "".join(
        lines.format(e=e, lr=0.1 / e, loss=2 / e, val=2.2 / e, acc=0.5 + e / 50, top=e / 20) for e in EPOCHS
    )


@pytest.mark.parametrize(
    "lines",
    [
        "Epoch {e}/9\nLR: {lr:.4f}\nTrain Loss: {loss:.4f}\n\n",
        "Epoch {e}/9\nlearning rate: {lr:.4f}\nTrain Loss: {loss:.4f}\nVal Loss: {val:.4f}\n\n",
        "Epoch {e}/9\nLR: {lr:.4f}\nloss: {loss:.4f} acc: {acc:.3f}\n",
        "Epoch {e}/9\n----------\nLearning rate = {lr:.4f}\ntrain Loss: {loss:.4f} Acc: {acc:.3f}\n",
        "Epoch {e} start\nlr = {lr:.4f}\nEpoch {e}: loss = {loss:.4f}\n",
    ],
)
def test_rate_above_the_loss_is_of_its_epoch(lines: str, read: Read) -> None:
    log = read(log_of(lines))
    assert log.records["step"].to_list() == list(EPOCHS)
    assert log.records["lr"].to_list() == [round(0.1 / e, 4) for e in EPOCHS]
    assert log.records["loss"].to_list() == [round(2 / e, 4) for e in EPOCHS]


def test_rate_below_the_loss_stays_with_it(read: Read) -> None:
    log = read(log_of("Epoch {e}/9\nTrain Loss: {loss:.4f}\nLR: {lr:.4f}\n\n"))
    assert log.records["lr"].to_list() == [round(0.1 / e, 4) for e in EPOCHS]


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ("Train epoch {e}\nloss: {loss:.4f}\nTest epoch {e}\nloss: {val:.4f}\n", {"val_loss"}),
        (
            "Training epoch: {e}\nMean training loss: {loss:.4f}\nEval epoch: {e}\nMean test loss: {val:.4f}\n",
            {"val_loss"},
        ),
        (
            "Training epoch: {e}\nMean training loss: {loss:.4f}\nEval epoch: {e}\nTop1: {top:.2f}%\nTop5: 9.5%\n",
            {"eval_Top1", "eval_Top5"},
        ),
    ],
)
def test_lines_below_the_heading_of_a_test_are_its_result(lines: str, names: set[str], read: Read) -> None:
    log = read(log_of(lines))
    assert log.records["step"].to_list() == list(EPOCHS)
    assert log.records["loss"].to_list() == [round(2 / e, 4) for e in EPOCHS]
    assert set(log.evals["name"]) == names
    assert log.evals["step"].unique().sort().to_list() == list(EPOCHS)


def test_layers_of_a_printed_model_are_no_header(read: Read) -> None:
    layers = "".join(
        f"      ({n}): Linear(in_features={n + 3}, out_features=64, bias=True)\n" for n in range(14)
    )
    log = read(
        f"Net(\n{layers})\n"
        + log_of("Epoch {e}\n  Training loss: {loss:.3f}\n  Val loss: {val:.3f} acc: {acc:.3f}\n")
    )
    assert log.records["loss"].to_list() == [round(2 / e, 3) for e in EPOCHS]


@pytest.mark.parametrize("below", ["Time taken for epoch :  0.2{e}  mins\n", "Current best epoch: {e}\n"])
def test_times_and_best_epochs_below_the_figures_are_no_places(below: str, read: Read) -> None:
    figures = "Final train loss : {x:.4f}\nFinal train f1 : 0.{e}5\nFinal validation loss : {y:.4f}\n"
    figures += "Final validation f1_per_class : 0.{e}7\n"
    text = "Starting epoch :  {e}\n" + figures + below
    log = read("".join(text.format(e=e, x=3 / (e + 1), y=4 / (e + 1)) for e in range(8)))
    assert log.records.select("step", "epoch").rows() == [(e, e) for e in range(8)]
    measured = log.evals.partition_by("name", as_dict=True)
    assert [evals["step"].to_list() for evals in measured.values()] == [[*range(8)]] * 2


def test_epoch_behind_the_word_time_is_the_place_of_the_line(read: Read) -> None:
    log = read("".join(f"Time taken for epoch {e}: 12.{e} s, loss: {3 / e:.4f}\n" for e in range(1, 9)))
    assert log.records["step"].to_list() == [*range(1, 9)]


def test_epoch_above_more_figures_than_are_read_stays(read: Read) -> None:
    names = [f"{first}{second}" for first in "abcdefgh" for second in "abcdefgh"]
    figures = "".join(f"  validation acc_{name}: 0.{{e}}5\n" for name in names)
    text = "Epoch {e}\n  train loss: {x:.4f}\n" + figures
    log = read("".join(text.format(e=e, x=3 / e) for e in range(1, 7)))
    assert log.records["step"].to_list() == [*range(1, 7)]
    assert log.evals["step"].unique(maintain_order=True).to_list() == [*range(1, 7)]
