"""Tests for analysis.logs.announced_epochs: a line of an epoch above the lines of several ranks."""

from collections.abc import Callable
from itertools import chain

import pytest

from gputel.analysis.logs.log import Log

RANKS = 4
COUNTS = (0, 10, 20, 30)
HEADS = {
    "of the first rank": "[rank0]: Epoch {epoch}/3",
    "of no rank": "Epoch {epoch}/3",
    "of every rank": "[rank{rank}]: Epoch {epoch}/3",
}


def head(text: str, epoch: int) -> list[str]:
    return list(dict.fromkeys(text.format(epoch=epoch, rank=rank) for rank in range(RANKS)))


def record(rank: int, epoch: int, count: int, name: str = "batch") -> str:
    return f"[rank{rank}]: {name} {count} loss {3 / (1 + epoch + count / 40) + rank / 100:.4f}"


def body(epoch: int, name: str = "batch", offset: int = 0) -> list[str]:
    return [record(rank, epoch, offset + count, name) for count in COUNTS for rank in range(RANKS)]


def epochs(log: Log) -> list[float]:
    return log.records["epoch"].to_list()


@pytest.mark.parametrize("text", HEADS.values(), ids=HEADS)
def test_epoch_above_is_of_the_records_of_all_ranks(read: Callable[[str], Log], text: str) -> None:
    lines = chain.from_iterable(head(text, epoch) + body(epoch) for epoch in (1, 2, 3))
    log = read("\n".join(lines) + "\n")
    assert epochs(log) == [epoch for epoch in (1, 2, 3) for _ in body(epoch)]
    assert log.records["attempt"].n_unique() == 1
    assert not log.doubts


def test_late_line_of_another_rank_is_of_the_epoch_before(read: Callable[[str], Log]) -> None:
    late = record(3, 1, 30)
    first = [line for line in body(1) if line != late]
    third = [*head(HEADS["of the first rank"], 3), *body(3)]
    lines = [
        *head(HEADS["of the first rank"], 1),
        *first,
        *head(HEADS["of the first rank"], 2),
        late,
        *body(2),
    ]
    log = read("\n".join([*lines, *third]) + "\n")
    assert epochs(log) == [1] * 16 + [2] * 16 + [3] * 16


def test_early_line_of_another_rank_is_of_the_epoch_that_is_announced_next(
    read: Callable[[str], Log],
) -> None:
    early, text = record(3, 2, 0), HEADS["of the first rank"]
    second = [line for line in body(2) if line != early]
    lines = [*head(text, 1), *body(1), early, *head(text, 2), *second, *head(text, 3), *body(3)]
    log = read("\n".join(lines) + "\n")
    assert epochs(log) == [1] * 16 + [2] * 16 + [3] * 16
    assert log.records["attempt"].n_unique() == 1


def test_step_that_goes_on_is_of_the_new_epoch_at_once(read: Callable[[str], Log]) -> None:
    lines = chain.from_iterable(
        head(HEADS["of the first rank"], epoch) + body(epoch, "step", 40 * (epoch - 1)) for epoch in (1, 2, 3)
    )
    assert epochs(read("\n".join(lines) + "\n")) == [1] * 16 + [2] * 16 + [3] * 16


def test_step_that_falls_without_a_line_of_an_epoch_begins_another_attempt(
    read: Callable[[str], Log],
) -> None:
    text = HEADS["of the first rank"]
    log = read("\n".join([*head(text, 1), *body(1), *head(text, 2), *body(2), *body(1)]) + "\n")
    assert log.records["attempt"].to_list() == [1] * 32 + [2] * 16
    assert log.records["epoch"].to_list()[-1] is None
