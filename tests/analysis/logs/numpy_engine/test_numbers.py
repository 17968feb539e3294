"""Many long decimals are read at once as Python reads each, or not at all."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.logs.numpy_engine.numbers import HIGHEST_POWER, LARGEST, divided

FRACTIONS = st.tuples(st.integers(0, 2**63 - 1), st.integers(-2, HIGHEST_POWER + 2))


def in_the_middle(low: float) -> tuple[int, int]:
    """A decimal as near as can be to the middle between this float and the next."""
    middle = (Decimal(low) + Decimal(float(np.nextafter(low, np.inf)))) / 2
    power = 17 - middle.adjusted()
    return int(middle.scaleb(power)), power


@given(st.lists(FRACTIONS, min_size=1, max_size=50))
def test_certain_numbers_are_what_python_reads(fractions: list[tuple[int, int]]) -> None:
    _check(fractions)


@given(st.lists(st.floats(1e-5, 1e17).map(in_the_middle), min_size=1, max_size=50), st.integers(-1, 1))
def test_next_to_the_middle_between_two_floats_too(fractions: list[tuple[int, int]], beside: int) -> None:
    _check([(whole + beside, power) for whole, power in fractions])


def test_middle_itself_is_in_doubt() -> None:
    _, certain = divided(np.array([2**53 + 1, 10 * 2**53 + 10]), np.array([0, 1]))
    assert not certain.any()


@pytest.mark.parametrize(
    ("whole", "power"), [(LARGEST + 1, 0), (1, -1), (1, HIGHEST_POWER + 1)], ids=["whole", "below", "above"]
)
def test_number_out_of_reach_is_in_doubt(whole: int, power: int) -> None:
    _, certain = divided(np.array([whole]), np.array([power]))
    assert not certain.any()


def test_hardly_anything_that_is_printed_is_in_doubt() -> None:
    rng = np.random.default_rng(1)
    wholes, powers = rng.integers(10**16, 10**18, 10_000), rng.integers(8, HIGHEST_POWER, 10_000)
    assert divided(wholes, powers)[1].all()


def _check(fractions: list[tuple[int, int]]) -> None:
    wholes, powers = (np.array(column, dtype=np.int64) for column in zip(*fractions, strict=True))
    found, certain = divided(wholes, powers)
    expected = np.array([float(f"{whole}e{-power}") for whole, power in fractions])
    np.testing.assert_array_equal(found[certain], expected[certain])
