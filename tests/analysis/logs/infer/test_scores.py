"""Scores whose name has a number, and those that only evaluations give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
EPOCHS = range(1, 31)


def log_of(lines: str) -> str:
    return "".join(lines.format(e=e, loss=3 / e, a=0.5 + e / 100, b=0.6 + e / 100) for e in EPOCHS)


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (
            "Valid HITS@1 at epoch {e}: {a:.3f}\nValid HITS@10 at epoch {e}: {b:.3f}\n",
            ("Valid_HITS_1", "Valid_HITS_10"),
        ),
        ("val recall@5: {a:.3f}\nval recall@10: {b:.3f}\n", ("val_recall_5", "val_recall_10")),
        ("val R@5 {a:.3f} R@10 {b:.3f}\n", ("val_R_5", "R_10")),
        ("test top-1: {a:.3f}\ntest top-5: {b:.3f}\n", ("test_top_1", "test_top_5")),
        ("test top 1 acc: {a:.3f}, top 5 acc: {b:.3f}\n", ("test_top_1_acc", "top_5_acc")),
        ("Rank-1: {a:.3f}\nRank-5: {b:.3f}\n", ("Rank_1", "Rank_5")),
        ("METEOR: {a:.3f}\nCIDEr: {b:.3f}\n", ("METEOR", "CIDEr")),
        ("Valid MRR at epoch {e}: {a:.3f}\nval kappa {b:.3f}\n", ("Valid_MRR", "val_kappa")),
        ("epoch {e} | val_dsc: {a:.3f}\nepoch {e} | val_hd95: {b:.3f}\n", ("val_dsc", "val_hd95")),
    ],
)
def test_each_score_has_its_name(lines: str, names: tuple[str, str], read: Read) -> None:
    log = read(log_of("epoch {e} loss {loss:.4f}\n" + lines))
    assert log.records.height == 30
    for name, first in zip(names, (0.51, 0.61), strict=True):
        values = log.evals.filter(name=name)
        assert values["step"].to_list() == list(EPOCHS)
        assert values["value"][0] == first


def test_loss_of_several_batches_is_the_loss(read: Read) -> None:
    log = read(
        log_of("Training epoch: {e}\nMean training loss: {loss:.4f}\nMean test loss of 63 batches: {a:.3f}\n")
    )
    assert log.evals["value"].to_list() == [round(0.5 + e / 100, 3) for e in EPOCHS]


def test_number_behind_top_may_be_a_value(read: Read) -> None:
    log = read(log_of("epoch {e} loss {loss:.4f} top 0.5 top_k 5\n"))
    assert log.records["loss"].to_list() == [round(3 / e, 4) for e in EPOCHS]


def test_count_whose_quotient_stands_beside_it_is_no_step(read: Read) -> None:
    hits = [500_000 + 999 * e for e in EPOCHS]
    log = read(
        "".join(
            f"epoch {e} loss {3 / e:.4f}\ntest accuracy: {100 * right / 2_466_133:.2f}%, ({right}/2466133)\n"
            for e, right in zip(EPOCHS, hits, strict=True)
        )
    )
    assert log.evals["step"].to_list() == list(EPOCHS)
    assert log.evals["value"][0] == 20.32


def test_quotient_above_one_is_no_share_of_right_answers(read: Read) -> None:
    """A language model that is trained to calculate prints one."""
    records = "".join(f"step {step} loss {9 / step:.4f}\n" for step in range(1, 13))
    assert read(f"{records}Final answer: 882/360 = 2.45\n").evals.is_empty()
    assert read(f"{records}Task answers: 72/360 = 0.20\n").evals["value"].to_list() == [0.2]


def test_several_names_before_several_values_name_them_in_turn(read: Callable[[str], Log]) -> None:
    log = read(
        "\n".join(
            f"epoch {e} step {100 * e} loss {3 / e:.4f}\nEpoch {e}  IS, FID: {e}.666, {300 / e:.3f}"
            for e in range(1, 6)
        )
    )
    assert log.evals.filter(name="IS")["value"].to_list() == [e + 0.666 for e in range(1, 6)]
    assert log.evals.filter(name="FID")["value"].to_list() == [300.0, 150.0, 100.0, 75.0, 60.0]


def test_bare_set_beside_a_training_loss_alone_is_a_loss(read: Callable[[str], Log]) -> None:
    """Beside a named loss `Train: 0.81, Val: 0.72` are scores; without the training's they may be losses."""
    log = read("\n".join(f"Epoch {e}, Loss: {3 / e:.4f}, Val: {3.1 / e:.4f}" for e in range(1, 6)))
    assert log.evals["name"].unique().to_list() == ["val_loss"]


