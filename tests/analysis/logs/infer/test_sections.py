"""Below a heading such as `Validation:` the lines of the records evaluate, until one such as `Training:`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
EPOCHS = range(1, 6)

HEADINGS = {
    "words alone": ("Training:\nEpoch {e} ", "Validation:\nEpoch {e} "),
    "drawn, below the epoch": ("Epoch {e}\n--- train ---\n", "--- val ---\n"),
    "indented figures": ("== Epoch {e} ==\nTrain\n  ", "Test\n  "),
    "epoch in the heading": ("Epoch {e} training results:\n", "Epoch {e} validation results:\n"),
    "in brackets": ("[Train] epoch {e}\n", "[Eval] epoch {e}\n"),
    "with a time": (
        "Epoch {e} - time: 11.1 - train metrics:\n \t",
        "Epoch {e} - time: 2.1 - val metrics:\n \t",
    ),
    "in Chinese": ("训练 epoch {e}:\n", "验证 epoch {e}:\n"),
}


@pytest.mark.parametrize("measures", ["loss: {loss:.2f} acc: {acc:.2f}", "loss: {loss:.2f}\nacc: {acc:.2f}"])
@pytest.mark.parametrize(("train", "held_out"), HEADINGS.values(), ids=HEADINGS)
def test_lines_below_a_heading_are_of_its_set(read: Read, train: str, held_out: str, measures: str) -> None:
    log = read(
        "\n".join(
            heading.format(e=epoch) + measures.format(loss=loss - epoch / 10, acc=acc + epoch / 10)
            for epoch in EPOCHS
            for heading, loss, acc in ((train, 1, 0.3), (held_out, 1.05, 0.2))
        )
    )
    assert log.records["step"].to_list() == [*EPOCHS]
    assert log.records["loss"].to_list() == [0.9, 0.8, 0.7, 0.6, 0.5]
    evaluated = {name: rows.select("step", "value").rows() for (name,), rows in log.evals.group_by("name")}
    assert evaluated["val_loss"] == [*zip(EPOCHS, (0.95, 0.85, 0.75, 0.65, 0.55), strict=True)]
    assert evaluated["val_acc"] == [*zip(EPOCHS, (0.3, 0.4, 0.5, 0.6, 0.7), strict=True)]
    assert not log.doubts


def test_records_with_a_rate_below_the_result_of_an_evaluation_train_again(read: Read) -> None:
    """Only the first record and the summary stand below words of the training."""
    record = "loss: {loss:.3f}, learning_rate: 1e-05, global_step: {step}, epoch: {step}.0\n"
    evaluation = (
        "***** Running Evaluation *****\n  Num examples = 6\neval_loss: {loss:.4f}, eval_f1: 0.{step}5\n"
    )
    both = "".join((record + evaluation).format(step=step, loss=3 / step) for step in (1, 2))
    log = read(f"***** Running training *****\n{both}***** train metrics *****\n  train_loss = 2.5\n")
    assert log.records.select("step", "loss").rows() == [(1, 3.0), (2, 1.5)]
    assert log.evals.filter(name="val_loss")["value"].to_list() == [3.0, 1.5]


def test_two_held_out_sets_are_named_apart(read: Read) -> None:
    log = read(
        "\n".join(
            f"{name}:\nepoch {epoch} loss {loss - epoch / 10:.2f}"
            for epoch in EPOCHS
            for name, loss in (("Train", 1), ("Val", 1.05), ("Test", 1.2))
        )
    )
    assert log.records.height == len(EPOCHS)
    assert {name: rows.height for (name,), rows in log.evals.group_by("name")} == {
        "val_loss": 5,
        "test_loss": 5,
    }


def test_figure_of_a_batch_is_no_result_of_its_section(read: Read) -> None:
    """Counters that count to no total may be cut off anywhere, and a batch's own loss is not the mean."""
    log = read(
        "\n".join(
            f"{name}\n"
            + "\n".join(f"epoch {e} batch {b} loss {3 - e / 2 - b / 100:.3f}" for b in range(0, end, 10))
            for e in range(1, 4)
            for name, end in (("TRAIN", 50), ("TEST", 20))
        )
    )
    assert log.records["step"].to_list() == [0, 10, 20, 30, 40] * 3
    assert log.evals.is_empty()
    assert not log.doubts


def test_last_line_of_a_count_is_the_result_of_its_section(read: Read) -> None:
    log = read(
        "\n".join(
            f"{name}\n"
            + "\n".join(
                f"epoch {e} [{b}/{end}] loss {3 - e / 2 - b / 100:.3f}" for b in range(10, end + 1, 10)
            )
            for e in range(1, 4)
            for name, end in (("Training", 50), ("Validating", 20))
        )
    )
    assert log.records.height == 15
    assert log.evals.select("name", "value").rows() == [
        ("val_loss", 2.3),
        ("val_loss", 1.8),
        ("val_loss", 1.3),
    ]


