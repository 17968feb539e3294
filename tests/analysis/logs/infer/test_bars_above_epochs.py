"""A bar that names no epoch, above a line that gives the results of each epoch."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
FOOT = "Epoch {e}/9 | Train Loss: {t:.4f} | Val Loss: {v:.4f}"


def bar(count: int, loss: float) -> str:
    return f"Training: {2 * count}%|##  | {count}/50 [00:{count}<00:{50 - count}, 9.8it/s, loss={loss:.4f}]"


def training(foot: str = FOOT, counts: Sequence[int] = (20, 40, 50), first: int = 1, every: int = 1) -> str:
    text = ""
    for epoch in range(first, 10):
        text += "\r".join(bar(count, 3 / (epoch + count / 40)) for count in counts) + "\n"
        if epoch % every == 0:
            text += foot.format(e=epoch, t=3.1 / (epoch + 1), v=3.5 / (epoch + 1)) + "\n"
    return text


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("counts", [(20, 40, 50), (50,), range(1, 51)])
@pytest.mark.parametrize(
    "foot",
    [
        FOOT,
        "2024-03-01 10:00:{e:02},123 - INFO - Epoch {e}: train_loss={t:.4f}, val_loss={v:.4f}",
        "第{e}轮 训练损失: {t:.4f} 验证损失: {v:.4f}",
    ],
)
def test_results_below_a_bar_are_the_record_of_its_epoch(
    foot: str, counts: Sequence[int], first: int, read: Read
) -> None:
    log = read(training(foot, counts, first))
    epochs = [*range(first, 10)]
    assert log.records["step"].to_list() == log.evals["step"].to_list() == epochs
    assert log.records["loss"].to_list() == [round(3.1 / (epoch + 1), 4) for epoch in epochs]
    assert (log.partials.height, log.doubts) == (len(counts) * len(epochs), ())


@pytest.mark.parametrize("counts", [(20, 40, 50), range(1, 51)])
def test_results_below_a_bar_that_names_its_epoch_are_its_record(counts: Sequence[int], read: Read) -> None:
    passes = training(counts=counts).split("\n")
    named = [line.replace("Training:", f"Epoch {1 + at // 2}/9:") for at, line in enumerate(passes)]
    log = read("\n".join(named))
    assert log.records["step"].to_list() == [*range(1, 10)]
    assert log.records["loss"].to_list() == [round(3.1 / (epoch + 1), 4) for epoch in range(1, 10)]


def test_bar_of_which_a_line_gives_the_validation_alone_is_the_record_of_its_epoch(read: Read) -> None:
    log = read(training("Epoch {e}: val_loss {v:.4f}, val_acc: 0.{e}1"))
    assert log.records["step"].to_list() == [*range(1, 10)]
    assert log.records["loss"].to_list() == [round(3 / (epoch + 1.25), 4) for epoch in range(1, 10)]
    assert log.evals.filter(name="val_loss")["step"].to_list() == [*range(1, 10)]


@pytest.mark.parametrize("foot", ["Epoch {e} took 12.3s", "val_loss: {v:.4f}\nEpoch {e}/9 done in 1m 2s"])
def test_line_that_says_no_more_than_that_an_epoch_is_over(foot: str, read: Read) -> None:
    log = read(training(foot))
    assert log.records["step"].to_list() == [*range(1, 10)]
    assert log.records["loss"].to_list() == [round(3 / (epoch + 1.25), 4) for epoch in range(1, 10)]
    assert log.evals["step"].to_list() == ([*range(1, 10)] if "val" in foot else [])
    assert log.doubts == ()


def test_evaluation_below_the_results_of_an_epoch_is_of_it(read: Read) -> None:
    log = read(training("Epoch {e}, Loss: {t:.4f}\nTest Loss: {v:.4f}, Test Accuracy: 5{e}.25%", first=0))
    assert log.evals.filter(name="val_loss")["step"].to_list() == [*range(10)]
    assert log.records["loss"].to_list() == [round(3.1 / (epoch + 1), 4) for epoch in range(10)]


def test_bar_that_breaks_off_is_of_the_epoch_after_the_last_line(read: Read) -> None:
    whole = training()
    log = read(whole[: whole.rindex("Epoch")])
    assert log.records["step"].to_list() == [*range(1, 10)]
    assert log.records["loss"].to_list()[-1] == round(3 / (9 + 1.25), 4)


def test_bars_that_no_line_ends_one_by_one_are_doubtful(read: Read) -> None:
    assert [doubt.what for doubt in read(training(every=2)).doubts] == ["steps-fall"]


def test_bars_of_both_sets_above_a_line_of_results(read: Read) -> None:
    """The bars name their epoch; what is in effect in all of it, as the rate is, stays in the record."""
    text = ""
    for epoch in range(1, 9):
        for kind, loss in (("Train", 3 / (epoch + 1)), ("Val", 4 / (epoch + 1))):
            head = f"Epoch {epoch}/8 [{kind}]"
            text += f"{head}: 100%|##| 50/50 [00:10<00:00, 9.8it/s, loss={loss:.4f}, lr=0.00{epoch}]\n"
        results = f"Train Loss: {3.1 / epoch:.4f} | Train Acc: 4{epoch}.5% | Val Loss: {3.5 / epoch:.4f}"
        text += f"Epoch {epoch}: {results}\n"
    log = read(text)
    assert log.records.select("step", "total_steps", "loss", "lr").rows() == [
        (epoch, 8, round(3.1 / epoch, 4), epoch / 1000) for epoch in range(1, 9)
    ]
    assert log.evals["value"].to_list() == [round(3.5 / epoch, 4) for epoch in range(1, 9)]


def test_whole_number_is_the_rounded_loss_of_a_bar_only_near_to_it(read: Read) -> None:
    text = "".join(
        f"Epoch {epoch}/9: 100%|##| 50/50 [00:10<00:00, 9.8it/s, loss={0.75 * epoch:.4f}]\n"
        f"Epoch {epoch} finished: train_loss={epoch:.4f}\n"
        for epoch in range(1, 10)
    )
    assert read(text).records["loss"].to_list() == [*range(1, 10)]


def test_mean_loss_on_a_line_of_its_own_below_a_bar_is_kept(read: Read) -> None:
    log = read(
        "".join(
            f"Epoch {epoch}: 100%|##| 50/50 [00:10<00:00, 9.8it/s, loss={3 / epoch:.4f}]\n"
            f"  Train loss: {3.1 / epoch:.4f}\n  Val loss: {3.5 / epoch:.4f}\n"
            for epoch in range(1, 10)
        )
    )
    assert log.records["loss"].to_list() == [round(3 / epoch, 4) for epoch in range(1, 10)]
    assert {*log.evals.select("name", "step").rows()} == {
        (name, epoch) for name in ("train_loss", "val_loss") for epoch in range(1, 10)
    }


def test_headings_of_epochs_below_their_bars_are_doubtful(read: Read) -> None:
    below = training("Epoch {e}/9\nTrain Loss: {t:.4f}, Train Acc: 0.{e}\nVal Loss: {v:.4f}, Val Acc: 0.{e}1")
    assert [doubt.what for doubt in read(below).doubts] == ["two-totals"]
    above = "Epoch 1/9\n" + re.sub(r"(?m)^Epoch (\d)/9$", lambda epoch: f"Epoch {int(epoch[1]) + 1}/9", below)
    assert read(above).doubts == ()


def test_bars_of_a_training_and_a_validation_in_turn_above_each_epoch_are_doubtful(read: Read) -> None:
    epoch = (
        "100%|##########| 23/23 [00:40<00:00,  1.74s/it, loss_class=0.3{0}, loss_pois=-.1{0}]\n"
        "100%|##########| 6/6 [00:08<00:00,  1.38s/it, loss_class=0.4{0}, loss_pois=-.8{0}]\n"
        "Epoch {0}:\ntrain_class_loss: 0.59{0}, train_poiss_loss: 0.25{0}\n"
        " val_class_loss: 0.34{0}, val_poiss_loss: -0.05{0}\n"
    )
    doubts = [doubt.what for doubt in read("".join(epoch.format(e) for e in range(5))).doubts]
    assert "two-totals" in doubts
