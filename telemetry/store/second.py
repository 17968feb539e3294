"""The current second of one tier as the sampling thread takes it: bytes, decoded when they are written."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.store.blocks import Bits, Integers, Ticks
from gputel.telemetry.store.tiers import Tier

ROW_OVERHEAD = 64
"""Bytes that Python keeps beside each row."""
PACKED_VALUE = 9
Decode = Callable[[Sequence[bytes]], tuple[Integers, "Bits | None"]]
"""Turns rows into values and which of them were measured (all, if None); called once for each row, in order."""
Taken = tuple[int, int, bytes]
"""Deadline, stamp, and a row that is not decoded yet."""


class RunningSecond:
    """The current second of one tier: rows as the sampling thread takes them, decoded when they are written."""

    def __init__(self, index: int, tier: Tier) -> None:
        self.index, self.tier = index, tier
        self.ends = 0
        self.capacity = tier.capacity
        self.anchor = Stamp(0, 0, 0)
        self.decode: Decode | None = None
        self._pieces: list[tuple[Decode, list[Taken]]] = []
        """Rows of one decoder each: a GPU that is lost or comes back changes it."""
        self.newest: list[Taken] = []
        """The rows of the last decoder."""
        self.add = self.newest.append

    @property
    def rows(self) -> int:
        return sum(len(rows) for _, rows in self._pieces)

    @property
    def size(self) -> int:
        return sum((len(rows[0][2]) + ROW_OVERHEAD) * len(rows) for _, rows in self._pieces if rows)

    def begin(self, now: Stamp, deadline: int, stamp: int) -> None:
        to_wall = now.wall - now.monotonic
        self.anchor = Stamp(deadline + to_wall, deadline, deadline + now.boot - now.monotonic)
        self.ends = stamp + SECOND - (stamp + to_wall) % SECOND

    def turn(self, decode: Decode) -> None:
        """Take rows of another decoder from here on."""
        self.decode, self.newest = decode, []
        self._pieces.append((decode, self.newest))
        self.add = self.newest.append

    def ticks(self) -> Ticks:
        moments = np.array([taken[:2] for _, rows in self._pieces for taken in rows], np.int64)
        decoded = [decode([row for _, _, row in rows]) for decode, rows in self._pieces if rows]
        values, valid = decoded[0]
        if len(decoded) > 1:
            marks = [np.ones(v.shape, np.bool_) if there is None else there for v, there in decoded]
            values, valid = np.concatenate([v for v, _ in decoded]), np.concatenate(marks)
        deadlines = moments[:, 0]
        late_us = (moments[:, 1] - deadlines) // 1000
        return Ticks(self.anchor, deadlines, late_us, values, None if valid is None or valid.all() else valid)


def pack(values: Sequence[int | None]) -> bytes:
    """Values as 64-bit integers, then a byte each that says whether it was measured.

    A value beyond a signed 64-bit integer, such as NVML's 2^64 - 1, was not.
    """
    fitting = [value if value is not None and -(2**63) <= value < 2**63 else None for value in values]
    there = bytes(value is not None for value in fitting)
    return struct.pack(f"<{len(values)}q", *[value or 0 for value in fitting]) + there


def unpack(rows: Sequence[bytes]) -> tuple[Integers, Bits | None]:
    data, size = b"".join(rows), len(rows[0])
    shape = len(rows), size // PACKED_VALUE
    values = np.ndarray(shape, "<i8", data, 0, (size, 8)).copy()
    valid = np.ndarray(shape, np.bool_, data, shape[1] * 8, (size, 1))
    return values, None if valid.all() else valid
