"""Which frequencies are in the power of a run, window by window."""

import math
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis import runs
from gputel.analysis.document import Heat, Numbers, PlotAxis
from gputel.analysis.documents.panels import spectrogram
from gputel.analysis.documents.panels.spectrogram import LowPass, SpectrumWindows, StepRhythm
from gputel.analysis.documents.report import report_document
from gputel.analysis.report.run_report import make_report

HZ = 100.0
TIME = PlotAxis("time", "time", "s")


def drawn(
    times: Numbers, watts: Numbers, refresh_hz: float | None = 10.0, seconds: float = 60.0
) -> Heat | None:
    windows = SpectrumWindows(seconds, HZ, 0.0, 180.0, 1.0)
    heat = spectrogram.panel("s", "S", [(times, watts)], windows, TIME, refresh_hz)
    assert not isinstance(heat, str)
    return heat


def wave(hz: float) -> tuple[Numbers, Numbers]:
    times = np.arange(0, 180, 1 / HZ)
    return times, 500 + 100 * np.sin(2 * np.pi * hz * times)


@pytest.mark.parametrize("hz", [0.5, 2.0, 7.3])
def test_rhythm_stands_in_the_row_of_its_frequency(hz: float) -> None:
    heat = drawn(*wave(hz))
    assert isinstance(heat, Heat)
    strongest = heat.values.argmax(axis=0)
    assert (heat.y_edges[strongest] <= hz + 1e-9).all()
    assert (hz < heat.y_edges[strongest + 1] + 0.02).all()


def test_line_of_aliasing_stands_at_half_the_rate_of_the_sensor() -> None:
    heat = drawn(*wave(2.0), refresh_hz=9.9)
    assert isinstance(heat, Heat)
    assert [(round(level.value, 2), level.text) for level in heat.levels] == [
        (4.95, "above 4.95 Hz aliased: the sensor refreshes at 9.9 Hz")
    ]
    assert heat.y_edges[-1] == pytest.approx(9.9)


def test_sensor_whose_rate_is_not_known_has_no_line() -> None:
    heat = drawn(*wave(2.0), refresh_hz=None)
    assert isinstance(heat, Heat)
    assert heat.levels == ()


def test_window_with_a_hole_is_empty_and_no_other_is() -> None:
    times, watts = wave(2.0)
    kept = (times < 20) | (times > 80)
    heat = drawn(times[kept], watts[kept])
    assert isinstance(heat, Heat)
    starts = heat.x_edges[:-1] + (heat.x_edges[1] - heat.x_edges[0]) / 2 - 30
    missing = np.clip(np.minimum(starts + 60, 80) - np.maximum(starts, 20), 0, None) / 60
    empty = np.asarray(np.isnan(heat.values).all(axis=0))
    assert empty[missing > 0.21].all()
    assert not empty[missing < 0.19].any()


def test_stretch_that_was_not_measured_has_no_sample() -> None:
    times, watts = wave(2.0)
    watts[::50] = np.nan
    heat = drawn(times, watts)
    assert isinstance(heat, Heat)
    assert np.isfinite(heat.values).all()


def test_run_shorter_than_a_window_has_no_spectrogram() -> None:
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
    assert isinstance(pieces, Heat)
    assert np.allclose(whole.values, pieces.values)


def rhythm(hz: float, polled_hz: float, minutes: float = 30) -> tuple[Numbers, Numbers]:
    """Steps of a square wave: its harmonics reach far above what one reading a second can show."""
    times = np.arange(0, 60 * minutes, 1 / polled_hz)
    return times, np.where((times * hz) % 1 < 0.8, 560.0, 120.0)


def peaks(heat: Heat) -> list[float]:
    """The frequencies of rows that stand 15 dB above the middle of the picture, as a mean over time."""
    drawn = np.flatnonzero(np.isfinite(heat.values).any(axis=1))
    level = np.nanmean(heat.values[drawn], axis=1)
    return [float(heat.y_edges[row]) for row in drawn[level > np.median(level) + 15]]


def test_steps_of_0_82_hz_have_no_aliases_in_the_picture_of_ten_minutes() -> None:
    windows = SpectrumWindows(600.0, 1.0, 0.0, 1800.0, 1.0)
    thinned = LowPass(10.0, 1.0)
    times, watts = rhythm(0.82, 10.0)
    watts += np.where((times % 50) < 5, -200.0, 0.0)  # an evaluation every 50 s: 0.02 Hz and its harmonics
    list(thinned.through([(times[:7000], watts[:7000]), (times[7000:], watts[7000:])]))
    heat = spectrogram.panel("s", "S", thinned.series(), windows, TIME, 10.0, highest=spectrogram.PASS_HZ)
    assert isinstance(heat, Heat)
    found = peaks(heat)
    assert found
    assert all(min(hz % 0.02, -hz % 0.02) < 0.006 for hz in found)


def test_readings_of_one_a_second_leave_out_where_the_steps_would_appear() -> None:
    times, watts = rhythm(0.82, 1.0)
    windows = SpectrumWindows(600.0, 1.0, 0.0, 1800.0, 2.0)
    aliases = spectrogram.step_aliases(StepRhythm(1 / 0.82), 1.0, 600.0)
    with_aliases = spectrogram.panel("s", "S", [(times, watts)], windows, TIME, None)
    heat = spectrogram.panel("s", "S", [(times, watts)], windows, TIME, None, aliases=aliases)
    assert isinstance(with_aliases, Heat)
    assert any(abs(hz - 0.18) < 0.01 for hz in peaks(with_aliases))
    assert isinstance(heat, Heat)
    share = np.isnan(heat.values).all(axis=1).mean()
    assert f"{math.ceil(100 * share)} % of the frequencies are left out: the steps (0.82 Hz)" in heat.note
    assert np.isnan(heat.values[(heat.y_edges[:-1] > 0.176) & (heat.y_edges[1:] < 0.184)]).all()


