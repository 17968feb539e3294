"""Losses that were printed and not read are found, and facts that repeat a loss are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gputel.analysis.logs import line_figures
from gputel.analysis.logs.files import read_file
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.read_lines import ReadLines
from gputel.analysis.logs.unread_lines import UnreadLines

Read = Callable[[str], Log]
SAMPLE_LOGS = Path(__file__).parents[3] / "sample_logs"


def unread(*lines: str) -> tuple[str, int, int] | None:
    losses = UnreadLines()
    losses.add("\n".join(lines).encode(), np.arange(1, 1 + len(lines)))
    return losses.found(ReadLines()).loss


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[010] train_loss: 0.305 | dev_loss: 0.736", "train_loss"),
        ("  | > loss_disc: 3.01874 (3.46002)", "loss_disc"),
        ("Epoch 3, 损失: 0.52", "损失"),
        ("step 4 loss is 0.25", "loss"),
        ("🔄 Training Epoch 1  ┃ Batch: 13 ended with 0.6746 loss.", "loss"),
        ("batch 7 done: 0.25 train loss", "train loss"),
    ],
)
def test_printed_loss_is_found(line: str, name: str) -> None:
    found = unread(line)
    assert found is not None
    assert found[0] == name


@pytest.mark.parametrize(
    "line",
    [
        "best val_loss: 0.31 at epoch 3",
        "Model saved with loss 0.25",
        "loss_scale: 65536.0",
        "  kl_loss_coef: 0.001",
        "hair loss of 8.5 percent",
        "glossary 1.5",
        "loss function 1.0",
        "a fall of 8.5 loss points in 3 weeks",
        "best so far: 0.25 loss",
        "version 1.2.3 loss",
    ],
)
def test_figure_that_repeats_or_weighs_a_loss_is_not(line: str) -> None:
    assert unread(line) is None


def test_records_glued_to_one_line_make_the_reading_doubtful(read: Read) -> None:
    def record(epoch: int) -> str:
        return f"[{epoch:03d}] train_loss: {2 / epoch:.3f} | f1: {1 - 1 / epoch:.4f}"

    apart = "".join(record(epoch) + " >>> save\n" for epoch in range(1, 10))
    glued = " ".join(record(epoch) for epoch in range(10, 40)) + "\n"
    assert not read(apart).doubts
    (doubt,) = read(apart + glued * 3).doubts
    assert (doubt.what, doubt.figures["name"]) == ("unread-losses", "train_loss")


def test_record_of_a_known_format_that_passes_over_the_loss_is_inferred(read: Read) -> None:
    """The line looks like one of the ImageNet example, but epochs count from 1 and the loss has no pair."""
    text = "".join(
        f"Epoch: [{epoch}][{batch}/50]\tTime 0.{batch} DataTime 0.012, loss {5 / epoch + 1 / batch:.7f}\t\n"
        for epoch in (1, 2)
        for batch in range(1, 51)
    )
    log = read(text)
    assert (log.format, log.records.height) == ("inferred", 100)
    assert log.records["step"].to_list() == list(range(1, 101))
    assert log.records["loss"].null_count() == 0


def test_epochs_own_mean_beside_finer_records_is_no_doubt(read: Read) -> None:
    text = "".join(
        "".join(f"epoch {epoch} step {step} loss: {1 / step:.4f} lr: 1e-3\n" for step in range(1, 11))
        + f"== epoch {epoch} done, loss = 0.{epoch} ==\n"
        for epoch in range(1, 6)
    )
    assert not read(text).doubts


def test_mean_of_each_epoch_beside_one_record_of_it_is_no_doubt(read: Read) -> None:
    text = "".join(
        f"Epoch {epoch}, Batch 0/8, Loss: {2 / epoch:.4f}\n"
        f"Epoch {epoch} Training - Loss: {1 / epoch:.4f}, Acc: 0.{epoch:02}\n"
        for epoch in range(1, 17)
    )
    log = read(text + "\n".join(text.splitlines()[:2]) + "\n")  # the run begins again
    assert log.unread.loss is not None
    assert (log.records.height, log.doubts) == (17, ())


def test_best_so_far_in_another_language_is_no_unread_loss(read: Read) -> None:
    text = "".join(
        f"Epoch {epoch}/30 - Train Loss: {4 / epoch:.4f}, Val Loss: {5 / epoch:.4f}\n"
        f"  {{}} (val_loss={6 / epoch:.4f})\n"
        for epoch in range(1, 31)
    )
    assert not read(text.replace("{}", "保存最佳模型")).doubts
    other = read(text.replace("{}", "另一个模型"))
    assert {*other.evals["name"]} == {"val_loss", "另一个模型_val_loss"}


def test_evaluations_that_begin_late_in_a_long_log_are_doubtful(read: Read) -> None:
    """A format is inferred from the beginning of a log; what comes later in other words is not read."""
    steps = [f"step {step} loss {3 / (step + 1):.5f} lr 1e-3\n" for step in range(30_000)]
    late = [
        f"Evaluation at step {30_000 + at}: val_loss={2 / (at + 1):.4f}\nstep {30_000 + at} loss 0.5 lr 1e-3\n"
        for at in range(9)
    ]
    log = read("".join(steps + late))
    assert [doubt.what for doubt in log.doubts] == ["unread-losses"] or log.evals.height == 9
    assert read("".join(steps)).doubts == ()


def test_scores_that_no_pattern_reads_are_doubtful(read: Callable[[str], Log]) -> None:
    score = "INFO: ====Epoch: {0}/50,top 1 acc: {1:.4f}====\n"
    lines = "INFO: Epoch: {0}/50, Iteration step: {2}, loss: {3:.4f}\n"
    rows = [(e, 0.03 + e / 100, 1300 * (e + 1), 5 / (e + 1)) for e in range(20)]
    log = read("".join((lines + score).format(*row) for row in rows))
    assert log.records.height == 20
    assert [(doubt.what, doubt.figures["unread"]) for doubt in log.doubts] == [("unread-figures", 20)]
    assert not read("".join(lines.format(*row) for row in rows)).doubts


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("{0}: Epoch 1 Loss {1:.4f} Accuracy {2:.4f}", ["Loss", "Accuracy"]),
        ("{0} val {1:.4f}", ["val"]),
        ("{1:.4f} train loss, {2:.3f} GB used, {1:.3f} LR", ["train loss"]),
        ("fscore(p/r/f): ({1:.2f}/{2:.2f}/{1:.2f})", ["fscore(p/r/f)"]),
        ("BLEU-1 {1:.2f}, BLEU-2 {2:.2f}", ["BLEU", "BLEU"]),
        ("| EpRewMean | {1:.3f} |", ["EpRewMean"]),
        ("epoch {0} F1: tensor([{1:.4f}, {2:.4f}])", ["F1"]),
        ("损失: {1:.4f} 准确率 {2:.4f}", ["loss", "accuracy"]),
        ("损失{1:.4f}，准确率{2:.4f}", ["loss", "accuracy"]),
        ("reward is {1}", ["reward is"]),
    ],
)
def test_figures_are_named_by_the_words_beside_them(line: str, names: list[str]) -> None:
    lines = [line.format(at, 0.2531 + at / 9, 1.3519 - at / 9).encode() for at in range(4)]
    found = line_figures.figures(lines)
    assert [*found] == [*dict.fromkeys(names)]
    assert all(len(values) >= 4 for values in found.values())


@pytest.mark.parametrize(
    "line",
    [
        "2024-03-01 10:00:05.123 took 5.25 s at 103.5 samples/sec, 4.5it/s",
        "saved to /runs/v1.5/model-0.254/step_1.25.pt of torch 2.1.0",
        "step 3/10 (30.0%), lr 0.001, epoch 1.5, weight 0.5",
        "1.5 2.5 3.5",
        "params | [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2]",
    ],
)
def test_times_rates_paths_settings_and_vectors_are_no_figures(line: str) -> None:
    assert line_figures.figures([line.encode()]) == {}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("2026-03-01 10:22.17 [info] step=3 critic_loss=0.25", {"critic_loss": frozenset({0.25})}),
        (
            "step 3 perplexity 12,345.5, loss 9.5",
            {"perplexity": frozenset({12345.5}), "loss": frozenset({9.5})},
        ),
    ],
)
def test_clock_has_no_figure_and_thousands_are_of_one(line: str, named: dict[str, frozenset[float]]) -> None:
    assert line_figures.figures([line.encode()]) == named


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("Accuracy: 54 %", {"Accuracy": frozenset({54.0})}),
        ("acc: 54 of 99", {}),
        ("Memory: 54 %", {}),
        ("acc: 54%|###   | 3/9", {}),
        ("Loss: 2.5: 54% 54/100", {"Loss": frozenset({2.5})}),
        ("5m (54%) loss of 99", {}),
    ],
)
def test_measure_in_whole_percent_is_a_figure(line: str, named: dict[str, frozenset[float]]) -> None:
    assert line_figures.figures([line.encode()]) == named


@pytest.mark.parametrize(("word", "doubts"), [("Initial", []), ("Other", ["unread-figures"])])
def test_what_each_training_begins_with_is_noted_and_no_doubt(
    word: str, doubts: list[str], read: Callable[[str], Log]
) -> None:
    epochs = "".join(f"  Epoch {e}: train loss {9 / e:.4f}\n" for e in range(1, 8))
    log = read("".join(f"Fold {fold}\n  {word} loss: 2.{fold}125\n{epochs}" for fold in range(1, 5)))
    assert [doubt.what for doubt in log.doubts] == doubts


def test_figures_of_lines_that_were_read_are_noted_if_no_column_has_them(read: Read) -> None:
    """Of two heads whose names differ in a digit, the columns are those of the first."""
    lines = "iter {0} || Loss:{1:.4f}\n-> h1 conf loss:{2:.4f} || h1 loc loss:{3:.4f}\n"
    other = "-> h2 conf loss:{4:.4f} || h2 loc loss:{5:.4f}\n"
    rows = [(10 * at, 29 / at, 9.51 / at, 8.13 / at, 7.19 / at, 6.17 / at) for at in range(1, 12)]
    assert read("".join(lines.format(*row) for row in rows)).unread_kinds == ()
    log = read("".join((lines + other).format(*row) for row in rows))
    assert [[*kind.figures] for kind in log.unread_kinds] == [["h2 conf loss", "h2 loc loss"]]


def test_line_with_both_losses_below_each_record_evaluates(read: Read) -> None:
    lines = "Epoch 0 Update {0} Cost {1:.4f} UD 1.25\nTrain: {2:.4f} Val: {3:.4f} ValPerp: {4:.4f}\n"
    rows = [(10 * at, 9 / at, 9.1 / at, 9.5 / at, 40 + 9 / at) for at in range(1, 12)]
    log = read("".join(lines.format(*row) for row in rows))
    assert log.records["loss"].round(4).to_list() == [round(9 / at, 4) for at in range(1, 12)]
    assert log.evals["name"].value_counts(sort=True)["count"].to_list() == [11, 11, 11]
    assert {*log.evals["name"]} == {"train_loss", "val_loss", "Val_Perp"}


def test_lines_that_were_rejected_are_no_unread_kinds() -> None:
    log = read_file(SAMPLE_LOGS / "unknown-format.log")
    assert [reject.line for reject in log.rejects] == [337, 505, 672]
    assert log.unread.alike
    assert log.unread_kinds == ()
