"""Power over time -> its spectrum, window by window: the frequency of steps, or of checkpoints.

Stretches of samples go in, in order, so that a day needs no more memory than ten minutes. Samples that are missing
are NaN: a window with too many of them stays empty. What lies above half the rate at which the sensor refreshes
is folded down from elsewhere and means nothing; a line says where that begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gputel.analysis.document import Heat, Level, Numbers, PlotAxis

MOST_COLUMNS = 480
MOST_ROWS = 160
KNOWN = 0.8  # of a window that must have been measured
BEYOND = 2.0  # times the sensor's limit, up to which the picture goes
RANGE_DB = 70.0  # below the strongest; what is weaker is drawn as weakest


@dataclass(frozen=True)
class SpectrumWindows:
    """`hz` of the samples; `start` and `end` in seconds; a silence longer than `longest_s` is a gap."""

    seconds: float
    hz: float
    start: float
    end: float
    longest_s: float

    @property
    def hop(self) -> float:
        """Windows overlap by seven eighths, or less where there would be more than anyone can see."""
        return max(self.seconds / 8, (self.end - self.start - self.seconds) / (MOST_COLUMNS - 1))

    @property
    def count(self) -> int:
        length = self.end - self.start - self.seconds
        return 0 if length < 0 else int(length / self.hop + 1e-9) + 1

    @property
    def samples(self) -> int:
        return round(self.seconds * self.hz)


def panel(
    name: str, title: str, stretches: Iterable[tuple[Numbers, Numbers]], windows: SpectrumWindows, x: PlotAxis,
    refresh_hz: float | None, link: str = "recording",
) -> Heat | None:  # fmt: skip
    """`stretches` are times in seconds and watts; None where not one window is full."""
    highest = windows.hz / 2
    limit = refresh_hz / 2 if refresh_hz else None
    if limit:
        highest = min(highest, BEYOND * limit)
    columns = [_decibels(samples, windows, highest) for samples in _each(stretches, windows)]
    if not columns or not any(np.isfinite(column).any() for column in columns):
        return None
    values = np.stack(columns, axis=1)
    values = np.maximum(values, np.nanmax(values) - RANGE_DB)
    center = windows.start + windows.seconds / 2 + windows.hop * np.arange(len(columns) + 1)
    return Heat(
        name,
        title,
        x,
        PlotAxis("frequency", "frequency", "Hz"),
        PlotAxis("density", "power density", "dB (W²/Hz)"),
        np.round(center - windows.hop / 2, 3),
        np.linspace(0, highest, values.shape[0] + 1),
        values,
        levels=(_limit(refresh_hz),) if refresh_hz and limit and limit < highest else (),
        link=link,
    )


def _limit(refresh_hz: float) -> Level:
    text = f"above {refresh_hz / 2:.2f} Hz aliased: the sensor refreshes at {refresh_hz:.1f} Hz"
    return Level(refresh_hz / 2, text)


def _each(stretches: Iterable[tuple[Numbers, Numbers]], windows: SpectrumWindows) -> Iterator[Numbers]:
    """The samples of each window on an even grid, each held until the next; in a gap of the sampling, NaN."""
    times, watts = np.zeros(0), np.zeros(0)
    done = 0
    for more_times, more_watts in stretches:
        times, watts = np.concatenate([times, more_times]), np.concatenate([watts, more_watts])
        while (
            done < windows.count
            and len(times)
            and times[-1] >= windows.start + done * windows.hop + windows.seconds
        ):
            yield _on_grid(times, watts, windows, done)
            done += 1
        kept = np.searchsorted(times, windows.start + done * windows.hop - windows.longest_s)
        times, watts = times[kept:], watts[kept:]
    for number in range(done, windows.count):
        yield _on_grid(times, watts, windows, number)


def _on_grid(times: Numbers, watts: Numbers, windows: SpectrumWindows, number: int) -> Numbers:
    start = windows.start + number * windows.hop
    grid = start + np.arange(windows.samples) / windows.hz
    if not len(times):
        return np.full(len(grid), np.nan)
    place = np.searchsorted(times, grid + 0.25 / windows.hz, side="right") - 1
    alone = np.append(np.diff(times) > windows.longest_s, True)
    begun = np.maximum(place, 0)
    held = (place >= 0) & (~alone[begun] | (grid - times[begun] < 1 / windows.hz))
    return np.where(held, watts[begun], np.nan)


def _decibels(samples: Numbers, windows: SpectrumWindows, highest: float) -> Numbers:
    """The power spectral density of what the samples do around their mean, in rows of equal width."""
    frequencies = np.fft.rfftfreq(len(samples), 1 / windows.hz)
    wanted = int(np.searchsorted(frequencies, highest, side="right")) - 1
    rows = max(1, min(MOST_ROWS, wanted))
    known = np.isfinite(samples)
    if known.mean() < KNOWN:
        return np.full(rows, np.nan)
    around = np.where(known, samples - samples[known].mean(), 0.0)
    taper = np.hanning(len(samples))
    spectrum = np.abs(np.fft.rfft(around * taper)) ** 2 * 2 / (windows.hz * (taper**2).sum())
    edges = np.linspace(1, wanted + 1, rows + 1).astype(int)
    density = np.add.reduceat(spectrum[: edges[-1]], edges[:-1]) / np.diff(edges)
    with np.errstate(divide="ignore"):
        decibels: Numbers = 10 * np.log10(density)
    return np.where(np.isfinite(decibels), decibels, -300.0)
