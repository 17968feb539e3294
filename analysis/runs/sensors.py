"""Ticks of a GPU -> the true refresh rate of each sensor, and energy by power and by the counter.

Polling a sensor faster than it refreshes repeats its values, so the gaps between changes give its period. The
shortest gap is too short: the poll before it saw its change late. If a value changes too rarely or irregularly,
the rate is None: there are too few changes to tell.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

WINDOW_NS = 5_000_000_000
TRIM = 0.35  # share of the median: larger deviations are gaps, or refreshes without a change
POLLS = 1.2  # polls by which any gap may be too long or too short, since only a poll sees a change
FEWEST_GAPS = 3
FEW_REFRESHES = 10
KEYS = ("time", "gpu", "node")

Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Refresh:
    """Refresh rate of a sensor. `every_poll`: it changed at every poll, so the sensor may be faster."""

    hz: float
    every_poll: bool


def difference(counter_j: float | None, integral_j: float | None) -> float | None:
    """Returns the relative difference of the integral from the counter."""
    return None if not counter_j or integral_j is None else integral_j / counter_j - 1


def refresh(ticks: pl.DataFrame) -> dict[tuple[str, str], Refresh | None]:
    """Returns the refresh by GPU and reading; None if too few changes, absent if never measured."""
    return {
        (str(gpu), name): refresh_rate
        for (gpu,), rows in ticks.group_by("gpu", maintain_order=True)
        for name, refresh_rate in refresh_of_one(rows).items()
    }


def refresh_of_one(
    ticks: pl.DataFrame,
    determined: Collection[str] = (),
    read_hz: Mapping[str, float] | None = None,
) -> dict[str, Refresh | None]:
    """Returns the refresh of one GPU by reading, without the readings that are `determined` already.

    `read_hz` has the rates of readings that were read less often than there are ticks.
    """
    refreshes: dict[str, Refresh | None] = {}
    times = ticks["time"].dt.epoch("ns").to_numpy()
    for name in ticks.columns:
        present = ticks[name].is_not_null()
        if name not in KEYS and name not in determined and present.any():
            values = ticks[name].filter(present).to_numpy()
            slowest_hz = (read_hz or {}).get(name, math.inf)
            refreshes[name] = period(times[present.to_numpy()], values, 1e9 / slowest_hz)
    return refreshes


def period(times: Numbers, values: Numbers, read_every_ns: float = 0.0) -> Refresh | None:
    """Averages the trimmed mean gap between changes over windows of 5 s.

    `read_every_ns`: how often the sensor was read, if values are repeated in between.
    """
    changes = times[1:][values[1:] != values[:-1]]
    if len(changes) <= FEWEST_GAPS:
        return None
    gaps, window = np.diff(changes), (changes[1:] - times[0]) // WINDOW_NS
    borders = np.flatnonzero(np.diff(window)) + 1
    poll = float(np.median(np.diff(times)))
    means = [mean for group in np.split(gaps, borders) if (mean := _trimmed(group, poll)) is not None]
    windows = int((times[-1] - times[0]) // WINDOW_NS) + 1
    if 2 * len(means) < windows:
        return None
    mean = float(np.mean(means))
    return Refresh(1e9 / max(mean, poll), mean < 1.5 * max(poll, read_every_ns))


def integral(times: Numbers, power: Numbers, start_ns: int, end_ns: int) -> float | None:
    """Integrates power by sample-and-hold, in joules; None if nothing was measured."""
    edges = np.clip(np.append(times, end_ns), start_ns, end_ns)
    widths = np.diff(edges) / 1e9
    measured = ~np.isnan(power) & (widths > 0)
    return float((power[measured] * widths[measured]).sum()) if measured.any() else None


def counter_at(times: Numbers, counter: Numbers, power: Numbers, moment: int) -> float | None:
    """Interpolates the counter between its refreshes; outside of them, it is extrapolated with power."""
    present = ~np.isnan(counter)
    times_known, values = times[present], counter[present]
    changed = np.flatnonzero(np.diff(values)) + 1
    if len(changed) == 0 or (np.diff(values) < 0).any():
        return None
    changed_at, count = times_known[changed], values[changed]
    if changed_at[0] <= moment <= changed_at[-1]:
        first = changed_at[0]  # 64-bit floats would round ns since 1970
        return float(np.interp(moment - first, changed_at - first, count))
    near = 0 if moment < changed_at[0] else -1
    beyond = integral(times, power, *sorted((moment, int(changed_at[near]))))
    return None if beyond is None else float(count[near]) + (beyond if near else -beyond)


def _trimmed(gaps: Numbers, poll: float) -> float | None:
    """Returns the trimmed mean; None if there are too few gaps, or if most are far from the median."""
    if len(gaps) < FEWEST_GAPS:
        return None
    median = np.median(gaps)
    near = gaps[np.abs(gaps - median) <= max(TRIM * median, POLLS * poll)]
    return float(near.mean()) if 2 * len(near) >= len(gaps) else None
