"""Records of one step on whose lines another number counts, each beside a log that is like it and right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.analysis.logs import files, formats
from gputel.analysis.logs.log import Log

FIRST = formats.load(
    "title = 'first'\ngrammar = 'one of ours'\n[[lines]]\nname = 'record'\nrole = 'train'\n"
    "needle = 'loss'\nline = '<step>:.* loss <loss>'\n",
    "first",
    "first.toml",
)


def doubts(line: str, tmp_path: Path) -> list[str]:
    """Those of a format that takes the first number of a line for the step."""
    path = tmp_path / "train.log"
    path.write_text("".join(line.format(at // 20, at, 20 * at, 9 / at) for at in range(1, 60)))
    return [
        doubt.evidence for doubt in files.read_file(path, (FIRST,)).doubts if doubt.what == "unread-counter"
    ]


def test_number_that_counts_while_the_step_stays_is_doubtful(tmp_path: Path) -> None:
    (said,) = doubts("{0}: {2} loss {3:.4f}\n", tmp_path)
    assert said == (
        "56 of 59 records have the step of the one before, and a number on their lines counts 40, 60, 80"
    )


@pytest.mark.parametrize(
    "line",
    [
        "{1}: {2} loss {3:.4f}\n",  # the step counts as well
        "{0}: {2}/9999 loss {3:.4f}\n",  # samples of an epoch
        "{0}: took {2} loss {3:.4f}\n",
        "{0}: 10 loss {3:.4f}\n",
        "2026-03-01 10:00:{1:02} {0}: loss {3:.4f}\n",
    ],
)
def test_steps_that_count_parts_of_a_total_and_times_are_not(line: str, tmp_path: Path) -> None:
    assert doubts(line, tmp_path) == []


def test_steps_beyond_the_total_of_others_are_doubtful(read: Callable[[str], Log]) -> None:
    """A bar counts the steps of this stage, and other lines those of all stages: they are of one training."""
    bar = [
        f"Stage: {n}%|##   | {n}/100 [00:{n}<00:59, 1.2it/s, loss=0.{99 - n // 2}1]"
        for n in range(10, 101, 10)
    ]
    lines = [f"Iter {100 + n} loss: 0.{99 - n // 2}4" for n in range(10, 101, 10)]
    assert [doubt.what for doubt in read("\n".join([*bar, *lines, ""])).doubts] == ["beyond-total"]
    early = [line.replace("Iter 1", "Iter ") for line in lines[:-1]]
    assert "beyond-total" not in [doubt.what for doubt in read("\n".join([*bar, *early, ""])).doubts]


def test_steps_of_a_bar_that_lines_below_count_again_are_doubtful(read: Callable[[str], Log]) -> None:
    """What was printed may come later than the bar, which is written at once."""
    bar = [
        f"{n:3d}%|##   | {n}/100 [00:{n}<00:59, 1.2it/s, loss=0.{99 - n // 2}1]" for n in range(10, 101, 10)
    ]
    lines = [f"Step {n} loss 0.{99 - n // 2}12" for n in range(20, 101, 20)]
    assert [doubt.what for doubt in read("\n".join([*bar, *lines, ""])).doubts] == ["counted-again"]
    assert read("\n".join([*bar, *bar, ""])).doubts == ()
    fewer = read("\n".join([*bar, *lines[:-1], ""]))
    assert "counted-again" not in [doubt.what for doubt in fewer.doubts]


def test_records_below_the_lines_of_all_epochs_are_doubtful(read: Callable[[str], Log]) -> None:
    """A program that wrote at the same time had its output put at the end of the log."""
    heads = [f"[ROUND {n}]\nconfigure: 2 clients\n" for n in (1, 2, 3)]
    batches = "".join(f"Training batch, loss=0.{n}5\n" for n in range(9, 0, -1))
    assert [doubt.what for doubt in read("".join(heads) + batches).doubts] == ["one-step"]
    assert read(heads[0] + batches).doubts == ()


def test_records_below_the_number_of_epochs_alone_are_doubtful(read: Callable[[str], Log]) -> None:
    batches = "".join(f"cost=0.{n}5\n" for n in range(9, 0, -1))
    assert [doubt.what for doubt in read("Epoch: 30\n" + batches).doubts] == ["one-step"]
    assert read("Epoch: 1\n" + batches).doubts == ()
    counted = "".join(f"batch {10 * n} loss {9 / (n + e):.3f}\n" for e in (1, 4) for n in range(12))
    assert [doubt.what for doubt in read("Epoch: 30\n" + counted).doubts] == ["steps-fall"]
    assert read("Epoch: 1\n" + counted).doubts == ()
