"""How far the clocks of nodes are apart, as intervals: by the clock of the storage to which they send.

A bundle was stored after it was sent and before that was acknowledged. So each bounds how far the clock of its node
is ahead of the storage's; many together bound it closely, though storage tells whole seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from gputel.telemetry.clock import SECOND
from gputel.telemetry.remote.bundle_times import Sighting

WINDOW_S = 3600  # over which the drift of a clock is small beside the interval
ROUNDED_S = 1.0
"""Storage rounds down to whole seconds."""


class ClockInterval(NamedTuple):
    """A clock is ahead by at least `low_s` and at most `high_s`."""

    low_s: float
    high_s: float

    @property
    def middle_s(self) -> float:
        return (self.low_s + self.high_s) / 2

    @property
    def error_s(self) -> float:
        return (self.high_s - self.low_s) / 2

    def after(self, other: ClockInterval) -> ClockInterval:
        """How far this clock is ahead of another that was compared with the same third."""
        return ClockInterval(self.low_s - other.high_s, self.high_s - other.low_s)


def ahead_of_storage(sightings: Sequence[Sighting], wall_at_boot: int) -> ClockInterval | None:
    """Returns how far a clock is ahead, by the bundles of the last hour; None without an acknowledged one.

    Where no offset fits all of them, since a clock was set or storage has several, it is the one that fits most.
    """
    last = max((each.sent for each in sightings), default=0)
    bounds = [
        ClockInterval(
            (each.sent + wall_at_boot - each.stored) / SECOND - ROUNDED_S,
            (each.acked + wall_at_boot - each.stored) / SECOND,
        )
        for each in sightings
        if each.acked is not None and last - each.sent <= WINDOW_S * SECOND
    ]
    return _most_shared(bounds)


def _most_shared(bounds: Sequence[ClockInterval]) -> ClockInterval | None:
    """The stretch that lies in the most intervals."""
    edges = sorted(
        [(each.low_s, 1) for each in bounds] + [(each.high_s, -1) for each in bounds], key=_in_order
    )
    depth = deepest = 0
    best = None
    for (edge, change), (following, _) in pairwise(edges):
        depth += change
        if depth > deepest:
            deepest, best = depth, ClockInterval(edge, following)
    return best


def _in_order(edge: tuple[float, int]) -> tuple[float, int]:
    """Intervals that touch share a point: beginnings come first."""
    return edge[0], -edge[1]
