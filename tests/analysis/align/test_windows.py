"""Ticks of one GPU over windows of time."""

from __future__ import annotations

import numpy as np
import pytest

from gputel.analysis.align import windows
from gputel.analysis.align.windows import until_next

SECOND = 1_000_000_000


def times(*seconds: float) -> windows.Moments:
    return (np.array(seconds) * SECOND).astype(np.int64)


def test_silence_longer_than_ten_polls_and_a_second_is_a_gap() -> None:
    assert windows.longest_silence_ns(SECOND // 100) == SECOND
    assert windows.longest_silence_ns(SECOND) == 10 * SECOND
    assert windows.gaps(times(0, 0.1, 0.2, 3, 3.1)).after.tolist() == [False, False, True, False]


def test_rows_at_a_rate_below_1_hz_to_which_the_recorder_went_down_are_no_gaps() -> None:
    moments = times(*np.arange(0, 20, 0.01), *np.arange(20, 60, 2.0), 100, *np.arange(100.01, 120, 0.01))
    after = windows.gaps(moments)
    assert np.flatnonzero(after.after).tolist() == [2019]
    seconds, ticks = np.unique(moments // SECOND, return_counts=True)
    between = windows.gaps_between(seconds * SECOND, ticks, SECOND).after
    assert (seconds[:-1][between] == 58).all()
    assert between.sum() == 1


@pytest.mark.parametrize("hz", [0.9, 0.5, 0.1, 0.02])
def test_recording_below_1_hz_has_no_gaps_but_where_rows_are_missing(hz: float) -> None:
    moments = times(*np.delete(np.arange(100), range(40, 60)) / hz)
    assert np.flatnonzero(windows.gaps(moments).after).tolist() == [39]
    whole = moments // SECOND * SECOND
    between = windows.gaps_between(whole, np.ones(len(whole), np.int64), SECOND).after
    assert np.flatnonzero(between).tolist() == [39]


def test_two_stalls_in_a_row_are_gaps() -> None:
    moments = times(*np.arange(0, 5, 0.01), 9, 14, *np.arange(14.01, 20, 0.01))
    assert windows.gaps(moments).after.sum() == 2


def test_tick_before_a_gap_holds_for_one_usual_poll() -> None:
    holds = until_next(times(0, 1, 2, 20, 21))
    assert (holds.ends - holds.times).tolist() == [SECOND] * 5


def test_mean_is_weighted_by_the_time_that_a_value_holds() -> None:
    over = until_next(times(0, 1, 3)).over(times(0), times(3))
    assert over.mean(np.array([100.0, 400.0, 0.0])).tolist() == [300]
    assert over.peak(np.array([100.0, 400.0, 900.0])).tolist() == [400]


def test_window_without_samples_is_nan() -> None:
    over = until_next(times(0, 1)).over(times(50), times(60))
    assert np.isnan(over.mean(np.array([100.0, 100.0]))).all()


def test_counter_that_never_changes_has_no_energy() -> None:
    moments = times(0, 1, 2)
    power = np.full(3, 100.0)
    joules = windows.used(np.full(3, 5.0), moments, power, until_next(moments), times(0), times(2))
    assert np.isnan(joules).all()


def test_counter_is_interpolated_within_a_window() -> None:
    moments = times(0, 1, 2, 3)
    power = np.full(4, 100.0)
    counter = np.array([0.0, 100, 200, 300])
    joules = windows.used(counter, moments, power, until_next(moments), times(1.5), times(2.5))
    assert joules == pytest.approx([100])


def test_sampling_error_is_of_power_that_jumps_from_reading_to_reading() -> None:
    """Power of 600 W that falls to 100 W for a fifth of the time, at random, read once a second for 1000 s."""
    generator = np.random.default_rng(0)
    over = until_next(times(*np.arange(1000.0))).over(times(0), times(1000))
    jumping = np.where(generator.random((200, 1000)) < 0.2, 100.0, 600.0)
    errors = np.array([over.integral(watts)[0][0] - 500_000 for watts in jumping])
    stated = np.array([over.sampling_error(watts)[0] for watts in jumping])
    assert errors.std() == pytest.approx(stated.mean(), rel=0.15)


def test_sampling_error_is_small_of_power_that_changes_once_or_slowly() -> None:
    over = until_next(times(*np.arange(100.0))).over(times(0), times(100))
    assert over.sampling_error(np.full(100, 9.0))[0] == 0
    assert over.sampling_error(np.repeat([100.0, 600.0], 50))[0] < 500
    assert over.sampling_error(np.linspace(100, 600, 100))[0] < 50


@pytest.mark.parametrize("repeated", [1, 30])
def test_error_of_a_mean_holds_the_truth_in_nine_of_ten_cases_of_12_readings(repeated: int) -> None:
    """Utilization of 67 % in the mean, read every 3 s, in rows that may repeat a reading."""
    generator = np.random.default_rng(0)
    over = until_next(times(*np.arange(0, 36, 3 / repeated))).over(times(0), times(36))
    readings = generator.normal(67, 20, (300, 12)).round(3).repeat(repeated, axis=1)
    held = [abs(over.mean(row)[0] - 67) < 1.645 * over.mean_error(row)[0] for row in readings]
    assert 0.8 <= np.mean(held) <= 0.95


def test_error_of_a_mean_without_readings_is_unknown() -> None:
    over = until_next(times(0, 1, 2)).over(times(0), times(3))
    assert np.isnan(over.mean_error(np.full(3, np.nan))[0])
    assert over.mean_error(np.array([np.nan, 50, 50]))[0] == 0
