"""Short words of sets count only beside their mates."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]


def lines(train: str, other: str) -> str:
    return "".join(
        f"{train} | {epoch:3d} | loss={3 / epoch:.4f} | acc={epoch / 40:.3f}\n"
        f"{other} | {epoch:3d} | loss={3.5 / epoch:.4f} | acc={epoch / 45:.3f}\n"
        for epoch in range(1, 31)
    )


@pytest.mark.parametrize(("train", "other"), [("TR", "VA"), ("T", "V"), ("trn", "tst"), ("[tr]", "[te]")])
def test_short_word_beside_that_of_training_is_a_held_out_set(train: str, other: str, read: Read) -> None:
    log = read(lines(train, other))
    assert log.records["loss"].to_list() == [round(3 / epoch, 4) for epoch in range(1, 31)]
    losses = log.evals.filter(name="val_loss")["value"].to_list()
    assert losses == [round(3.5 / epoch, 4) for epoch in range(1, 31)]
    assert not log.doubts


def test_other_short_words_are_no_sets(read: Read) -> None:
    assert read(lines("G", "V")).evals.is_empty()
