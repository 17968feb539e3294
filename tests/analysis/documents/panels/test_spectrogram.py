"""Which frequencies are in the power of a run, window by window."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.document import Heat, Numbers, PlotAxis
from gputel.analysis.documents.panels import spectrogram
from gputel.analysis.documents.panels.spectrogram import SpectrumWindows

HZ = 100.0
TIME = PlotAxis("time", "time", "s")


def drawn(
    times: Numbers, watts: Numbers, refresh_hz: float | None = 10.0, seconds: float = 60.0
) -> Heat | None:
    windows = SpectrumWindows(seconds, HZ, 0.0, 180.0, 1.0)
    return spectrogram.panel("s", "S", [(times, watts)], windows, TIME, refresh_hz)


def wave(hz: float) -> tuple[Numbers, Numbers]:
    times = np.arange(0, 180, 1 / HZ)
    return times, 500 + 100 * np.sin(2 * np.pi * hz * times)


@pytest.mark.parametrize("hz", [0.5, 2.0, 7.3])
def test_a_rhythm_stands_in_the_row_of_its_frequency(hz: float) -> None:
    heat = drawn(*wave(hz))
    assert heat is not None
    strongest = heat.values.argmax(axis=0)
    assert (heat.y_edges[strongest] <= hz + 1e-9).all()
    assert (hz < heat.y_edges[strongest + 1] + 0.02).all()


def test_the_line_of_aliasing_stands_at_half_the_rate_of_the_sensor() -> None:
    heat = drawn(*wave(2.0), refresh_hz=9.9)
    assert heat is not None
    assert [(round(level.value, 2), level.text) for level in heat.levels] == [
        (4.95, "above 4.95 Hz aliased: the sensor refreshes at 9.9 Hz")
    ]
    assert heat.y_edges[-1] == pytest.approx(9.9)


def test_a_sensor_whose_rate_is_not_known_has_no_line() -> None:
    heat = drawn(*wave(2.0), refresh_hz=None)
    assert heat is not None
    assert heat.levels == ()


def test_a_window_with_a_hole_is_empty_and_no_other_is() -> None:
    times, watts = wave(2.0)
    kept = (times < 20) | (times > 80)
    heat = drawn(times[kept], watts[kept])
    assert heat is not None
    starts = heat.x_edges[:-1] + (heat.x_edges[1] - heat.x_edges[0]) / 2 - 30
    missing = np.clip(np.minimum(starts + 60, 80) - np.maximum(starts, 20), 0, None) / 60
    empty = np.asarray(np.isnan(heat.values).all(axis=0))
    assert empty[missing > 0.21].all()
    assert not empty[missing < 0.19].any()


def test_what_was_not_measured_is_no_sample() -> None:
    times, watts = wave(2.0)
    watts[::50] = np.nan
    heat = drawn(times, watts)
    assert heat is not None
    assert np.isfinite(heat.values).all()


def test_what_is_shorter_than_a_window_has_no_spectrogram() -> None:
    times, watts = wave(2.0)
    assert drawn(times[:1000], watts[:1000]) is None
    assert spectrogram.panel("s", "S", [], SpectrumWindows(60, HZ, 0, 30, 1), TIME, None) is None


@given(st.lists(st.integers(0, 18_000), max_size=6))
def test_samples_may_come_cut_anywhere(cuts: list[int]) -> None:
    times, watts = wave(3.0)
    parts = list(zip(np.split(times, sorted(cuts)), np.split(watts, sorted(cuts)), strict=True))
    windows = SpectrumWindows(60.0, HZ, 0.0, 180.0, 1.0)
    whole, pieces = drawn(times, watts), spectrogram.panel("s", "S", parts, windows, TIME, 10.0)
    assert whole is not None
    assert pieces is not None
    assert np.allclose(whole.values, pieces.values)
