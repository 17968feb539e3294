"""What is new in a log that is made anew from all of its rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.live.whole_logs import HandedOut
from gputel.analysis.logs.incremental import Increment
from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]


def steps(increment: Increment) -> list[int]:
    return increment.records["step"].to_list()


@pytest.fixture
def text(iteration: Callable[..., str]) -> Callable[[int], str]:
    return lambda count: "".join(iteration(step, 4 - step / 10) for step in range(count))


def test_record_is_handed_out_once_and_the_last_one_stays_open(
    read: Read, text: Callable[[int], str]
) -> None:
    handed_out = HandedOut()
    first, second = (handed_out.difference(read(text(count))) for count in (3, 5))
    assert (steps(first), steps(second)) == ([0, 1], [2, 3])
    assert second.opened is not None
    assert second.opened.records["step"].to_list() == [4]
    assert not first.afresh
    assert not second.afresh


def test_record_that_changed_hands_out_the_log_afresh(
    read: Read, text: Callable[[int], str], iteration: Callable[..., str]
) -> None:
    handed_out = HandedOut()
    handed_out.difference(read(text(4)))
    changed = handed_out.difference(read(iteration(0, 9.0) + text(4)[len(iteration(0, 4.0)) :]))
    assert changed.afresh
    assert steps(changed) == [0, 1, 2]


def test_evaluation_is_handed_out_once(read: Read, text: Callable[[int], str]) -> None:
    handed_out, evaluation = HandedOut(), "step 2: train loss 3.9, val loss 4.1\n"
    first = handed_out.difference(read(text(3) + evaluation))
    second = handed_out.difference(read(text(3) + evaluation + text(5)[len(text(3)) :]))
    assert first.evals["value"].to_list()[-1:] == [4.1]
    assert second.evals.is_empty()
