"""Names of several words in bars, behind the count and in the description before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
EPOCHS = range(1, 11)
LOSSES = [round(3 / e, 4) for e in EPOCHS]


def drawn(count: int, before: str = "", behind: str = "", total: int = 10) -> str:
    done = 10 * count // total
    return (
        f"\r{before}{10 * done:3d}%|{'█' * done}{' ' * (10 - done)}| {count}/{total}"
        f" [00:0{count % 10}<00:0{total - count},  9.80it/s{behind}]"
    )


def figures(text: str, e: int) -> str:
    return text.format(t=3 / e, v=3.5 / e, a=0.5 + e / 100)


POSTFIXES = [
    ", train loss={t:.4f}, val loss={v:.4f}",
    ", loss={t:.4f}, val loss={v:.4f}",
    ", Train Loss={t:.4f}, Train Acc={a:.3f}, Val Loss={v:.4f}",
]
DESCRIPTIONS = [
    "train loss: {t:.4f}, val loss: {v:.4f}: ",
    "train loss {t:.4f}, val loss {v:.4f}: ",
    "Loss {t:.4f} | Val Loss {v:.4f}: ",
]


@pytest.mark.parametrize("postfix", POSTFIXES)
def test_sets_in_a_postfix_are_told_apart(postfix: str, read: Read) -> None:
    steps = read("".join(drawn(e, behind=figures(postfix, e)) for e in EPOCHS))
    epochs = read("".join(drawn(4, f"Epoch {e}/10: ", figures(postfix, e), 4) + "\n" for e in EPOCHS))
    for log in (steps, epochs):
        assert log.records["loss"].to_list() == LOSSES
        assert log.evals.filter(name="val_loss")["value"].to_list() == [round(3.5 / e, 4) for e in EPOCHS]


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_sets_in_a_description_are_told_apart(description: str, read: Read) -> None:
    steps = read("".join(drawn(e, figures(description, e)) for e in EPOCHS))
    epochs = read(
        "".join(drawn(4, f"Epoch {e}/10 " + figures(description, e), total=4) + "\n" for e in EPOCHS)
    )
    for log in (steps, epochs):
        assert log.records["loss"].to_list() == LOSSES
        assert log.evals.filter(name="val_loss")["value"].to_list() == [round(3.5 / e, 4) for e in EPOCHS]


@pytest.mark.parametrize(
    "text", [", D loss={t:.4f}, G loss={v:.4f}", ", disc loss={t:.4f}, gen loss={v:.4f}"]
)
def test_losses_of_two_networks_are_none_of_the_training(text: str, read: Read) -> None:
    log = read("".join(drawn(e, behind=figures(text, e)) for e in EPOCHS))
    assert "loss" not in log.records.columns
    assert log.records.height == 10


def test_score_in_a_description_is_read_beside_the_loss(read: Read) -> None:
    log = read("".join(drawn(e, figures("Loss {t:.4f} Acc {a:.3f}: ", e)) for e in EPOCHS))
    assert log.records.select("loss", "Acc").row(0) == (3.0, 0.51)


def test_figure_of_a_bar_that_is_not_read_is_noted(read: Read) -> None:
    text = "".join(drawn(e, figures("{a:.3f} is the accuracy, loss: {t:.4f}: ", e)) for e in EPOCHS)
    assert [kind for kind in read(text).unread_kinds if "accuracy" in "".join(kind.figures)]


@pytest.mark.parametrize(
    "names", ["train loss={t:.4f}|eval loss={v:.4f}", "train_loss={t:.4f}|eval_loss={v:.4f}"]
)
def test_bar_that_gives_a_validation_alone_leaves_the_loss_of_the_training(names: str, read: Read) -> None:
    """Both bars of an epoch may have the same length."""
    train, held_out = names.split("|")
    text = "".join(
        f"Epoch {e}/10\n{drawn(4, 'Training: ', ', ' + figures(train, e), 4)}\n"
        f"{drawn(4, 'Evaluation: ', ', ' + figures(held_out, e), 4)}\n"
        for e in EPOCHS
    )
    log = read(text)
    assert log.records["loss"].to_list() == LOSSES
    assert log.evals["value"].to_list() == [round(3.5 / e, 4) for e in EPOCHS]


def test_rate_on_the_line_of_an_epoch_is_of_the_bar_below(read: Read) -> None:
    text = "".join(
        f"Epoch: {e} LR: 0.00{e}\n{drawn(4, figures('Loss={t:.4f} Batch_id=390: ', e), total=4)}\n"
        for e in EPOCHS
    )
    rows = read(text).records.select("step", "loss", "lr").rows()
    assert rows == [(e, loss, float(f"0.00{e}")) for e, loss in zip(EPOCHS, LOSSES, strict=True)]


def test_rate_between_the_epoch_and_the_loss_of_a_bar_is_read(read: Read) -> None:
    bars = "".join(
        f"Train Epoch: [{e}/20], lr: 0.0{e}, Loss: {9 - e}.5: 100%|##| 97/97 [00:22<00:00,  4.34it/s]\n"
        for e in range(1, 5)
    )
    assert read(bars).records.select("step", "loss", "lr").row(2) == (3, 6.5, 0.03)