def test_figure_above_the_best_so_far_is_an_evaluation(read: Read) -> None:
    """It belongs to the validation loss on the line above."""
    log = read(
        log_of(
            "[{e}/30] Train loss: {loss:.4f}, Valid loss: {b:.4f}\n"
            "Current_accuracy : {a:.3f}, Current_norm_ED : {b:.2f}\n"
            "Best_accuracy    : 0.810, Best_norm_ED : 0.90\n"
        )
    )
    accuracy = log.evals.filter(name="Current_accuracy")
    assert accuracy["step"].to_list() == log.records["step"].to_list() == list(EPOCHS)
    assert accuracy["value"][0] == 0.51
    assert not any("Best" in name for name in log.evals["name"])


def test_reward_above_the_best_one_is_no_evaluation(read: Read) -> None:
    log = read("".join(f"Episode {e}\nreward: {2.5 * e}\nbest reward: {2.5 * e}\n" for e in EPOCHS))
    assert log.evals.height == 0


def test_figure_below_a_heading_is_read_beside_a_known_format(read: Read) -> None:
    log = read(
        log_of(
            "Iteration:  5%|#     | {e}/99 [00:10<01:00,  4.50it/s, loss={loss:.4f}, lr=1e-5]\n"
            "05/02/2022 21:29:30 - INFO - __main__ -   ***** Eval results  *****\n"
            "05/02/2022 21:29:30 - INFO - __main__ -     acc = {a:.3f}\n"
        )
    )
    assert log.records["step"].to_list() == list(EPOCHS)
    assert log.evals["value"].to_list() == [round(0.5 + e / 100, 3) for e in EPOCHS]


SETS = "Epoch: {e:02d}, Loss: {loss:.4f}, Train: {b:.2%}, Valid: {a:.2%}\n"


def test_sets_that_name_scores_name_them_below_the_records_too(read: Read) -> None:
    """`Final Test: 71.2` is no loss, and the highest score so far no evaluation."""
    log = read(log_of(SETS) + "Highest Valid: 80.12\n  Final Test: 79.81\n")
    assert set(log.evals["name"]) == {"valid_score", "Final_Test"}
    losses = read(log_of("Epoch: {e:02d}, Loss: {loss:.4f}\n") + "Final Test: 0.81\n")
    assert set(losses.evals["name"]) == {"val_loss"}


def test_number_of_a_model_or_a_fold_is_no_figure_of_its_evaluation(read: Read) -> None:
    log = read(
        log_of("Epoch {e} Loss = {loss:.4f}\n") + "Model 0 test rmse = 1.2346\nSeed 3 ==> test mae = 0.5\n"
    )
    assert set(log.evals["name"]) == {"test_rmse", "test_mae"}


def test_signs_between_figures_are_no_words_of_prose(read: Read) -> None:
    line = (
        "AGENT {a}, EPISODE {e}, FRAME {e}00, PART {a}: last reward = 0.{e:02}, running reward = 0.{e:02}, "
    )
    line += "wall time = 0.5, total time = 9.5\n"
    log = read("".join(line.format(e=e, a=a) for e in EPOCHS for a in (0, 1)))
    assert log.records["last_reward"].to_list() == [e / 100 for e in EPOCHS for _ in (0, 1)]
    assert log.records["step"].null_count() == log.records.height == 60


