"""A shape becomes a record, an evaluation, a place or nothing; and its pattern reads its lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs import formats, line_prefixes
from gputel.analysis.logs.infer import candidates, line_tables, shape_roles, shapes
from gputel.analysis.logs.log import Log


def candidate(*lines: str) -> candidates.Candidate | None:
    rows = [line.encode() for line in lines]
    *_, shape = shapes.line_shapes(rows, rows)
    return shape_roles.make_candidate(shape, rows)


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("step 3 loss 2.5 lr 1e-4", "train"),
        ("val loss 2.5", "eval"),
        ("Test: step 3 loss 2.5", "eval"),
        ("epoch 3 train loss 2.5 val loss 2.6", "mixed"),
        (">> Test Acc:0.51 Loss:2.41", "eval"),
        (">> Epoch 3: Test Acc:0.51 Loss:2.41", "mixed"),
        ("Test Acc:0.51 Loss:2.41 lr:0.001", "mixed"),
        ("Epoch 3/10", "epoch"),
        ("at step 30 now", "place"),
    ],
)
def test_words_and_names_of_a_line_give_its_role(line: str, role: str) -> None:
    made = candidate(line)
    assert made is not None
    assert made.role == role


def test_line_below_a_heading_of_a_test_is_an_evaluation() -> None:
    made = candidate("Test Error:", "loss 2.5 acc 0.5")
    assert made is not None
    assert (made.role, made.columns) == ("eval", ["val_loss", "acc"])


def test_size_of_a_set_is_no_figure_of_the_evaluation(read: Callable[[str], Log]) -> None:
    lines = "[{0:6}] | gnorm 0.5 lr 0.0001 | loss {1:.2f}\nEval batches[ 100] | loss {2:.2f}\n"
    log = read("".join(lines.format(100 * at, 9 / at, 10 / at) for at in range(1, 12)))
    assert (log.records["loss"].count(), {*log.evals["name"]}) == (11, {"val_loss"})


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Task 3 validation MAE: 4.25", ["validation_MAE"]),
        ("validation MAE 4.25, reached: 3", ["validation_MAE", "reached"]),
        ("validation MAE 4.25; Time:122", ["validation_MAE"]),
        ("Epoch [3/9], Val_Acc: 0.61 (so far 0.64 in Epoch 2)", ["epoch", "epochs", "Val_Acc"]),
    ],
)
def test_number_of_a_task_the_best_so_far_and_a_time_are_no_figures_of_the_evaluation(
    line: str, names: list[str]
) -> None:
    made = candidate(line)
    assert made is not None
    assert (made.role, made.columns) == ("eval", names)


def test_line_that_says_nothing_of_training_is_no_candidate() -> None:
    assert candidate("listening on port 8080") is None


def test_pattern_reads_every_line_of_the_shape_and_not_the_timestamps_before_it() -> None:
    lines = [f"12:00:0{i} it={i} >> nll {9 / i:.4f} lr <{i}e-4>".encode() for i in range(1, 9)]
    (shape,) = shapes.line_shapes(lines, line_prefixes.strip_prefixes(lines))
    made = shape_roles.make_candidate(shape, lines)
    assert made is not None
    table = line_tables.compile_line("train", "train", shape, list(made.named), looks=True)
    pattern = formats.load(table.toml(), "mine", "mine").patterns[0]
    for line in lines:
        match = pattern.regex.search(line)
        assert match is not None
        assert line[match.start() :].startswith(b"it=")
    assert pattern.looks is not None
    assert pattern.looks.search(b"it=9 >> nll")


def test_rates_beside_a_learning_rate_are_of_a_training() -> None:
    lines = [
        f"{i}00 - 43.0 sent/s - 1643.1{i} words/s - MLM-en: 1.9{i} - model LR: 1.0e-04" for i in (1, 2, 3)
    ]
    made = candidate(*lines)
    assert made is not None
    assert made.speaks
    assert made.columns == ["step", "sent_s", "tok_per_sec", "MLM_en", "lr"]


def test_place_of_an_evaluation_may_have_the_name_of_its_set() -> None:
    made = candidate("Valid Epoch:  0 | LOSS: 0.344 | F1: 0.634")
    assert made is not None
    assert (made.role, made.columns) == ("eval", ["epoch", "val_loss", "F1"])


def test_rare_line_of_many_values_is_no_candidate_and_one_that_recurs_is() -> None:
    line = "step 1 loss 2.5 " + " ".join(
        f"a{chr(97 + at % 26)}{chr(97 + at // 26)} {at}.5" for at in range(60)
    )
    assert candidate(line) is None
    assert candidate(line, line, line) is not None


def test_mean_of_an_evaluation_goes_before_the_loss_of_its_last_batch() -> None:
    made = candidate("Validate: Loss 2.1235 (2.1217)", "Validate: Loss 2.0235 (2.0117)")
    assert made is not None
    assert [cell.slot.at for cell in made.named if cell.column == "val_loss"] == [1]


@pytest.mark.parametrize(
    ("row", "every", "column"),
    [
        ("| steps | {0}0 |\n| mean 100 episode reward | {1:.1f} |\n-----\n", 10, "episode_reward"),
        ("global_step={0}, episodic_return=[{1:.1f}]\n", 1, "episodic_return"),
        ("Episode: {0}, Total Steps: {0}00, Ep. Reward: {1:.1f}\n", 100, "Reward"),
        ("[{0}/5] Recon: {1:.4f} KL: 0.{0}\n", 1, "Recon"),
        ("Epoch {0}: recon_error {1:.4f}, KLD 0.{0}\n", 1, "KLD"),
        ("Update {0}: Q {1:.2f}, Pi -0.{0}5, CE 1.{0}\n  game {0}: won (return: 9.5)\n", 1, "CE"),
    ],
)
def test_step_with_rewards_or_parts_is_a_record_where_nothing_gives_the_loss(
    read: Callable[[str], Log], row: str, every: int, column: str
) -> None:
    log = read("".join(row.format(i, 9 / i) for i in range(1, 6)))
    assert log.records["step"].to_list() == [every * i for i in range(1, 6)]
    assert log.records[column].null_count() == 0
    assert "loss" not in log.records.columns


def test_losses_of_a_policy_and_of_its_value_are_parts(read: Callable[[str], Log]) -> None:
    """As Spinning Up prints them."""
    box = "-----\n| Epoch | {0} |\n| LossPi | -0.{0} |\n| LossV | {0}.5 |\n| EpLen | 2{0}.0 |\n-----\n"
    log = read("".join(map(box.format, range(1, 6))))
    assert log.records["step"].to_list() == [1, 2, 3, 4, 5]
    assert "loss" not in log.records.columns


def test_error_of_a_solver_at_its_iterations_is_no_record(read: Callable[[str], Log]) -> None:
    assert read("".join(f"Iteration {i}: error = {9 / i:.4f}\n" for i in range(1, 9))).is_empty


def test_error_at_iterations_of_an_announced_training_is_a_record(read: Callable[[str], Log]) -> None:
    """A second network begins with iteration 0 again."""
    rows = [f"Error after {1000 * i} iterations: {0.5 / (i + 1):.6f}" for i in range(6)]
    log = read("\n".join(["Training with alpha 0.1", *rows, "Training with alpha 1", *rows[:4]]))
    assert log.records["attempt"].to_list() == 6 * [1] + 4 * [2]
    assert log.records["Error"][0] == 0.5
    solved = read("\n".join(["Conjugate gradients, tolerance 1e-6", *rows]))
    assert solved.records.is_empty()


def test_norm_beside_a_bias_is_of_the_weights(read: Callable[[str], Log]) -> None:
    rows = [
        f"-- Epoch {i}\nNorm: {9 + i}.25, NNZs: 20, Bias: 0.5{i}, T: {600 * i}, Avg. loss: {9 / i:.6f}"
        for i in range(1, 7)
    ]
    log = read("\n".join(rows))
    assert (log.records["Norm"][0], log.records["loss"][0]) == (10.25, 9.0)
    assert (
        read("\n".join(f"step {i} loss {9 / i:.3f} norm: 1.25" for i in range(1, 7))).records["grad_norm"][0]
        == 1.25
    )


def test_trials_of_a_search_are_no_steps(read: Callable[[str], Log]) -> None:
    rows = [
        f"Trial {i} finished with value: {9 / (i + 1):.4f} and parameters: {{'lr': 0.0{i}1}}."
        for i in range(8)
    ]
    assert read("\n".join(rows)).records.is_empty()


def test_score_of_a_fold_is_an_evaluation_of_its_training(read: Callable[[str], Log]) -> None:
    epochs = "Epoch {e} | train={loss:.4f} | lr=0.001\n"
    folds = "".join(
        "".join(epochs.format(e=e, loss=2 / (e + n)) for e in range(1, 6)) + f"Fold {n} | RMSE=0.{n}25\n\n"
        for n in range(1, 4)
    )
    log = read(folds)
    rows = [(1, 5, "RMSE", 0.125), (2, 5, "RMSE", 0.225), (3, 5, "RMSE", 0.325)]
    assert log.evals.select("attempt", "step", "name", "value").rows() == rows
    table = "".join(f"Fold {n} | RMSE=0.{n}25\n" for n in range(1, 4))
    assert read("".join(epochs.format(e=e, loss=2 / e) for e in range(1, 6)) + table).evals.is_empty()


@pytest.mark.parametrize(
    "line", ["Fold {n} log loss: 0.{n}25\ntook 0.5 minutes\n", "FOLD # {n} AUC: 0.{n}25\n\n"]
)
def test_number_of_a_fold_is_no_step(line: str, read: Callable[[str], Log]) -> None:
    assert read("".join(line.format(n=n) for n in range(5))).records.is_empty()
