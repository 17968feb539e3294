"""Curves in bounded memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.live.series import CurveHistory


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=300), st.integers(1, 40))
def test_series_keeps_every_extreme_and_the_last_step(values: list[float], piece: int) -> None:
    curve = CurveHistory(most=8)
    for at in range(0, len(values), piece):
        some = np.array(values[at : at + piece], dtype=np.float64)
        curve.add(np.arange(at, at + len(some), dtype=np.float64), some)
    points = curve.points()
    finite = [value for value in values if np.isfinite(value)]
    assert len(points.step) <= 8
    assert (np.diff(points.step) > 0).all()
    if finite:
        assert np.nanmin(points.least) == min(finite)
        assert np.nanmax(points.largest) == max(finite)
    if values:
        assert points.step[-1] == len(values) - 1


def test_steps_that_start_again_replace_the_old_ones() -> None:
    curve = CurveHistory()
    curve.add(np.arange(10.0), np.arange(10.0))
    curve.cut(6)
    curve.add(np.array([6.0]), np.array([100.0]))
    assert curve.points().mean.tolist() == [0, 1, 2, 3, 4, 5, 100]


def test_mean_of_a_point_is_that_of_all_its_values() -> None:
    series = CurveHistory(most=4)
    series.add(np.arange(16.0), np.arange(16.0))
    points = series.points()
    assert points.mean.tolist() == [1.5, 5.5, 9.5, 13.5]
    assert points.step.tolist() == [3, 7, 11, 15]


def test_point_without_a_finite_value_is_a_gap() -> None:
    series = CurveHistory()
    series.add(np.arange(3.0), np.array([1.0, np.nan, 2.0]))
    points = series.points()
    assert [np.isnan(column[1]) for column in (points.least, points.mean, points.largest)] == [True] * 3
