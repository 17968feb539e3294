"""Whole seconds of a table while it is recorded, by numpy alone: for a process that must stay small.

They are the figures of `seconds.py`, which needs polars and a whole part: of counters and states the last value, of
some readings minimum and maximum, of the others the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import parts
from gputel.telemetry.store.blocks import Integers, Ticks
from gputel.telemetry.store.journal import GrowingJournal
from gputel.telemetry.store.tiers import MEAN_PARTS, Tier

STATES = ("energy_j", "pstate", "ecc", "remapped_rows", "power_limit_w")
"""Counters and states: a mean of them says nothing."""
THROTTLE = "throttle"
"""A mask: the bits that were set at any tick."""
EXTREMES = ("power_w", "sm_mhz", "temp_c", "mem_used_mib")
"""Their minimum and maximum are given, too."""


class LiveSecond(NamedTuple):
    """A second since 1970; its figures by name, such as `power_w_mean`, and GPU, without those not measured."""

    second: int
    figures: dict[tuple[str, str], float]

    def by_gpu(self) -> dict[str, dict[str, float]]:
        """The figures of each GPU by name."""
        rows: dict[str, dict[str, float]] = {}
        for (name, gpu), value in self.figures.items():
            rows.setdefault(gpu, {})[name] = value
        return rows


class LiveSeconds:
    """The seconds of a folder such as gpu/ from one on; each `read` gives the new ones."""

    def __init__(self, folder: Path, since: int = 0) -> None:
        self._folder, self._since = folder, since
        self._journals: dict[Path, GrowingJournal] = {}

    def read(self) -> list[LiveSecond]:
        """Reads the seconds in order of time; again those that a tier wrote late, or a new part cut in two."""
        paths = sorted(part.path for part in parts.every_file(self._folder) if not part.compacted)
        self._journals = {path: self._journals.get(path) or GrowingJournal(path) for path in paths}
        rows: dict[int, dict[tuple[str, str], float]] = {}
        for journal in self._journals.values():
            tier, new = journal.read() or (None, [])
            for ticks in new:
                second = _second(ticks)
                if tier and second >= self._since:
                    rows.setdefault(second, {}).update(_figures(tier, ticks))
        return [LiveSecond(second, rows[second]) for second in sorted(rows)]


def _second(ticks: Ticks) -> int:
    """A block ends with a second of wall time, so its first tick says which."""
    deadline = int(ticks.deadlines[0]) + int(ticks.late_us[0]) * 1000
    return (deadline + ticks.anchor.wall - ticks.anchor.monotonic) // SECOND


def _figures(tier: Tier, ticks: Ticks) -> Iterator[tuple[tuple[str, str], float]]:
    there = np.ones(ticks.values.shape, np.bool_) if ticks.valid is None else ticks.valid
    counts = there.sum(axis=0)
    sums = np.where(there, ticks.values, 0).sum(axis=0)
    for place in np.flatnonzero(counts):
        column, values = tier.columns[place], ticks.values[there[:, place], place]
        for statistic, value in _statistics(column.name, values, sums[place] / counts[place]):
            yield (f"{column.name}_{statistic}", column.subject), value / column.per_unit


def _statistics(name: str, values: Integers, mean: float) -> Iterator[tuple[str, float]]:
    if name in STATES:
        yield "last", float(values[-1])
    elif name == THROTTLE:
        yield "any", float(np.bitwise_or.reduce(values))
    else:
        yield "mean", round(mean * MEAN_PARTS) / MEAN_PARTS
        if name in EXTREMES:
            yield "min", float(values.min())
            yield "max", float(values.max())