@pytest.mark.parametrize("scatter", [0.0002, 0.001, 0.003, 0.01])
def test_no_harmonic_of_even_steps_is_left_at_one_reading_a_second(scatter: float) -> None:
    """Power falls for a third of each step; it also rises and falls in 18 s, a rhythm that stays."""
    chance = np.random.default_rng(7)
    each = 0.9 * (1 + scatter * chance.standard_normal(3600))
    each[::250] += 20
    ends = np.cumsum(each)
    times = np.arange(0.3, 3300.0)
    step = np.searchsorted(ends, times)
    watts = np.where(times - (ends - each)[step] < 0.6, 650.0, 300.0) + 5 * chance.standard_normal(len(times))
    watts += 100 * np.sin(2 * np.pi * times / 18)
    rhythm = spectrogram.step_rhythm(0.9, ends, each, 600.0)
    windows = SpectrumWindows(600.0, 1.0, 0.0, 3300.0, 2.0)
    aliases = spectrogram.step_aliases(rhythm, 1.0, 600.0)
    heat = spectrogram.panel("s", "S", [(times, watts)], windows, TIME, None, aliases=aliases)
    assert isinstance(heat, Heat)
    found = [hz for hz in peaks(heat) if hz > 0.01]  # below it is the pause every 250 steps
    assert found
    assert all(abs(hz - 1 / 18) < 0.006 for hz in found)


def test_picture_with_nothing_left_says_why_it_is_absent() -> None:
    times, watts = rhythm(0.82, 1.0)
    windows = SpectrumWindows(600.0, 1.0, 0.0, 1800.0, 2.0)
    everywhere = spectrogram.Aliases(0.82, ((0.0, 0.5),))
    why = spectrogram.panel("s", "S", [(times, watts)], windows, TIME, None, aliases=everywhere)
    assert isinstance(why, str)
    assert why.startswith("S: nothing is left. 100 % of the frequencies are left out: the steps (0.82 Hz)")


def test_picture_of_few_rows_between_those_left_out_is_absent() -> None:
    """A fifth of the rows would stand as bright stripes: what is beside a line, not a rhythm."""
    times, watts = rhythm(0.82, 1.0)
    windows = SpectrumWindows(600.0, 1.0, 0.0, 1800.0, 2.0)
    most = spectrogram.Aliases(0.82, ((0.0, 0.12), (0.15, 0.3), (0.34, 0.46)))
    why = spectrogram.panel("s", "S", [(times, watts)], windows, TIME, None, aliases=most)
    assert isinstance(why, str)
    assert why.startswith("S: too little is left. ")


def test_readings_that_are_fast_enough_leave_out_nothing() -> None:
    assert spectrogram.step_aliases(StepRhythm(1 / 0.82), 100.0, 60.0) is None


def spectra(folder: Path, step_s: float | None) -> dict[str, Heat]:
    """The spectra of a table of two readings a second, beside a log whose steps take so long, or alone."""
    start = datetime(2026, 3, 1, 10)
    table, log = folder / "gpu.csv", folder / "train.log"
    times, watts = rhythm(0.82, 2.0, 12)
    rows = [
        f"{start + timedelta(seconds=float(at)):%Y/%m/%d %H:%M:%S.%f}, 0, {power} W"
        for at, power in zip(times, watts, strict=True)
    ]
    table.write_text("\n".join(["timestamp, index, power.draw [W]", *rows]) + "\n")
    if step_s:
        stamps = [start + timedelta(seconds=step_s * step) for step in range(1, int(720 / step_s))]
        log.write_text(
            "\n".join(
                f"[{stamp:%Y-%m-%d %H:%M:%S.%f}] step {step:05d} | loss: 3.0 | dt: {1000 * step_s:.2f}ms"
                for step, stamp in enumerate(stamps)
            )
        )
    subject = runs.from_table_and_log(table, log, 0.0) if step_s else runs.read_run(table)
    document = report_document(make_report(subject), panels=True)
    panels = [item for section in document.sections for item in section.items if isinstance(item, Heat)]
    return {panel.name: panel for panel in panels if panel.name.startswith("spectrogram")}


def test_low_pass_does_not_hide_what_two_readings_a_second_folded_down(tmp_path: Path) -> None:
    """The second harmonic of 0.82 Hz, 1.64 Hz, is read as 0.36 Hz."""
    heat = spectra(tmp_path, 1 / 0.82)["spectrogram-10min"]
    share = np.isnan(heat.values).all(axis=1).mean()
    assert f"{math.ceil(100 * share)} % of the frequencies are left out: the steps (0.82 Hz)" in heat.note
    assert np.isnan(heat.values[(heat.y_edges[:-1] > 0.35) & (heat.y_edges[1:] < 0.37)]).all()
    assert np.isfinite(heat.values[heat.y_edges[1:] < 0.05]).all()


def test_readings_without_a_log_say_that_a_rhythm_may_be_another(tmp_path: Path) -> None:
    notes = {heat.note for heat in spectra(tmp_path, None).values()}
    assert [note.split(":")[0] for note in notes] == ["The time of a step is not known"]
