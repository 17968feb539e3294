"""The round of federated learning on a line above the lines of its clients."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
BELOW = "clients drawn: 5\nTrain loss: {loss:.4f}\nTest accuracy: 0.{n}25\n"


def rounds(head: str, below: str = BELOW) -> str:
    return "".join(f"{head}\n{below}".format(n=n, loss=3 / n) for n in range(1, 10))


@pytest.mark.parametrize(
    "head",
    [
        "=== Round {n} ===",
        "---Round number: {n}---",
        "Communication round: {n}",
        "| Global training round : {n} |",
        "Round {n}/9",
    ],
)
def test_round_above_the_records_is_their_step(head: str, read: Read) -> None:
    log = read(rounds(head))
    assert log.records.select("step", "loss").rows() == [(n, round(3 / n, 4)) for n in range(1, 10)]
    assert log.evals["step"].to_list() == [*range(1, 10)]
    assert log.doubts == ()


@pytest.mark.parametrize("head", ["Round 4", "Bidding round {n}", "Round {n}: {loss:.2f} paid"])
def test_number_of_another_round_is_no_step(head: str, read: Read) -> None:
    """It stays the same, is of something else, or stands beside a figure."""
    assert read(rounds(head)).records["step"].null_count() == 9


def test_step_of_the_records_goes_before_the_round(read: Read) -> None:
    log = read(rounds("Round {n}", "step {n}0 | loss {loss:.4f}\n"))
    assert log.records["step"].to_list() == [*range(10, 100, 10)]


def test_heading_above_all_figures_of_a_round_announces_no_loop(read: Read) -> None:
    """Each model is tried on the tasks so far; what stands above all of the figures tells none apart."""
    task = "Evaluation on task {t}\nMean train loss: {loss:.4f}\nMean test accuracy: 0.{n}{t}5\n"
    text = ""
    for n in range(1, 10):
        text += f"-- Round: {n} --\n" + "client is training\n" * 5
        text += "".join(task.format(t=t, n=n, loss=3 / n + t / 100) for t in range(1 + n // 4))
    log = read(text)
    steps = [n for n in range(1, 10) for _ in range(1 + n // 4)]
    assert log.records["step"].to_list() == log.evals["step"].to_list() == steps
