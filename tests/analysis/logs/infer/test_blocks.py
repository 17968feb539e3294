"""A header with a step and the lines below it are one record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputel.analysis.logs import line_prefixes
from gputel.analysis.logs.infer import blocks, candidates, shape_roles, shapes


def found(log: str) -> tuple[list[candidates.Candidate], list[bytes]]:
    lines = log.encode().split(b"\n")
    bare = line_prefixes.strip_prefixes(lines)
    made = (shape_roles.make_candidate(shape, bare) for shape in shapes.line_shapes(lines, bare))
    return [candidate for candidate in made if candidate], lines


LOG = "".join(
    f"-- STEP: {i} --\n  | > loss_0: {9 / i:.3f}\n  | > loss_1: {8 / i:.3f}\n\n"
    f"> EVALUATION\n  | > avg_loss_0: 0.{i}\n"
    for i in range(1, 6)
)


def test_header_is_the_line_above_that_says_the_step() -> None:
    made, lines = found(LOG)
    main = next(line for line in made if "loss_0" in line.columns)
    header = blocks.header_above(made, main, lines)
    assert header is not None
    assert header.columns == ["step"]
    body = blocks.members(made, header, lines)
    assert [line.columns for line in body] == [["loss_0"], ["loss_1"]]


def test_lines_that_are_neither_indented_nor_bulleted_have_no_header() -> None:
    made, lines = found(
        "".join(f"at step {i}\nloss_0: {9 / i:.3f}\nloss_1: {8 / i:.3f}\n" for i in range(1, 6))
    )
    main = next(line for line in made if "loss_0" in line.columns)
    assert blocks.header_above(made, main, lines) is None


JSON = "[\n" + "".join(
    f'    {{\n        "main/loss": {9 / i:.3f},\n        "validation/main/loss": {8 / i:.3f},\n'
    f'        "iteration": {i * 600},\n        "elapsed_time": {15 * i}.5\n    }}, \n'
    for i in range(1, 6)
)
YAML = "".join(
    f"Result for PPO_CartPole-v0_00000:\n  date: 2022-07-27_15-41-0{i}\n  done: false\n"
    f"  episode_reward_mean: 2{i}.5\n  info:\n    learner:\n      total_loss: {9 / i:.3f}\n"
    f"  training_iteration: {i * 600}\n\n== Status ==\n"
    for i in range(1, 6)
)


@pytest.mark.parametrize("log", [JSON, YAML])
def test_step_below_the_figures_of_its_document_is_theirs(log: str, read: Callable[..., Any]) -> None:
    """A file may begin its records with the loss and say the step further down."""
    records = read(log).records
    assert records.select("step", "loss").rows() == [(i * 600, float(f"{9 / i:.3f}")) for i in range(1, 6)]
    assert "date" not in records.columns


@pytest.mark.parametrize("between", ["\n", "", "\r 10%|#   | 5/50 [00:01<00:09, 5.1it/s]\r\n"])
def test_pairs_of_a_printed_dict_are_of_one_record(between: str, read: Callable[..., Any]) -> None:
    """The step may be its last pair, and what stands above it is not of the record before."""
    dicts = (
        f"{between}{{'accuracy': 0.{i}5,\n 'learning_rate': 0.00{i},\n 'loss': {9 / i:.3f},\n 'step': {i * 50}}}\n"
        for i in range(6)
        if i
    )
    records = read("".join(dicts)).records
    assert records.select("step", "loss", "lr", "accuracy").rows() == [
        (i * 50, float(f"{9 / i:.3f}"), i / 1000, float(f"0.{i}5")) for i in range(1, 6)
    ]


def test_figure_above_a_printed_dict_is_no_pair_of_it(read: Callable[..., Any]) -> None:
    dicts = (f"accuracy: 0.{i}5\n{{'loss': {9 / i:.3f},\n 'step': {i * 50}}}\n" for i in range(1, 6))
    records = read("".join(dicts)).records
    assert records.select("step", "loss").rows() == [(i * 50, float(f"{9 / i:.3f}")) for i in range(1, 6)]


def test_evaluation_in_a_document_is_of_its_step(read: Callable[..., Any]) -> None:
    assert read(JSON).evals.select("step", "value").rows() == [
        (i * 600, float(f"{8 / i:.3f}")) for i in range(1, 6)
    ]


def test_document_whose_step_falls_starts_the_next_attempt(read: Callable[..., Any]) -> None:
    assert read(YAML + YAML).records["attempt"].to_list() == 5 * [1] + 5 * [2]


def test_step_above_the_figures_stays_theirs(read: Callable[..., Any]) -> None:
    blocks = "".join(f"iteration: {i * 600}\nloss: {9 / i:.3f}\nlr: 0.{i}\n\n" for i in range(1, 6))
    records = read("loss: 11.5\n\n" + blocks).records
    assert records.select("step", "loss").rows() == [(i * 600, float(f"{9 / i:.3f}")) for i in range(1, 6)]


BLOCK = "Iteration {}\n  loss: {:.3f}\n  lr: 0.001\n"


def test_evaluation_right_below_a_record_of_several_lines_is_of_its_step(read: Callable[..., Any]) -> None:
    log = "".join(BLOCK.format(i * 100, 9 / i) + f"  val_loss: {8 / i:.3f}\n" for i in range(1, 6))
    assert read(log).evals["step"].to_list() == [100, 200, 300, 400, 500]


def test_evaluation_above_a_record_of_several_lines_is_of_its_step(read: Callable[..., Any]) -> None:
    log = "".join(f"  val_loss: {8 / i:.3f}\n" + BLOCK.format(i * 100, 9 / i) for i in range(1, 6))
    assert read(log).evals["step"].to_list() == [100, 200, 300, 400, 500]


def test_figures_of_evaluations_below_their_step_make_no_record(read: Callable[..., Any]) -> None:
    figures = "step {0}00\nVal loss: {1}.5\nVal ppl: {1}1.5\n"
    log = read("".join(figures.format(at, 9 - at) for at in range(1, 6)))
    assert log.records.is_empty()
    assert log.evals["step"].to_list() == [step for step in range(100, 600, 100) for _ in range(2)]
    trained = read("".join(f"step {at}00\nloss: {9 - at}.5\nVal loss: {9 - at}.25\n" for at in range(1, 6)))
    assert trained.records["step"].to_list() == [100, 200, 300, 400, 500]


def test_line_that_announces_the_next_evaluation_says_nothing_of_the_one_above(
    read: Callable[..., Any],
) -> None:
    log = read(
        "".join(
            f"Validation loss: {9 - at}.5\nCalculating validation loss at end of epoch {at}...\n"
            f"Epoch {at} val loss: {9 - at}.25\n"
            for at in range(1, 6)
        )
    )
    assert log.records.is_empty()
    assert log.evals["step"].to_list() == [step for at in range(1, 6) for step in (None, at)]


@pytest.mark.parametrize("row", ["[[40{i}   7  1{i}]", "[{i}  31  5{i}]"])
def test_row_of_a_matrix_is_no_header_of_the_record_above(row: str, read: Callable[..., Any]) -> None:
    """Its numbers would be searched in front of any line, and be found in the timestamps."""
    lines = [
        f"2025-03-0{i} 09:3{i}:23,890 - INFO - Training completed. Average loss: 0.{8 - i}51\n{row.format(i=i)}\n"
        f" [ 12 30{i}   4]]\n2025-03-0{i} 09:5{i}:29,182 - INFO -   eval_recall   : 0.80{i}\n"
        for i in range(1, 5)
    ]
    log = read("".join(lines))
    assert log.records["loss"].to_list() == [0.751, 0.651, 0.551, 0.451]
    assert log.records["step"].to_list() == log.evals["step"].to_list() == [None] * 4


@pytest.mark.parametrize("loss", ["Training Loss = {:.4f} lr = 0.001", "Avg loss: {:.4f}"])
@pytest.mark.parametrize("untold", [1, 8, 9])
def test_time_of_an_epoch_is_no_header_where_each_epoch_has_one(
    loss: str, untold: int, read: Callable[..., Any]
) -> None:
    """One of the lines that say how long it took may be missing."""
    lines = [
        f"Epoch [{e}/8]\n{loss.format(9 / e)}\n" + f"Epoch {e} took {e}1.89 seconds\n" * (e != untold)
        for e in range(1, 9)
    ]
    log = read("".join(lines))
    assert log.records.select("step", "loss").rows() == [(e, round(9 / e, 4)) for e in range(1, 9)]


def test_second_time_of_an_epoch_makes_no_record(read: Callable[..., Any]) -> None:
    lines = [
        f"Epoch {e} of 12 - train_loss:{9 / e:.4f}; 3{e}.5s\nEpoch {e} took 4{e}.28 seconds\n"
        for e in range(1, 10)
    ]
    log = read("".join(lines))
    assert log.records["loss"].to_list() == [round(9 / e, 4) for e in range(1, 10)]
    assert log.records["dt_ms"].to_list() == [30_500.0 + 1000 * e for e in range(1, 10)]


def test_step_of_a_saved_checkpoint_is_no_step_of_the_records(read: Callable[..., Any]) -> None:
    lines = [
        f"[Epoch {e}/6]\nTrain Loss: {9 / e:.4f} || lr: 0.001\n"
        + f"Saved checkpoint at step {e}00\n" * (e > 1)
        for e in range(1, 7)
    ]
    assert read("".join(lines)).records["step"].to_list() == [*range(1, 7)]