def test_line_of_an_evaluation_goes_before_the_last_line_of_its_section(read: Read) -> None:
    log = read(
        "\n".join(
            f"Training\nepoch {e} loss {1 - e / 10:.2f}\nValidating\nepoch {e} loss {1.05 - e / 10:.2f}\n"
            f"epoch {e} val_loss {1.1 - e / 10:.2f}"
            for e in EPOCHS
        )
    )
    assert log.records.height == len(EPOCHS)
    assert log.evals["value"].to_list() == [1.0, 0.9, 0.8, 0.7, 0.6]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"Training step\nstep {s} loss {3 - s / 100:.2f}" for s in range(1, 10)),
        "Training\nValidation\n" + "\n".join(f"step {s} loss {3 - s / 100:.2f}" for s in range(1, 10)),
        "\n".join(f"step {s} loss {3 - s / 100:.2f}\ntraining\nvalidation" for s in range(1, 10)),
    ],
    ids=["of one kind", "once", "below the records"],
)
def test_words_that_head_no_sections_in_turn_change_nothing(read: Read, text: str) -> None:
    log = read(text)
    assert log.records["step"].to_list() == [*range(1, 10)]
    assert log.evals.is_empty()


def test_measures_of_one_section_alone_are_of_its_set(read: Read) -> None:
    log = read(
        "".join(
            f"epoch {e}\nTraining:\n  loss: {3 / e:.4f}\n  acc: {0.5 + e / 99:.3f}\n"
            f"Validation:\n  loss: {4 / e:.4f}\n  f1: {0.4 + e / 99:.3f}\n"
            for e in EPOCHS
        )
    )
    assert log.records["acc"].to_list() == [round(0.5 + e / 99, 3) for e in EPOCHS]
    assert log.evals["name"].value_counts().sort("name").rows() == [("f1", 5), ("val_loss", 5)]


def test_the_best_so_far_of_a_validation_is_no_evaluation(read: Callable[[str], Log]) -> None:
    figures = "Epoch {e} | Loss {x:.4f} | Best {y:.4f}\n"
    lines = ("Training...\n" + figures.format(e=e, x=3 / e, y=2.9 / e) for e in range(1, 9))
    tests = ("Cross validation...\n" + figures.format(e=e, x=4 / e, y=3.9 / e) for e in range(1, 9))
    log = read("".join(line + test for line, test in zip(lines, tests, strict=True)))
    assert log.evals.select("step", "name").rows() == [(e, "val_loss") for e in range(1, 9)]


def test_second_line_of_an_epoch_in_a_section_trains_where_no_heading_says_so(read: Read) -> None:
    """The model is evaluated once before it trains, and only later epochs have a heading for the training."""
    line = "epoch: {e}, loss is: {x:.4f}, acc is: {a:.4f}\n"
    text = "testing in eval mode\n" + line.format(e=0, x=2.5, a=0.1)
    for e in EPOCHS:
        trained, tested = line.format(e=e - 1, x=2 / e, a=0.5), line.format(e=e - 1, x=3 / e, a=0.4)
        text += f"{trained}testing in eval mode\n{tested}now continue training\n"
    log = read(text)
    assert log.records.select("step", "loss").rows() == [(e - 1, round(2 / e, 4)) for e in EPOCHS]
    losses = log.evals.filter(name="val_loss").select("step", "value").rows()
    assert losses == [(0, 2.5), *((e - 1, round(3 / e, 4)) for e in EPOCHS)]


@pytest.mark.parametrize("epochs", [20, 600])
def test_losses_below_headings_of_epochs_are_told_apart_in_a_log_of_any_length(
    epochs: int, read: Callable[[str], Log]
) -> None:
    log = read(
        "".join(
            f"Training epoch: {e}\n\tmean_loss: {3 / (e + 1):.6f}\nDone.\n"
            + f"Eval epoch: {e}\n\tmean_loss: {4 / (e + 1):.6f}\n\tTop1: 0.{e}\nDone.\n" * (e % 5 == 4)
            for e in range(epochs)
        )
    )
    assert log.records["step"].to_list() == [*range(epochs)]
    validated = log.evals.filter(name="val_loss")
    assert validated["step"].to_list() == [*range(4, epochs, 5)]
    assert validated["value"].to_list() == [round(4 / (e + 1), 6) for e in range(4, epochs, 5)]


@pytest.mark.parametrize("heading", ["Validating...", "Evaluation:"])
def test_start_of_each_training_heads_no_section(heading: str, read: Callable[[str], Log]) -> None:
    """Below the evaluations between its records the training goes on without a heading."""
    lines = ["Start training"]
    for step in range(1, 31):
        lines += [f"Iteration {step} avg_loss: {9 / step:.4f}, lr: 0.001"]
        lines += [heading, f"validation loss: {8 / step:.4f}", "ETA: 0:12:02"] * (step % 6 == 0)
    log = read("\n".join(lines * 2) + "\n")
    assert log.records["step"].to_list() == [*range(1, 31)] * 2
    assert log.evals.height == 10
