"""Lines from which a format may be inferred have words of training."""

from __future__ import annotations

import pytest

from gputel.analysis.logs.training_words import has_candidates, may_recur_or_measure


@pytest.mark.parametrize(
    "lines",
    [
        "val loss 2.5",
        "Verlust der Validierung: 2.5",
        "epoch 1 took 2 minutes\nepoch 2 took 3 minutes",
        "lr of group 0: 1e-05\nlr of group 1: nan",
        "train time: 1 day, 0:01:02\ntrain time: 2:01:02",
    ],
)
def test_lines_that_measure_or_recur_may_have_a_format(lines: str) -> None:
    assert may_recur_or_measure(lines.encode())


@pytest.mark.parametrize(
    "lines",
    ["Total number of training tokens: 6,710,886,400", "tokens for training: 5 billion\ntraining time 10.5m"],
)
def test_single_facts_beside_records_have_none(lines: str) -> None:
    assert not may_recur_or_measure(lines.encode())


@pytest.mark.parametrize(
    "line",
    [
        "LOSS 2.5",
        "bpb: 1",
        "F1 of all",
        "mae 3",
        "lr 0.1",
        "5 it/s",
        "12/300  3.4G  0.5",
        "Perdita 3",
        "损失 2",
    ],
)
def test_words_of_training_make_a_line_a_candidate(line: str) -> None:
    assert has_candidates(line.encode())


@pytest.mark.parametrize("line", ["", "\n\n", "since then", "maestro", "f10", "a/b", "separated"])
def test_words_within_words_make_no_candidate(line: str) -> None:
    assert not has_candidates(line.encode())
