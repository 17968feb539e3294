"""Figures that are printed in full and rounded."""

from __future__ import annotations

import math

import pytest

from gputel.analysis.logs.rounding import decimals, is_of


@pytest.mark.parametrize(
    ("loss", "rounded", "is_one"),
    [
        (0.97, 1.0, True),
        (0.75, 1.0, False),  # too far from it
        (2.814, 2.81, True),
        (2.81, 2.814, False),  # has fewer digits
        (2.816, 2.81, False),
        (2.81455, 2.8145, True),  # of 2.814548
        (2.81455, 2.8146, True),
        (1.234e-7, 1.23e-7, True),
        (1.238e-7, 1.23e-7, False),
        (math.nan, 1.0, False),
        (math.inf, 1.0, False),
    ],
)
def test_figure_is_told_from_its_rounded_form(loss: float, rounded: float, is_one: bool) -> None:
    assert is_of(loss, rounded) == is_one


@pytest.mark.parametrize(("value", "digits"), [(2.81455, 5), (2.0, 0), (2.5e-6, 7), (1e22, 0)])
def test_digits_behind_the_point_are_counted(value: float, digits: int) -> None:
    assert decimals(value) == digits
