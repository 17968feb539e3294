"""A rate that rises in vain waits four times as long each time, up to a limit."""

from gputel.telemetry.clock import SECOND
from gputel.telemetry.sampling.backoff import LONGEST, SHORTEST, SOON, Patience


def wait_after_fall(patience: Patience, now: int) -> int:
    patience.fall("fast", now)
    return next(ns for ns in range(0, 2 * LONGEST, SECOND) if patience.may_rise("fast", now + ns))


def test_what_never_fell_may_rise_at_once() -> None:
    assert Patience().may_rise("fast", 0)


def test_wait_is_four_times_as_long_with_each_rise_in_vain_up_to_a_limit() -> None:
    patience, now, waits = Patience(), 0, list[int]()
    for _ in range(5):
        waits.append(wait_after_fall(patience, now))
        now += waits[-1]
        patience.rise("fast", now)
        now += SHORTEST
    assert waits == [SHORTEST * 4**n for n in range(3)] + [LONGEST, LONGEST]


def test_fall_long_after_a_rise_waits_as_the_first_did() -> None:
    patience = Patience()
    assert wait_after_fall(patience, 0) == SHORTEST
    patience.rise("fast", 20 * SECOND)
    assert wait_after_fall(patience, 30 * SECOND) == 4 * SHORTEST
    patience.rise("fast", 50 * SECOND)
    assert wait_after_fall(patience, 50 * SECOND + max(SOON, 4 * SHORTEST) + 1) == SHORTEST


def test_several_falls_in_a_row_are_one() -> None:
    patience = Patience()
    patience.fall("fast", 0)
    assert wait_after_fall(patience, SECOND) == SHORTEST
