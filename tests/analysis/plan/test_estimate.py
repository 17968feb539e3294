"""Figures with ranges: what becomes of doubt and of origins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.plan.estimate import Estimate, assumed, computed, measured, sum_of_independent

positive = st.floats(1e-3, 1e6)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, value, high = sorted(draw(st.tuples(positive, positive, positive)))
    return Estimate(value, low, high, draw(st.sampled_from(["computed", "measured", "assumed"])), ("x",))


@given(estimates(), estimates())
def test_computed_figure_lies_in_its_own_range(one: Estimate, other: Estimate) -> None:
    for found in (one * other, one / other, one + other, 3 * one, 3 / one, sum_of_independent([one, other])):
        slack = 1e-9 * found.high
        assert found.low - slack <= found.value <= found.high + slack


@given(estimates(), estimates())
def test_independent_doubts_widen_a_sum_less_than_all_of_them_at_once(one: Estimate, other: Estimate) -> None:
    careful, both = sum_of_independent([one, other]), one + other
    slack = 1e-9 * both.high
    assert both.low - slack <= careful.low
    assert careful.high <= both.high + slack


def test_most_doubtful_part_gives_the_origin_and_its_sources_alone() -> None:
    known, seen, guessed = computed(2, "shape"), measured(3, "run a"), assumed(4, 3, 5, "habit")
    assert (known * seen).origin == "measured"
    assert (known * seen).sources == ("run a",)
    assert (known * seen * guessed).sources == ("habit",)
    assert (known * 2).sources == ("shape",)
    assert computed(1).sources == ("the question",)


def test_figure_that_follows_from_the_question_stays_whole() -> None:
    tokens = computed(12_800) * 524_288
    assert tokens.value == 6_710_886_400
    assert isinstance(tokens.value, int)
    assert not tokens.is_range


@pytest.mark.parametrize("gpus", [1, 8])
def test_range_keeps_its_shape_when_it_is_scaled(gpus: int) -> None:
    scaled = assumed(10, 8, 15, "habit") * gpus
    assert (scaled.low, scaled.value, scaled.high) == (8 * gpus, 10 * gpus, 15 * gpus)
