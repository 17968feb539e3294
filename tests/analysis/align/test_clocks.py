"""Intervals of clocks, by bundles that were sent over slow and fast links."""

import random

import pytest

from gputel.analysis.align.clocks import ClockInterval, ahead_of_storage
from gputel.telemetry.clock import SECOND
from gputel.telemetry.remote.bundle_times import Sighting

BOOTED = 1_700_000_000 * SECOND


def bundles(
    ahead_s: float, count: int, seed: int = 1, *, begin_s: float = 0.0, round_trip_s: float = 0.1
) -> list[Sighting]:
    """What a node whose clock is ahead sends every ten seconds to storage that tells whole seconds."""
    chance = random.Random(seed)
    seen = []
    for number in range(count):
        sent_s = begin_s + 10 * number + chance.random()
        way, back = (round_trip_s * chance.uniform(0.2, 0.8) for _ in range(2))
        stored = int(BOOTED / SECOND + sent_s - ahead_s + way) * SECOND
        seen.append(Sighting(int(sent_s * SECOND), stored, int((sent_s + way + back) * SECOND)))
    return seen


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ahead_s", [0.0, 3.217, -7200.5])
def test_interval_holds_the_offset_and_narrows_with_bundles(ahead_s: float, seed: int) -> None:
    few, many = (ahead_of_storage(bundles(ahead_s, count, seed), BOOTED) for count in (3, 90))
    assert few
    assert many
    assert few.low_s <= ahead_s <= few.high_s
    assert many.low_s <= ahead_s <= many.high_s
    assert many.error_s <= few.error_s
    assert many.error_s < 0.1


def test_bundles_that_were_never_acknowledged_say_nothing() -> None:
    assert ahead_of_storage([], BOOTED) is None
    assert ahead_of_storage([Sighting(5, BOOTED, None)], BOOTED) is None


def test_clock_of_storage_that_was_set_leaves_the_offset_that_fits_most() -> None:
    interval = ahead_of_storage(bundles(0.0, 20) + bundles(60.0, 5, begin_s=200.0), BOOTED)
    assert interval
    assert interval.low_s <= 0 <= interval.high_s
    assert interval.error_s < 1


def test_drift_of_hours_before_is_left_out() -> None:
    interval = ahead_of_storage(bundles(60.0, 100) + bundles(0.0, 20, begin_s=10_000), BOOTED)
    assert interval
    assert interval.low_s <= 0 <= interval.high_s


def test_two_clocks_are_compared_by_a_third() -> None:
    ahead = ClockInterval(3.0, 3.5).after(ClockInterval(-0.5, 0.5))
    assert ahead == ClockInterval(2.5, 4.0)
    assert (ahead.middle_s, ahead.error_s) == (3.25, 0.75)
