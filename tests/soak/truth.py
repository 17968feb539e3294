"""What the fake driver's sensors hold at any moment, computed without it, for many moments at once.

Moments are nanoseconds of the driver's clock; values are the driver's integers, in float64, NaN where unknown.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tests.soak.plan import STEPS_MS

MS, SECOND = 1_000_000, 1_000_000_000
Moments = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

POWER_WINDOW, AVERAGE_WINDOW, REFRESH, ENERGY_REFRESH = 25 * MS, SECOND, 100 * MS, 20 * MS
PCIE_BYTES_S, NVLINK_BYTES_S = (1_000_000_000, 2_000_000_000), (10_000_000_000, 8_000_000_000)
"""Received and sent."""
PCIE_REFRESH, NVLINK_REFRESH = 20 * MS, 100 * MS
FINEST = 20 * MS
"""No sensor refreshes more often."""


def steps_mw(gpu: int) -> list[tuple[int, int]]:
    """The true power of a GPU: (ns, mW), again and again."""
    return [(ms * MS, mw + 1000 * gpu) for ms, mw in STEPS_MS]


class GpuTruth:
    """The sensors of one GPU."""

    def __init__(self, gpu: int) -> None:
        durations, levels = (np.array(part, np.float64) for part in zip(*steps_mw(gpu), strict=True))
        self._gpu = gpu
        self._edges = np.concatenate([[0], np.cumsum(durations)])
        self._sums = np.concatenate([[0], np.cumsum(durations * levels)])
        self._levels = levels.min(), levels.max()

    def values(self, name: str, at: Moments) -> Numbers:
        """What a call at these moments returns for a reading."""
        constants = {
            "mem_used_mib": (1000 + self._gpu) * 1024 * 1024,
            "sm_mhz": 1980,
            "mem_mhz": 2619,
            "pstate": 0,
            "throttle": 0,
            "power_limit_w": 700_000,
            "ecc": 0,
            "remapped_rows": 0,
        }
        if name in constants:
            return np.full(len(at), float(constants[name]))
        average = self._mean(at // REFRESH * REFRESH, AVERAGE_WINDOW)
        busy = np.floor(100 * self._busy(average) + 0.5)
        by_name: dict[str, Callable[[], Numbers]] = {
            "power_w": lambda: np.floor(self._mean(at // REFRESH * REFRESH, POWER_WINDOW) + 0.5),
            "power_avg_w": lambda: np.floor(average + 0.5),
            "energy_j": lambda: np.floor(self._energy(at // ENERGY_REFRESH * ENERGY_REFRESH) / 1e9),
            "temp_c": lambda: 30 + np.floor(np.floor(average + 0.5) / 20_000),
            "temp_mem_c": lambda: 40 + np.floor(np.floor(average + 0.5) / 15_000),
            "util": lambda: busy,
            "mem_util": lambda: np.asarray(np.floor(busy / 2)),
        }
        return by_name[name]() if name in by_name else np.full(len(at), np.nan)

    def busy_between(self, begin: Moments, end: Moments) -> Numbers:
        """The share of the highest load between two moments, which GPM metrics follow."""
        return self._busy((self._energy(end) - self._energy(begin)) / (end - begin))

    def _energy(self, until: Moments) -> Numbers:
        """mW times ns."""
        whole, rest = np.divmod(until.astype(np.float64), self._edges[-1])
        return np.asarray(whole * self._sums[-1] + np.interp(rest, self._edges, self._sums))

    def _mean(self, end: Moments, window: int) -> Numbers:
        return (self._energy(end) - self._energy(end - window)) / window

    def _busy(self, mean: Numbers) -> Numbers:
        low, high = self._levels
        return np.asarray((mean - low) / (high - low))


LACKING = ("fan",)
"""Readings that these GPUs do not have; planned all the same for one that did not answer at the start."""
RATES_KIB_S = {
    "pcie_rx_mib_s": PCIE_BYTES_S[0] / 1024,
    "pcie_tx_mib_s": PCIE_BYTES_S[1] / 1024,
    "nvlink_rx_mib_s": NVLINK_BYTES_S[0] / 1024,
    "nvlink_tx_mib_s": NVLINK_BYTES_S[1] / 1024,
}
"""The true rates, which do not change."""