def test_number_of_an_agent_in_front_of_its_reward_is_no_step(read: Read) -> None:
    log = read("".join(f"Agent {a}, Episode {e}: reward {e / 4}\n" for e in EPOCHS for a in range(3)))
    assert log.records["step"].null_count() == log.records.height == 90


@pytest.mark.parametrize(
    ("steps", "lengths"), [("8", True), ("{e}00", False), ("1{b:.0f}{e:.0f}", False), ("{x}", True)]
)
def test_steps_that_do_not_go_on_are_the_length_of_an_episode(steps: str, lengths: bool, read: Read) -> None:
    text = "Episode | Reward | Steps | Loss\n"
    text += "".join(
        f"{e:>5} | {e / 4:.2f} | {steps.format(e=e, b=1, x=90 + 17 * e % 50)} | {3 / e:.4f}\n" for e in EPOCHS
    )
    assert ("Steps" in read(text).records.columns) is lengths


def test_sets_that_rise_as_shares_do_are_scores(read: Read) -> None:
    """A training loss falls; so do the figures of the same words where they are losses."""
    rising = read(log_of("Epoch: {e:03d}, Train: {b:.4f}, Val: {a:.4f}, Test: {a:.3f}\n"))
    assert "loss" not in rising.records.columns
    assert rising.records["train_score"].to_list() == [round(0.6 + e / 100, 4) for e in EPOCHS]
    assert set(rising.evals["name"]) == {"val_score", "test_score"}
    falling = read("".join(f"epoch {e} train {0.9 / e:.4f} | val {0.95 / e:.4f}\n" for e in EPOCHS))
    assert falling.records["loss"][0] == 0.9
    assert set(falling.evals["name"]) == {"val_loss"}
    assert not rising.doubts
    assert not falling.doubts


def test_scores_that_a_booster_learns_and_tests_are_no_losses(read: Read) -> None:
    rising = read("".join(f"{e}:\tlearn: {0.6 + e / 100:.4f}\ttest: {0.5 + e / 100:.4f}\n" for e in EPOCHS))
    assert rising.records["train_score"].to_list() == [round(0.6 + e / 100, 4) for e in EPOCHS]
    assert set(rising.evals["name"]) == {"test_score"}
    falling = read("".join(f"{e}:\tlearn: {0.9 / e:.4f}\ttest: {0.95 / e:.4f}\n" for e in EPOCHS))
    assert falling.records["loss"][0] == 0.9
    assert set(falling.evals["name"]) == {"val_loss"}
    assert not rising.doubts
    assert not falling.doubts


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Epoch: {e:03d}, Loss: {loss:.4f}, Val: {a:.4f}, Test: {b:.4f}\n", "Val"),
        ("Epoch {e}: train 0.3{odd} val 0.4{odd}\n", "train"),
    ],
)
def test_set_alone_whose_figures_do_not_fall_is_doubtful(line: str, name: str, read: Read) -> None:
    log = read("".join(line.format(e=e, loss=3 / e, a=0.5 + e / 100, b=0.6, odd=e % 3) for e in EPOCHS))
    assert [(doubt.what, doubt.figures["name"]) for doubt in log.doubts] == [("named-by-set", name)]


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        ("epoch\ttrain\tval\n", "{e}\t{b:.4f}\t{a:.4f}\n"),
        ("| Epoch | Train | Val |\n", "| {e} | {b:.4f} | {a:.4f} |\n"),
    ],
)
def test_columns_headed_by_sets_that_rise_are_scores(heading: str, row: str, read: Read) -> None:
    log = read(heading + log_of(row))
    assert log.records["train_score"][0] == 0.61
    assert set(log.evals["name"]) == {"val_score"}


