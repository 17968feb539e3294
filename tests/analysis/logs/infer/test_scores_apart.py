"""Evaluations that stand apart from records of losses: below a heading, or as a score of their own."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
STEPS = range(100, 2100, 100)
TESTS = range(500, 2100, 500)


def log_of(record: str, evaluation: str, *, every: range = TESTS) -> str:
    lines = []
    for s in STEPS:
        lines.append(record.format(s=s, e=s // 500, loss=300 / s, g=-200 / s) + "\n")
        if s in every:
            figures = {"a": 0.4017 + s / 5000, "b": 0.5 + s / 5000, "p": 25 + s / 500, "best": 30.125}
            lines.append(evaluation.format(s=s, e=s // 500, **figures) + "\n")
    return "".join(lines)


def evaluations(log: Log) -> dict[str, list[float]]:
    return {
        name: log.evals.filter(pl.col("name") == name)["step"].to_list() for name in set(log.evals["name"])
    }


@pytest.mark.parametrize(
    "evaluation",
    [
        "Evaluating model at iteration {s}...\naccuracy: {a:.4f}  f1: {b:.4f}",
        "Evaluating model at iteration {s}...\nval loss: {a:.4f}",
        "Validation results after iteration {s}\n  accuracy   {a:.4f}\n  precision  {b:.4f}",
        "[Iteration {s}] Validation:\naccuracy={a:.4f}\nf1={b:.4f}",
        "Test results at step {s}:\n  accuracy:  {a:.4f}\n  f1:  {b:.4f}",
    ],
)
def test_figures_below_a_heading_stand_where_it_says(evaluation: str, read: Read) -> None:
    log = read(log_of("iteration {s}: loss {loss:.4f}", evaluation))
    assert log.records["step"].to_list() == [*STEPS]
    found = evaluations(log)
    assert len(found) == evaluation.count(".4f")
    assert all(steps == [*TESTS] for steps in found.values())
    assert not log.doubts


def test_figures_below_the_heading_of_an_epoch_are_not_of_the_next(read: Read) -> None:
    record = "[Epoch {e}][Batch {s}], Speed: 309.9 samples/sec, CrossEntropy={loss:.3f}, SmoothL1={g:.3f}"
    text = log_of(record, "[Epoch {e}] Validation: \nmAP={a:.4f}")
    assert evaluations(read(text)) == {"mAP": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("evaluation", "names", "steps"),
    [
        (
            "Validation Set5\n\t # psnr: {p:.4f}\tBest: {best:.4f} @ 300 iter",
            {"psnr"},
            [*TESTS],
        ),
        (
            "Itr {s}: Inception Score is {a:.3f} +/- 0.021, FID is {p:.4f}",
            {"Inception_Score", "FID"},
            [*TESTS],
        ),
        ("step = {s}: Average Return = {p:.1f}", {"Average_Return"}, [*TESTS]),
        ("\t\t AverageReturn = {p:.6f}", {"Average_Return"}, [*TESTS]),
        ("class_id = 0, name = cat, ap = {a:.2f}\nmAP = {b:.4f}", {"mAP"}, [*TESTS]),
        ("Episode 7 average reward = {p:.1f}", set(), []),
    ],
)
@pytest.mark.parametrize(
    "record", ["step = {s}: loss = {loss:.4f}", "itr: {s}, G_loss : {g:.3f}, D_loss_real : {loss:.3f}"]
)
def test_scores_beside_losses_are_evaluations(
    record: str, evaluation: str, names: set[str], steps: list[int], read: Read
) -> None:
    log = read(log_of(record, evaluation))
    assert log.records["step"].to_list() == [*STEPS]
    assert evaluations(log) == dict.fromkeys(names, steps)


@pytest.mark.parametrize(
    ("evaluation", "names"),
    [
        (
            "(Steps: {s}) eval/mel_loss = {a:.4f}.\n(Steps: {s}) eval/adv_loss = {b:.4f}.",
            {"eval_mel_loss", "eval_adv_loss"},
        ),
        (
            "(Steps: {s}) eval/mel_loss = {a:.4f}.\n(Steps: {s}) eval/loss = {b:.4f}.",
            {"eval_mel_loss", "val_loss"},
        ),
        ("(Steps: {s}) eval/mel_loss = {a:.4f}.", {"val_loss"}),
    ],
)
def test_parts_of_an_evaluation_on_lines_of_their_own_keep_their_names(
    evaluation: str, names: set[str], read: Read
) -> None:
    log = read(
        log_of(
            "(Steps: {s}) train/mel_loss = {loss:.4f}.\n(Steps: {s}) train/adv_loss = {g:.4f}.", evaluation
        )
    )
    assert evaluations(log) == {name: [*TESTS] for name in names}
    assert not log.doubts


def test_two_evaluations_of_a_training_are_told_by_the_headings_of_their_epochs(read: Read) -> None:
    """Dates with two dots and a bar behind them stand before the headings, too."""
    lines = []
    for e in range(6):
        lines += [
            f"Training epoch: {e}",
            *(f"\tIter {10 * e + i} Done. | loss: {3 - e / 9:.4f}" for i in (0, 5)),
        ]
        lines += [f"\tmean_loss: {2.5 - e / 9}", "Done."]
        lines += [f"Eval epoch: {e}", f"\tmean_loss: {2.75 - e / 9}", f"\tTop1: {30 + e:.2f}%", "Done."] * (
            e % 2
        )
    log = read("".join(f"[05.07.20|10:{at:02}:00] {line}\n" for at, line in enumerate(lines)))
    assert log.records["step"].to_list() == [10 * e + i for e in range(6) for i in (0, 5)]
    assert log.evals.filter(name="val_loss")["value"].to_list() == [2.75 - e / 9 for e in (1, 3, 5)]
    assert log.evals.filter(name="eval_Top1")["value"].to_list() == [31, 33, 35]
    assert not log.doubts


def test_a_test_of_each_new_best_model_has_names_of_its_own(read: Read) -> None:
    """It comes rarely, but names epochs of the validation; one at the end is the last evaluation."""
    lines = [f"Epoch {e} loss {3 / e:.4f}\nEpoch {e} Val, MAE: {9 / e:.3f}\n" for e in range(1, 13)]
    tests = [f"Epoch {e} Test, MAE: {8 / e:.3f}\n" * (e in (2, 7, 9)) for e in range(1, 13)]
    log = read("".join(line + test for line, test in zip(lines, tests, strict=True)))
    assert evaluations(log) == {"MAE": [*range(1, 13)], "test_MAE": [2, 7, 9]}


@pytest.mark.parametrize("figures", [" - CE: {x:.4f}, KL: 2.{e}, acc: 0.{e}5", " CE: {x:.4f} | KL: 2.{e}"])
def test_a_training_that_mirrors_the_evaluation_is_a_record_without_a_loss(figures: str, read: Read) -> None:
    text = f"Epoch {{e}}\n  Train{figures}\n  Val  {figures}\n"
    log = read("".join(text.format(e=e, x=3 / e) for e in range(1, 9)))
    assert log.records["step"].to_list() == [*range(1, 9)]
    assert "loss" not in log.records.columns
    assert log.evals["step"].unique(maintain_order=True).to_list() == [*range(1, 9)]


def test_other_measures_of_a_training_are_no_records_beside_evaluations(read: Read) -> None:
    text = "Epoch {e}\n  Train time: 2.{e}, size: 0.5{e}\n  Val CE: 0.{e}, KL: 1.{e}\n"
    log = read("".join(text.format(e=e) for e in range(1, 9)))
    assert log.records.is_empty()


def test_number_of_a_subject_is_no_step(read: Read) -> None:
    """A network is trained for each of them, and the best evaluation of each is printed."""
    line = "Training on subject {n}\nSubject: {n}   seed 1   time: 1.5 m   valid_acc: 0.8{n}   valid_loss: 0.6{n}\n"
    log = read("".join(line.format(n=n) for n in range(1, 9)))
    assert evaluations(log) == {"valid_acc": [None] * 8, "val_loss": [None] * 8}


@pytest.mark.parametrize(("given", "name"), [(" - val_loss: {v}", "test_loss"), ("", "val_loss")])
def test_loss_of_a_test_below_a_known_format_is_apart_from_its_validations(
    given: str, name: str, read: Callable[[str], Log]
) -> None:
    bar = "9/9 [==============================] - 3s 21ms/step - loss: {t}" + given + "\n"
    text = "".join(f"Epoch {e}/9\n" + bar.format(t=9.5 - e, v=9.75 - e) for e in range(1, 10))
    log = read(text + "\nTest results:\n  Test Loss: 1.3394\n  Test Accuracy: 0.4194\n")
    assert log.format == "keras"
    assert log.evals.filter(name=name)["value"].to_list() == [1.3394]


def _scores(read: Read, row: str, last: str = "") -> list[tuple[int, float]]:
    """The steps and scores of six passes, whose scores are 0.0625, 0.125 and so on."""
    log = read("".join(row.format(at=at, loss=2 / at, score=at / 16) for at in range(1, 7)) + last)
    assert log.records["step"].to_list()[:6] == [1, 2, 3, 4, 5, 6]
    scores: list[tuple[int, float]] = log.evals.select("step", "value").rows()
    return scores


PASS = "Pass {at}, loss = {loss:.4f}\n"
SCORE = "Validation score: {score:.4f}\n"


@pytest.mark.parametrize(
    ("row", "last"),
    [
        pytest.param(PASS + SCORE, "", id="below each record"),
        pytest.param(PASS + SCORE, PASS.format(at=7, loss=0.25), id="below each record but the last"),
        pytest.param(SCORE + PASS, "", id="above each record"),
    ],
)
def test_score_right_beside_each_record_is_of_that_record(row: str, last: str, read: Read) -> None:
    assert _scores(read, row, last) == [(at, at / 16) for at in range(1, 7)]


def test_score_some_lines_below_each_record_is_of_that_record(read: Read) -> None:
    steps = [step for step, _ in _scores(read, f"{PASS}saved the weights\n{SCORE}")]
    assert steps == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("name", "count"), [("eval mean class acc", 8), ("eval words", 0)])
def test_measure_that_is_nan_each_time_is_an_evaluation(name: str, count: int, read: Read) -> None:
    log = read("".join(f"Epoch {e}\nloss: {4 / e:.4f}\n{name}: nan\n" for e in range(1, 9)))
    assert (log.records.height, log.evals["value"].is_nan().sum()) == (8, count)


@pytest.mark.parametrize(
    "line", ["Model saved with val_loss {}", "Minimum validation loss {} reached in epoch {}"]
)
def test_what_is_saved_and_the_least_so_far_are_no_evaluations(line: str, read: Read) -> None:
    text = ""
    for e in range(1, 21):
        text += f"Epoch {e}/20 - loss: {4 / e:.4f} - val_loss: {5 / e:.4f}\n"
        text += line.format(f"{5 / e:.4f}", e) + "\n" if e % 4 == 0 else ""
    log = read(text)
    assert log.evals.height == log.records.height == 20


@pytest.mark.parametrize(
    ("line", "count"), [("EPOCH {}, dice: {:.4f}", 0), ("EPOCH {} test, dice: {:.4f}", 12)]
)
def test_mean_of_what_records_give_for_each_step_is_no_evaluation(line: str, count: int, read: Read) -> None:
    text = ""
    for e in range(1, 13):
        text += "".join(
            f"Epoch {e}, step {s}, loss: {4 / (e + s):.4f}, dice: {1 - 1 / (e + s):.4f}\n" for s in (1, 2, 3)
        )
        text += line.format(e, 0.9 - 0.5 / e) + "\n"
    log = read(text)
    assert (log.records.height, log.evals.height) == (36, count)
    assert not log.doubts


@pytest.mark.parametrize(("name", "read_as"), [("hits_k", "hits_k"), ("seconds", None)])
def test_figure_behind_the_word_for_evaluating_is_one_by_any_name(
    name: str, read_as: str | None, read: Read
) -> None:
    log = read(
        "".join(f"It: {s}, loss={9 / s:.4f}\nEvaluation: {name}={20 + s / 7:.2f}\n" for s in range(1, 9))
    )
    assert log.records.height == 8
    assert [*dict.fromkeys(log.evals["name"])] == ([read_as] if read_as else [])
