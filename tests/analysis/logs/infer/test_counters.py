"""What the values of a column do from line to line."""

from __future__ import annotations

import pytest

from gputel.analysis.logs.infer import counters, shapes, slots


@pytest.mark.parametrize(
    ("steps", "counts"), [(range(0, 90, 10), True), ((3, 1, 4, 1, 5, 9, 2), False)], ids=["rising", "random"]
)
def test_counter_rises_mostly_by_the_same_amount(steps: range | tuple[int, ...], counts: bool) -> None:
    rows = [f"at {step} of it".encode() for step in steps]
    (shape,) = shapes.line_shapes(rows, rows)
    assert (counters.counter(shape, slots.find_slots(shape)) is not None) is counts


def test_index_of_samples_grows_by_multiples_of_32() -> None:
    assert counters.is_samples(range(0, 6400, 64), 60_000)
    assert not counters.is_samples(range(0, 100, 10), 1000)


def test_time_of_day_in_the_place_of_an_epoch_is_no_fraction() -> None:
    """A damaged line moved it there: found by benchmarks/fuzz.py --seed 20261971."""
    assert not counters.has_fractions([b"1", b"10:00:00", b"2"])
    assert counters.has_fractions([b"1", b"10:00:00", b"1,000.5"])


@pytest.mark.parametrize(
    ("times", "rises"),
    [
        ((10, 71, 132, 193, 254, 10, 71, 133, 195, 257), True),
        ((10, 71, 132, 193, 254, 315), True),
        ((10, 10, 10, 40, 10, 10, 10, 10, 10, 10), False),
        ((10, 12, 11, 13, 10, 12, 11, 13, 12, 10), False),
    ],
    ids=["two runs", "one run", "slow step", "steps"],
)
def test_clock_of_a_run_begins_again_with_the_next(times: tuple[int, ...], rises: bool) -> None:
    assert counters.rises([str(time).encode() for time in times]) is rises
