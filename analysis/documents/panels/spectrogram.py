"""Power over time -> its spectrum, window by window: the frequency of steps, or of checkpoints.

Stretches of samples go in, in order, so that a day needs no more memory than ten minutes. Samples that are missing
are NaN: a window with too many of them stays empty. What lies above half the rate at which the sensor refreshes
is folded down from elsewhere and means nothing; a line says where that begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gputel.analysis.document import Heat, Level, Numbers, PlotAxis

MOST_COLUMNS = 480
MOST_ROWS = 160
KNOWN = 0.8  # share of a window that must have been measured
BEYOND = 2.0  # times the sensor's limit, up to which the picture goes
KERNEL_S = 8  # seconds of ticks behind one value of a thinned series
PASS_HZ, CUT_HZ = 0.4, 0.45  # of a series thinned to one value a second: passed, and half passed
FEWEST_HARMONICS, MOST_HARMONICS = 6, 20  # of steps: those of even steps stay sharp lines for long
UNEVEN = 0.01  # relative width of a rhythm whose steps are not known one by one
PRECISE = 0.001  # relative width of one that does not change
USUAL = 1.5  # times the median step, at most: what is longer holds a pause
SKIRT = 6  # cycles in a window: how far beside its band a line may have skirts
SKIRT_DB = 6.0  # by which they stand out of the other rows
LEAST_LEFT = 0.25  # of the frequencies: fewer rows between those left out look like rhythms of their own
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
    refresh_hz: float | None, link: str = "recording", *, highest: float | None = None,
    aliases: Aliases | None = None,
) -> Heat | str | None:  # fmt: skip
    """`stretches` are times in seconds and watts; None where not one window is full, why where too little is left.

    `highest` is the highest frequency drawn, else half the rate; `aliases` are left out.
    """
    highest = highest or windows.hz / 2
    limit = refresh_hz / 2 if refresh_hz else None
    if limit:
        highest = min(highest, BEYOND * limit)
    columns = [_decibels(samples, windows, highest) for samples in _each(stretches, windows)]
    if not columns or not any(np.isfinite(column).any() for column in columns):
        return None
    values = np.stack(columns, axis=1)
    edges = np.linspace(0, highest, values.shape[0] + 1)
    if aliases and aliases.bands:
        values[_rows_of(aliases, edges, np.nanmean(values, axis=1), SKIRT / windows.seconds)] = np.nan
    left = float(np.isfinite(values).any(axis=1).mean())
    if left < LEAST_LEFT:
        return f"{title}: {'too little' if left else 'nothing'} is left. {_left_out(aliases, left)}"
    values = np.maximum(values, np.nanmax(values) - RANGE_DB)
    center = windows.start + windows.seconds / 2 + windows.hop * np.arange(len(columns) + 1)
    return Heat(
        name,
        title,
        x,
        PlotAxis("frequency", "frequency", "Hz"),
        PlotAxis("density", "power density", "dB (W²/Hz)"),
        np.round(center - windows.hop / 2, 3),
        edges,
        values,
        levels=(_limit(refresh_hz),) if refresh_hz and limit and limit < highest else (),
        note=_left_out(aliases, left),
        link=link,
    )


def _rows_of(aliases: Aliases, edges: Numbers, level: Numbers, skirt: float) -> npt.NDArray[np.bool_]:
    """Returns the rows of the bands, and those beside them that stand out: the skirts of a line."""
    lows, highs = edges[:-1], edges[1:]
    bands = [(highs > low) & (lows < high) for low, high in aliases.bands]
    inside: npt.NDArray[np.bool_] = np.logical_or.reduce(bands)
    others = level[~inside & np.isfinite(level)]
    if not len(others):
        return inside
    stands_out = level > np.median(others) + SKIRT_DB
    for (low, high), band in zip(aliases.bands, bands, strict=True):
        reach = max(skirt, (high - low) / 2)
        near = (highs > low - reach) & (lows < high + reach) & stands_out
        rows = np.flatnonzero(band)
        if len(rows):
            above, below = near[rows[-1] + 1 :], near[: rows[0]][::-1]
            inside[rows[-1] + 1 :] |= np.logical_and.accumulate(above)
            inside[: rows[0]] |= np.logical_and.accumulate(below)[::-1]
    return inside


def _left_out(aliases: Aliases | None, left: float) -> str:
    """Says why frequencies are left out, of which this share is `left`, and how to have them."""
    if aliases is None:
        return ""
    if aliases.rhythm_hz is None:
        return (
            "The time of a step is not known: a line here may be that of steps which are too fast for these "
            "readings, and appear at a lower frequency than theirs."
        )
    return (
        f"{_percent(1 - left)} of the frequencies are left out: the steps ({aliases.rhythm_hz:.2f} Hz) and their "
        "harmonics would appear there, as they are too fast for these readings, and no other rhythm can be "
        "distinguished from them. Faster readings leave out less."
    )


def _percent(share: float) -> str:
    """Rounds a share up, but never to all: 99.6 % of it is 99 %."""
    return f"{min(math.ceil(100 * share), 99 if share < 1 else 100)} %"


@dataclass(frozen=True)
class Aliases:
    """Frequencies that a rhythm of the run may be folded down to, as it is too fast for the readings.

    None of a rhythm that is not known.
    """

    rhythm_hz: float | None
    bands: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class StepRhythm:
    """How even steps are, both relative: `drift` from window to window, `scatter` from step to step."""

    step_s: float
    drift: float = UNEVEN
    scatter: float = UNEVEN


def step_rhythm(step_s: float, ends_s: Numbers, each_s: Numbers, seconds: float) -> StepRhythm:
    """Measures how even steps are that ended then and took so long, in windows of `seconds`."""
    usual = each_s < USUAL * step_s
    ends_s, each_s = ends_s[usual], each_s[usual]
    numbers, counts = np.unique(ends_s // seconds, return_counts=True)
    full = numbers[counts >= KNOWN * np.median(counts)] if len(counts) else numbers
    if len(full) < 2:
        return StepRhythm(step_s)
    means = [each_s[ends_s // seconds == number].mean() for number in full]
    is_coarse = bool((each_s == np.round(each_s)).all())  # whole seconds tell nothing of single steps
    scatter = 0.0 if is_coarse else float(np.std(each_s)) / step_s
    return StepRhythm(step_s, PRECISE + 2 * float(np.std(means)) / step_s, scatter)


def step_aliases(steps: StepRhythm, hz: float, seconds: float) -> Aliases | None:
    """Returns where the steps and their harmonics appear in readings at `hz`, in windows of `seconds`.

    None if they appear where they are. Uneven steps smear their harmonics, the higher the more, until none is seen.
    """
    rhythm = 1 / steps.step_s
    bands = []
    for harmonic in range(1, MOST_HARMONICS + 1):
        smeared = math.pi * (harmonic * steps.scatter) ** 2 * rhythm
        if harmonic > FEWEST_HARMONICS and smeared > 2 / seconds:
            break
        if (true := harmonic * rhythm) <= hz / 2:
            continue
        folded = abs(true - round(true / hz) * hz)
        width = 3 / seconds + steps.drift * true
        bands.append((folded - width, folded + width))
    return Aliases(rhythm, tuple(bands)) if bands else None


class LowPass:
    """Thins ticks to one value a second, without what is faster than PASS_HZ: it would be folded down."""

    def __init__(self, hz: float, longest_s: float) -> None:
        self._taps, self._longest_s = _kernel(max(1, round(hz))), longest_s
        self._times, self._watts, self._following = np.zeros(0), np.zeros(0), 0.0
        self._thinned: list[tuple[Numbers, Numbers]] = []

    def through(self, stretches: Iterable[tuple[Numbers, Numbers]]) -> Iterator[tuple[Numbers, Numbers]]:
        """Passes stretches of ticks on, and thins them on the way."""
        for times, watts in stretches:
            self._add(times, watts)
            yield times, watts
        self._take(0.0)

    def series(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Yields what was thinned so far."""
        yield from self._thinned

    def _add(self, times: Numbers, watts: Numbers) -> None:
        if not len(self._times) and len(times):
            self._following = float(np.ceil(times[0]))
        self._times, self._watts = np.concatenate([self._times, times]), np.concatenate([self._watts, watts])
        self._take(KERNEL_S / 2)
        since = np.searchsorted(self._times, self._following - KERNEL_S / 2 - self._longest_s)
        self._times, self._watts = self._times[since:], self._watts[since:]

    def _take(self, ahead_s: float) -> None:
        """Thins up to `ahead_s` before the last tick."""
        count = int(self._times[-1] - ahead_s - self._following) + 1 if len(self._times) else 0
        if count <= 0:
            return
        rate = (len(self._taps) - 1) // KERNEL_S
        first = self._following
        grid = first - KERNEL_S / 2 + np.arange((count - 1) * rate + len(self._taps)) / rate
        values = _held(self._times, self._watts, grid, rate, self._longest_s)
        windows = np.lib.stride_tricks.sliding_window_view(values, len(self._taps))[::rate]
        self._thinned.append((first + np.arange(count), _weighted(windows, self._taps)))
        self._following += count


