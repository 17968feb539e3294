"""Curves as characters."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.live.series import CurveHistory, Points
from gputel.analysis.live.terminal import plots

BLANK = {" ", "⠀"}


def curve(*values: float, every: int = 1) -> Points:
    grown = CurveHistory()
    grown.add(np.arange(0, every * len(values), every, dtype=float), np.array(values, dtype=float))
    return grown.points()


def drawn(points: Points, width: int, height: int, share: float = 1.0, *, log: bool = False) -> list[str]:
    seen = plots.window([points], share, log=log)
    assert seen is not None
    return [text.plain for text in plots.plot([plots.PlotLine(points, "cyan")], seen, width, height)]


def test_falling_curve_goes_from_the_upper_left_to_the_lower_right() -> None:
    assert drawn(curve(3, 2, 1), 3, 2) == ["⠑⢄ ", "  ⠑"] or drawn(curve(3, 2, 1), 3, 2)[0][0] not in BLANK
    rows = drawn(curve(*range(100, 0, -1)), 20, 5)
    assert rows[0][0] not in BLANK
    assert rows[-1][-1] not in BLANK
    assert (rows[0][-1], rows[-1][0]) == (" ", " ")


def test_value_that_is_not_finite_leaves_a_gap() -> None:
    (row,) = drawn(curve(1, 1, math.nan, math.nan, math.nan, 1, 1), 14, 1)
    assert " " in row.strip()


def test_no_spike_is_lost_however_many_values_share_a_column() -> None:
    values = [1.0] * 1500 + [9.0] + [1.0] * 1500
    rows = drawn(curve(*values), 10, 4)
    assert any(cell not in BLANK for cell in rows[0])


def test_points_that_are_far_apart_are_joined() -> None:
    (row,) = drawn(curve(1, 1.0001, every=1000), 30, 1)
    assert len(row.strip()) == 30


def test_zoom_shows_the_last_steps() -> None:
    seen = plots.window([curve(*range(1000))], 0.05)
    assert seen is not None
    assert (seen.left, seen.right) == (999 * 0.95, 999)
    assert seen.bottom >= 949


def test_constant_curve_lies_between_its_half_and_its_double_on_a_log_scale_too() -> None:
    level, log = (plots.window([curve(1000.0, 1000.0)], log=log) for log in (False, True))
    assert level is not None
    assert log is not None
    assert (level.bottom, level.top) == (500, 1500)
    assert (round(math.exp(log.bottom)), round(math.exp(log.top))) == (500, 2000)


def test_curve_without_a_finite_value_is_not_drawn() -> None:
    assert plots.window([curve(math.nan, math.nan)]) is None
    assert plots.window([curve(-1.0, 0.0)], log=True) is None
    assert plots.window([]) is None


def test_strip_keeps_the_mean_of_those_that_share_a_cell() -> None:
    assert plots.strip([0, 1, 2, 3, 4, 5, 6, 7], 8, 0, 7.9) == plots.BLOCKS
    assert plots.strip([0, 0, 8, 8], 2, 0, 8) == "▁█"
    assert plots.strip([math.nan, 8], 4, 0, 8) == "   █"
    assert plots.strip([], 3, 0, 1) == "   "


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=1, max_size=300),
    st.integers(1, 60),
    st.integers(1, 12),
    st.sampled_from((1.0, 0.25, 0.05)),
    st.booleans(),
)
def test_plot_has_its_size_whatever_is_drawn(
    values: list[float], width: int, height: int, share: float, log: bool
) -> None:
    points = curve(*values)
    if plots.window([points], share, log=log) is not None:
        rows = drawn(points, width, height, share, log=log)
        assert [len(row) for row in rows] == [width] * height
    assert len(plots.strip(values, width, 0, 1)) == width
