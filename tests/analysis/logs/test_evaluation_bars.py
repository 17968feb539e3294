"""Bars of an evaluation: what they have come to at their end is its result, where no line gives it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
EPOCHS = range(1, 6)


def bar(description: str, count: int, total: int, figures: str) -> str:
    return (
        f"{description}: {100 * count // total}%|##  | {count}/{total} [00:{count}<00:09, 9.8it/s, {figures}]"
    )


def train(description: str, epoch: int) -> str:
    return "\r".join(bar(description, n, 40, f"loss={4 / (epoch + n / 40):.4f}") for n in (10, 20, 40)) + "\n"


def held_out(description: str, epoch: int, end: int = 8) -> str:
    figures = {n: f"loss={5 / (epoch + n / 8):.4f}, acc=0.{epoch}{n}" for n in (4, end)}
    return "\r".join(bar(description, n, 8, figures[n]) for n in (4, end)) + "\n"


def losses(log: Log) -> list[tuple[int, float]]:
    return log.evals.filter(name="val_loss").select("step", "value").rows()


EXPECTED = [(epoch, round(5 / (epoch + 1), 4)) for epoch in EPOCHS]


@pytest.mark.parametrize(
    ("above", "trains", "evaluates"),
    [
        ("", "Train Ep. {e}/5", "Val Ep. {e}/5"),
        ("", "Epoch {e}", "Test"),
        ("", "[Train] Epoch {e}/5", "[Valid] Epoch {e}/5"),
        ("Epoch {e}/5\n", "Training", "Validating"),
    ],
)
def test_last_figures_of_a_bar_are_the_result(above: str, trains: str, evaluates: str, read: Read) -> None:
    epochs = [
        above.format(e=e) + train(trains.format(e=e), e) + held_out(evaluates.format(e=e), e) for e in EPOCHS
    ]
    log = read("".join(epochs))
    assert losses(log) == EXPECTED
    assert log.evals.filter(name="val_acc")["value"].to_list() == [0.18, 0.28, 0.38, 0.48, 0.58]
    assert log.records["step"].to_list() == [*EPOCHS]
    assert log.doubts == ()


@pytest.mark.parametrize(
    "result",
    [
        "Epoch {e}: train_loss={t:.4f}, val_loss={v:.4f}\n",
        "val_loss: {v:.4f} | val_acc: 0.5{e}\n",
        "Train Loss: {t:.4f}\nVal Loss: {v:.4f}\n",
    ],
)
def test_a_line_below_gives_the_result(result: str, read: Read) -> None:
    epochs = [
        train(f"Epoch {e}/5", e) + held_out("Validation", e) + result.format(e=e, t=4 / (e + 1), v=6 / e)
        for e in EPOCHS
    ]
    assert losses(read("".join(epochs))) == [(epoch, round(6 / epoch, 4)) for epoch in EPOCHS]


def test_a_bar_that_breaks_off_has_no_result(read: Read) -> None:
    log = read("".join(train(f"Epoch {e}", e) + held_out("Val", e, end=7) for e in EPOCHS))
    assert (log.evals.height, log.records.height) == (0, 5)


def test_a_test_is_told_apart_from_a_validation(read: Read) -> None:
    epochs = (train(f"Epoch {e}", e) + held_out("Val", e) + held_out("Test", e + 1) for e in EPOCHS)
    log = read("".join(epochs))
    assert losses(log) == EXPECTED
    assert log.evals.filter(name="test_loss")["step"].to_list() == [*EPOCHS]


def test_a_score_alone_is_a_result(read: Read) -> None:
    ends = (f"Valid: 100%|##| 8/8 [00:08<00:00, 9.8it/s, dice=0.{e}]\n" for e in EPOCHS)
    log = read("".join(train(f"Epoch {e}", e) + end for e, end in zip(EPOCHS, ends, strict=True)))
    scores = [(epoch, epoch / 10) for epoch in EPOCHS]
    assert log.evals.filter(name="val_dice").select("step", "value").rows() == scores


def test_a_bar_without_figures_gives_nothing(read: Read) -> None:
    evaluating = "Evaluating: 100%|##| 8/8 [00:08<00:00, 9.8it/s]\n"
    assert read("".join(train(f"Epoch {e}", e) + evaluating for e in EPOCHS)).evals.height == 0


def test_a_line_that_repeats_a_bar_is_no_evaluation_of_its_own(read: Read) -> None:
    epochs = (
        f"Epoch {e}/5\n40/40 [====] - 3s 12ms/step - loss: {4 / e:.4f} - accuracy: 0.{e}1\n" for e in EPOCHS
    )
    end = "8/8 [====] - 0s 3ms/step - loss: 0.4375 - accuracy: 0.7512\nTest loss: 0.4375\n"
    assert losses(read("".join(epochs) + end)) == [(5, 0.4375)]


def test_a_line_that_gives_a_test_in_full_says_its_set(read: Read) -> None:
    """Its bar rounds the loss, and is of the same set as the line; the last validation is none of it."""
    epochs = (
        f"Epoch {e}/5\n40/40 [====] - 3s 12ms/step - loss: {4 / e:.4f} - val_loss: {4.2 / e:.4f}"
        f" - val_accuracy: 0.{e}1\n"
        for e in EPOCHS
    )
    end = "8/8 [====] - 0s 3ms/step - loss: 0.4375 - accuracy: 0.7512\nTest loss: 0.43751862\n"
    log = read("".join(epochs) + end)
    assert losses(log) == [(e, round(4.2 / e, 4)) for e in EPOCHS]
    rows = log.evals.filter(log.evals["name"].str.starts_with("test")).select("step", "name", "value").rows()
    assert sorted(rows) == [(5, "test_accuracy", 0.7512), (5, "test_loss", 0.43751862)]