def _weighted(windows: Numbers, taps: Numbers) -> Numbers:
    """Weighs each window by the taps; NaN where too little was measured."""
    known = np.isfinite(windows)
    weight = np.where(known, taps, 0.0).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        smooth = np.where(known, windows * taps, 0.0).sum(axis=1) / weight
    smoothed: Numbers = np.where(weight > KNOWN, smooth, np.nan)
    return smoothed


def _kernel(rate: int) -> Numbers:
    """Returns a windowed sinc: it passes PASS_HZ and stops half of the one value a second."""
    at = np.arange(-KERNEL_S * rate // 2, KERNEL_S * rate // 2 + 1) / rate
    taps: Numbers = np.sinc(2 * CUT_HZ * at) * np.hanning(len(at) + 2)[1:-1]
    scaled: Numbers = taps / taps.sum()
    return scaled


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
    return _held(times, watts, grid, windows.hz, windows.longest_s)


def _held(times: Numbers, watts: Numbers, grid: Numbers, hz: float, longest_s: float) -> Numbers:
    if not len(times):
        return np.full(len(grid), np.nan)
    place = np.searchsorted(times, grid + 0.25 / hz, side="right") - 1
    alone = np.append(np.diff(times) > longest_s, True)
    begun = np.maximum(place, 0)
    is_held = (place >= 0) & (~alone[begun] | (grid - times[begun] < 1 / hz))
    level: Numbers = np.where(is_held, watts[begun], np.nan)
    return level


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
