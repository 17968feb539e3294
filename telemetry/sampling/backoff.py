"""How long a lowered rate stays low: four times as long after each attempt to raise it that failed.

Only an attempt shows whether a driver has recovered, and each one is an event and may delay ticks.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from gputel.telemetry.clock import SECOND

SHORTEST, LONGEST = 30 * SECOND, 960 * SECOND
SOON = 60 * SECOND
"""An attempt has failed if the rate falls again within this time, or within its last wait if that is longer."""


@dataclass
class Wait:
    """When a rate was last raised, how long it stays low after a fall, and until when it does now."""

    rose: int | None = None
    ns: int = SHORTEST
    until: int = 0


class Patience:
    """The waits of all that may fall: tiers by name, calls by their readings."""

    def __init__(self) -> None:
        self._waits: dict[Hashable, Wait] = {}

    def may_rise(self, what: Hashable, now: int) -> bool:
        return what not in self._waits or now >= self._waits[what].until

    def rise(self, what: Hashable, now: int) -> None:
        self._waits.setdefault(what, Wait()).rose = now

    def fall(self, what: Hashable, now: int) -> None:
        wait = self._waits.setdefault(what, Wait())
        if wait.rose is not None:
            in_vain = now - wait.rose <= max(SOON, wait.ns)
            wait.ns = min(4 * wait.ns, LONGEST) if in_vain else SHORTEST
            wait.rose = None
        wait.until = now + wait.ns
