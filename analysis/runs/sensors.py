"""What a sensor really did: how often it refreshed, and the energy by its power and by its counter.

Ticks go in. Polling a sensor faster than it refreshes repeats its values, so the gaps between changes tell its
period; the shortest gap is too short, as the poll that saw the change before came late. Where a value hardly
changes, or only when it likes, the answer is None: indeterminate.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

WINDOW_NS = 5_000_000_000
TRIM = 0.35  # of the median: beyond lie refreshes that changed nothing, and holes
POLLS = 1.2  # but a gap may always be a poll longer or shorter, for that is how it is seen
FEWEST_GAPS = 3
FEW_REFRESHES = 10
KEYS = ("time", "gpu", "node")

Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Refresh:
    """`every_poll`: it changed as often as it was asked, so the sensor may be faster."""

    hz: float
    every_poll: bool


def difference(counter_j: float | None, integral_j: float | None) -> float | None:
    """Difference of the integral from the counter, as a share of the counter."""
    return None if not counter_j or integral_j is None else integral_j / counter_j - 1


def refresh(ticks: pl.DataFrame) -> dict[tuple[str, str], Refresh | None]:
    """By GPU and reading; None is indeterminate. What was never measured is absent."""
    return {
        (str(gpu), name): found
        for (gpu,), own in ticks.group_by("gpu", maintain_order=True)
        for name, found in refresh_of_one(own).items()
    }


def refresh_of_one(ticks: pl.DataFrame, known: Collection[str] = ()) -> dict[str, Refresh | None]:
    """Of one GPU by reading, without those that are `known` already."""
    found: dict[str, Refresh | None] = {}
    times = ticks["time"].dt.epoch("ns").to_numpy()
    for name in ticks.columns:
        present = ticks[name].is_not_null()
        if name not in KEYS and name not in known and present.any():
            values = ticks[name].filter(present).to_numpy()
            found[name] = period(times[present.to_numpy()], values)
    return found


def period(times: Numbers, values: Numbers) -> Refresh | None:
    """A trimmed mean of the gaps between changes in each window of 5 s; their mean is the answer."""
    changes = times[1:][values[1:] != values[:-1]]
    if len(changes) <= FEWEST_GAPS:
        return None
    gaps, window = np.diff(changes), (changes[1:] - times[0]) // WINDOW_NS
    borders = np.flatnonzero(np.diff(window)) + 1
    poll = float(np.median(np.diff(times)))
    means = [mean for own in np.split(gaps, borders) if (mean := _trimmed(own, poll)) is not None]
    windows = int((times[-1] - times[0]) // WINDOW_NS) + 1
    if 2 * len(means) < windows:
        return None
    mean = float(np.mean(means))
    return Refresh(1e9 / mean, mean < 1.5 * poll)


def integral(times: Numbers, power: Numbers, start_ns: int, end_ns: int) -> float | None:
    """Joules by zero-order hold; None where nothing was measured. A tick without a value adds nothing."""
    edges = np.clip(np.append(times, end_ns), start_ns, end_ns)
    widths = np.diff(edges) / 1e9
    measured = ~np.isnan(power) & (widths > 0)
    return float((power[measured] * widths[measured]).sum()) if measured.any() else None


def counter_at(times: Numbers, counter: Numbers, power: Numbers, moment: int) -> float | None:
    """The counter between two of its refreshes; before the first and after the last, power says how it went on."""
    known = ~np.isnan(counter)
    times_known, values = times[known], counter[known]
    changed = np.flatnonzero(np.diff(values)) + 1
    if len(changed) == 0 or (np.diff(values) < 0).any():
        return None
    at, count = times_known[changed], values[changed]
    if at[0] <= moment <= at[-1]:
        return float(np.interp(moment - at[0], at - at[0], count))  # 64-bit floats would round ns since 1970
    near = 0 if moment < at[0] else -1
    beyond = integral(times, power, *sorted((moment, int(at[near]))))
    return None if beyond is None else float(count[near]) + (beyond if near else -beyond)


def _trimmed(gaps: Numbers, poll: float) -> float | None:
    """None where the gaps are too few, or most of them lie far from the median: that is no clockwork."""
    if len(gaps) < FEWEST_GAPS:
        return None
    median = np.median(gaps)
    kept = gaps[np.abs(gaps - median) <= max(TRIM * median, POLLS * poll)]
    return float(kept.mean()) if 2 * len(kept) >= len(gaps) else None
