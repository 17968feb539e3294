"""Fewer points, and not one extreme lost."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.document import Curves, Numbers, PlotAxis, Series
from gputel.analysis.render import downsample

values = st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(float("nan"))), min_size=1, max_size=400)


def series(y: Numbers) -> Series:
    return Series("a", {"step": np.arange(len(y), dtype=float)}, y)


@given(values, st.integers(1, 100))
def test_every_extreme_is_kept_and_nothing_grows(y: list[float], points: int) -> None:
    whole = np.array(y)
    thinned = downsample.thinned(series(whole), points)
    low, high = (thinned.y if end is None else end for end in (thinned.low, thinned.high))
    assert len(thinned.y) == min(points, len(y))
    assert thinned.count == len(y)
    if not np.isnan(whole).all():
        assert (np.nanmin(low), np.nanmax(high)) == (np.nanmin(whole), np.nanmax(whole))


@given(values, st.integers(1, 100))
def test_point_lies_between_its_extremes_and_points_stay_in_order(y: list[float], points: int) -> None:
    thinned = downsample.thinned(series(np.array(y)), points)
    assert (np.diff(thinned.x["step"]) > 0).all()
    if thinned.low is not None and thinned.high is not None:
        known = ~np.isnan(thinned.y)
        off = 1e-9 * (1 + np.abs(thinned.y[known]))
        assert (thinned.low[known] <= thinned.y[known] + off).all()
        assert (thinned.y[known] - off <= thinned.high[known]).all()


def test_mean_of_stretches_of_one_length_is_the_mean_of_all() -> None:
    y = np.random.default_rng(1).normal(size=12_000)
    assert np.isclose(downsample.thinned(series(y), 400).y.mean(), y.mean())


def test_stretch_without_a_value_stays_without_one() -> None:
    thinned = downsample.thinned(series(np.array([1.0, 2.0, np.nan, np.nan])), 2)
    assert thinned.y[0] == 1.5
    assert np.isnan(thinned.y[1])


def test_extremes_of_what_was_thinned_before_are_those_of_all_of_it() -> None:
    given = Series(
        "a",
        {"step": np.arange(4.0)},
        np.ones(4),
        np.array([0, 1, 1, -5.0]),
        np.array([1, 9.0, 1, 1]),
        measured=400,
    )
    thinned = downsample.thinned(given, 2)
    assert thinned.low is not None
    assert thinned.high is not None
    assert (thinned.low.tolist(), thinned.high.tolist(), thinned.count) == ([0, -5], [9, 1], 400)


def test_long_curves_share_what_short_ones_leave() -> None:
    def panel(*lengths: int) -> Curves:
        own = tuple(series(np.zeros(length)) for length in lengths)
        return Curves("a", "A", (PlotAxis("step", "step"),), PlotAxis("a", "a"), own)

    (kept,) = downsample.curves([panel(100, 30_000, 60_000)], budget=40_100)
    assert [len(own.y) for own in kept.series] == [100, 6_666, 6_666]
    (kept,) = downsample.curves([panel(100, 15_000, 60_000)], budget=40_100)
    assert [len(own.y) for own in kept.series] == [100, 15_000, 8_333]


def test_curve_on_two_panels_counts_once_and_is_one_object() -> None:
    own = series(np.zeros(30_000))
    panels = [
        Curves(name, name, (PlotAxis("step", "step"),), PlotAxis("a", "a"), (own,)) for name in ("a", "b")
    ]
    first, second = downsample.curves(panels, budget=30_000)
    assert len(first.series[0].y) == 30_000
    assert first.series[0] is second.series[0]


def test_curve_that_is_shown_when_asked_for_has_fewer_points_and_its_extremes() -> None:
    y = np.zeros(5000)
    y[1234] = 915.0
    seen = Series("mean", {"time": np.arange(5000.0)}, y)
    axes = (PlotAxis("time", "time", "s"),), PlotAxis("power", "Power", "W")
    panel = Curves("power", "Power", *axes, (seen, replace(seen, shown=False)))
    (thinned,) = downsample.curves([panel])
    mean, single = thinned.series
    assert (len(mean.y), len(single.y), single.count) == (5000, downsample.UNSEEN, 5000)
    assert single.high is not None
    assert np.nanmax(single.high) == 915.0
