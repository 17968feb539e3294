"""Rates from the driver's byte counters, which wrap: PCIe's at 32 bits, at full speed fifteen times a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

SECOND = 1_000_000_000
FASTEST = {1: 128e9, 1024: 2e12}
"""Bytes a second that no PCIe link (counted in bytes) and no GPU's NVLinks (counted in KiB) surpass."""


@dataclass(frozen=True)
class Counter:
    """One of a row's values: where it stands, how many bytes a count is, and whether it wraps at 32 bits."""

    place: int
    bytes_a_count: int
    narrow: bool


class Rates:
    """Replaces counters in rows of values by KiB a second since the row before; None where that cannot be told."""

    def __init__(self, counters: Sequence[Counter]) -> None:
        self._rows = _rows(tuple(counters))
        self._narrow = {n for n, counter in enumerate(counters) if counter.narrow}
        self._last: list[int | None] = [None] * len(counters)
        self._at = 0

    def into(self, values: list[int | None], now: int) -> None:
        elapsed, last, narrow = now - self._at, self._last, self._narrow
        self._at = now
        for n, place, scale, most in self._rows:
            value, before = values[place], last[n]
            last[n] = value
            if value is None or before is None or elapsed <= 0:
                values[place] = None
                continue
            moved: float = value - before
            if moved < 0 or n in narrow:
                moved = self._unwrapped(n, before, moved, elapsed * most)
            rate = moved * scale / elapsed
            values[place] = int(rate) if rate <= most else None  # else the driver began to count anew

    def _unwrapped(self, n: int, before: int, moved: float, at_most: float) -> float:
        """Infinite where it may have gone round more than once."""
        if moved < 0 and before < 1 << 32:
            self._narrow.add(n)
        bits = 32 if n in self._narrow else 64
        if moved < 0:
            moved += 1 << bits
        return float("inf") if at_most > self._rows[n][2] * (1 << bits) else moved


@cache
def _rows(counters: tuple[Counter, ...]) -> tuple[tuple[int, int, float, float], ...]:
    """Number, place, KiB a second of one count a nanosecond, the most there can be. Equal GPUs share them."""
    return tuple(
        (n, counter.place, counter.bytes_a_count * SECOND / 1024, FASTEST[counter.bytes_a_count] / 1024)
        for n, counter in enumerate(counters)
    )
