"""The sampler's status in memory shared with the viewer: its heartbeat and the latest values of each GPU.

The board is made before the fork, so that it outlives either process and needs no disk. A checksum replaces a
lock: a reader ignores a half-written message.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputel.telemetry.machine import Gpu, Report, Values
    from gputel.telemetry.sampling.plan import SamplingPlan
    from gputel.telemetry.sampling.rows import RawTier

SHOWN = {"power_w": 1, "temp_c": 0, "util": 0, "mem_used_mib": 0}
SLOWED_DOWN = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Clocks event reasons that cost speed and are not a setting. The software power cap is not one: every loaded GPU
reaches it."""
SLOWED = sum(SLOWED_DOWN)


class StatusWriter:
    """Takes the latest values for the board from the last rows, and reports throttling."""

    def __init__(self, gpus: Sequence[Gpu], plan: SamplingPlan, report: Report) -> None:
        self._gpus, self._report = gpus, report
        self.latest: dict[int, tuple[Values | bytes, RawTier | None]] = {}
        """The last row of each tier, decoded or not; the sampling thread replaces it at every tick."""
        self._slow: dict[str, int] = {}
        self.arrange(plan)

    def arrange(self, plan: SamplingPlan) -> None:
        """Note where each reading is in the rows."""
        self._places = {
            (column.subject, column.name): (number, place, column.per_unit)
            for number, planned in enumerate(plan.tiers)
            for place, column in enumerate(planned.tier.columns)
        }

    def gpus(self) -> list[dict[str, object]]:
        """The latest values of each GPU, in their units."""
        return [
            {
                "gpu": gpu.index,
                "name": gpu.name,
                **{name: self._in_units(gpu.index, name, digits) for name, digits in SHOWN.items()},
                "mem_total_mib": gpu.memory_total_mib,
            }
            for gpu in self._gpus
        ]

    def look_for_throttling(self) -> None:
        """Report each GPU when it starts to be slowed down, not while that lasts."""
        for gpu in self._gpus:
            mask = self._raw(gpu.index, "throttle")
            if mask is None:
                continue
            slow = mask & SLOWED
            begun = slow & ~self._slow.get(gpu.index, 0)
            self._slow[gpu.index] = slow
            if begun:
                why = ", ".join(text for bit, text in SLOWED_DOWN.items() if begun & bit)
                self._report(
                    "throttle", f"GPU {gpu.index} is slowed down: {why}", gpu=gpu.index, reasons=mask
                )

    def _raw(self, gpu: str, name: str) -> int | None:
        tier, place, _ = self._places.get((gpu, name), (-1, 0, 1))
        row, raw = self.latest.get(tier, (None, None))
        if row is None:
            return None
        return raw.value(row, place) if raw is not None and isinstance(row, bytes) else row[place]

    def _in_units(self, gpu: str, name: str, digits: int) -> float | None:
        raw = self._raw(gpu, name)
        if raw is None:
            return None
        value = round(raw / self._places[gpu, name][2], digits)
        return value if digits else int(value)


BEAT = struct.Struct("<Q")  # heartbeat (monotonic ns)
MESSAGE = struct.Struct("<II")  # length and crc32 of the JSON that follows
HEAD = struct.Struct(BEAT.format + MESSAGE.format[1:])


class Board:
    """A page of shared memory with a heartbeat and one JSON message."""

    def __init__(self, size: int = 256 * 1024) -> None:
        self._memory = mmap.mmap(-1, size)
        self._read_head = b""
        self._status: dict[str, object] | None = None
        self.command: int | None = None
        """The process that is recorded; set before the sampler is forked, as is what follows."""
        self.shows_gpus = True
        """Whether the viewer has a line for the latest values."""

    def beat(self, monotonic: int) -> None:
        BEAT.pack_into(self._memory, 0, monotonic)

    @property
    def heartbeat(self) -> int:
        """Monotonic time of the sampler's last beat; 0 before the first."""
        return int(BEAT.unpack_from(self._memory, 0)[0])

    def publish(self, status: dict[str, object]) -> None:
        """Replace the message; one too long for the page is dropped."""
        text = json.dumps(status).encode()
        if HEAD.size + len(text) > len(self._memory):
            return
        self._memory[HEAD.size : HEAD.size + len(text)] = text
        MESSAGE.pack_into(self._memory, BEAT.size, len(text), zlib.crc32(text))

    def read(self) -> dict[str, object] | None:
        """The last message; None before the first, or if it is half written. The caller must not change it."""
        head = self._memory[BEAT.size : HEAD.size]
        if head != self._read_head:
            length, crc = MESSAGE.unpack(head)
            text = self._memory[HEAD.size : HEAD.size + length]
            if not length or zlib.crc32(text) != crc:
                return None
            self._read_head, self._status = head, json.loads(text)
        return self._status
