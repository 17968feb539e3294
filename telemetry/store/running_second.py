"""The running second of one tier: a preallocated row of 64-bit integers a tick, filled by the sampling thread.

It ends with a second of wall time, so that no block, and no part, cuts one in two.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.store.blocks import Ticks
from gputel.telemetry.tiers import Tier


class RunningSecond:
    def __init__(self, index: int, tier: Tier) -> None:
        self.index, self.tier = index, tier
        self.rows = self.ends = 0
        self.capacity = int(tier.hz) + 8
        self.anchor = Stamp(0, 0, 0)
        self._row = struct.Struct(f"<{len(tier.columns) + 2}q")
        self._memory = bytearray(self.capacity * self._row.size)
        self._nulls: list[tuple[int, list[int]]] = []

    @property
    def size(self) -> int:
        return len(self._memory)

    def begin(self, now: Stamp, deadline: int, stamp: int) -> None:
        to_wall = now.wall - now.monotonic
        self.anchor = Stamp(deadline + to_wall, deadline, deadline + now.boot - now.monotonic)
        self.ends = stamp + SECOND - (stamp + to_wall) % SECOND

    def add(self, deadline: int, stamp: int, values: Sequence[int | None]) -> None:
        at = self.rows * self._row.size
        try:
            self._row.pack_into(self._memory, at, deadline, stamp, *values)
        except struct.error:
            self._row.pack_into(self._memory, at, deadline, stamp, *self._without_nulls(values))
        self.rows += 1

    def _without_nulls(self, values: Sequence[int | None]) -> list[int]:
        """What 64 bits with a sign cannot hold, such as NVML's 2^64 - 1, was not measured either."""
        held = [value if value is not None and -(2**63) <= value < 2**63 else None for value in values]
        self._nulls.append((self.rows, [column for column, value in enumerate(held) if value is None]))
        return [0 if value is None else value for value in held]

    def ticks(self) -> Ticks:
        table = np.frombuffer(self._memory, "<i8").reshape(self.capacity, -1)[: self.rows]
        valid = None
        if self._nulls:
            valid = np.ones((self.rows, len(self.tier.columns)), np.bool_)
            for row, columns in self._nulls:
                valid[row, columns] = False
        late_us = (table[:, 1] - table[:, 0]) // 1000
        return Ticks(self.anchor, table[:, 0], late_us, table[:, 2:], valid)