def test_measure_is_left_out_of_another_set_and_not_of_the_same(read: Read) -> None:
    """`Train Loss 2.5, Val 2.6` are losses; `Train Loss 2.5; Train 0.8; Val 0.7` are a loss and scores."""
    losses = read("".join(f"Epoch {e}: Train Loss {3 / e:.4f}, Val {3.1 / e:.4f}\n" for e in EPOCHS))
    assert set(losses.evals["name"]) == {"val_loss"}
    scores = read(log_of("Epoch {e}: Train Loss {loss:.4f}; Train {b:.3f}; Val {a:.3f}\n"))
    assert scores.records.select("loss", "train_score").row(0) == (3.0, 0.61)
    assert set(scores.evals["name"]) == {"val_score"}


def test_second_value_of_a_measure_keeps_a_name_of_its_own(read: Read) -> None:
    """What is printed behind a slash may be a total, but not where it is a fraction of a measure that changes."""
    log = read(
        "".join(f"Epoch {e} loss={3 / e:.3f}/{3.5 / e:.3f} memory 3.{e % 7}/5.{e % 9}\n" for e in EPOCHS)
    )
    assert log.records.select("loss", "loss_2").row(1) == (1.5, 1.75)
    sets = read("".join(f"epoch {e} train: {3 / e:.3f}/0.{e} val: {3.5 / e:.3f}/0.{e}\n" for e in EPOCHS))
    assert set(sets.evals["name"]) == {"val_loss", "val_2"}


def test_epochs_of_two_trainings_may_give_nothing_but_a_score(read: Read) -> None:
    text = "".join(f"[epoch {e}] FG-ARI=0.{e + 30} size=0.{e + 50}\n" for e in range(9))
    log = read(text + text)
    assert log.records["FG_ARI"].to_list()[:2] == [0.3, 0.31]
    assert log.places == [("train", 1), ("train", 2)]


BATCHES = "[{0}, 100] loss: {1:.3f}\n[{0}, 200] loss: {1:.3f}\n"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Accuracy on the 500 test samples: {2} %", "test_Accuracy_pct"),
        ("Top-1 of the model over 500 validation images is {2}%", "validation_Top_1_of_the_model_pct"),
        ("val acc: {2}%", "val_acc_pct"),
        ("Memory on the 2 test machines: {2} %", None),
        ("Test progress: {2}%", None),
    ],
)
def test_score_in_whole_percent_is_an_evaluation(line: str, name: str | None, read: Read) -> None:
    log = read("".join((BATCHES + line + "\n").format(e, 9 / e, 40 + e) for e in range(1, 7)))
    assert log.evals.select("name", "value").rows() == [(name, 40.0 + e) for e in range(1, 7) if name]


def test_row_of_figures_behind_the_name_of_a_set_is_a_class_of_a_report(read: Read) -> None:
    report = "precision recall f1-score support\n" + "".join(
        f"{name:>12}       0.95      0.9{{}}      0.93      2136\n" for name in ("bike", "train", "test")
    )
    log = read("".join(f"Epoch {e}/6 | loss: {2 / e:.4f}\n{report.format(e, e, e)}" for e in range(1, 7)))
    assert log.records["loss"].to_list() == [round(2 / e, 4) for e in range(1, 7)]
    assert "test_loss" not in log.evals["name"]


@pytest.mark.parametrize(("name", "records"), [("Average Score", 16), ("Battery Level", 8)])
def test_reward_at_the_steps_of_one_agent_is_one_as_that_of_the_episodes_of_another(
    name: str, records: int, read: Read
) -> None:
    steps = "".join(f"Step {2500 * at}\t{name}: {at - 180.25}\n" for at in range(1, 9))
    log = read(steps + "".join(f"Episode {100 * at}\tAverage Score: {at - 20.5}\n" for at in range(8)))
    assert log.records.height == records
    assert log.records["Average_Score"][-1] == -13.5
