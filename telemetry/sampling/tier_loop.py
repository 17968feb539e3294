"""One tier while it is sampled: its GPUs, how each is asked, and which of them a read has yet to ask.

A tier that is not read on every tick is read over several ticks where one is too short for all its GPUs.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gputel.telemetry.machine import BufferedReader, Gpu, Prepared, Reader
from gputel.telemetry.readings import Reading
from gputel.telemetry.sampling.budget import ReadCost
from gputel.telemetry.sampling.cost import TierCount
from gputel.telemetry.sampling.rows import RawTier


@dataclass
class GpuShare:
    """One GPU's part of a tier's row; all None while it has no reader."""

    gpu: Gpu
    readings: tuple[Reading, ...]
    reader: Reader | None
    blank: tuple[None, ...]


class GpuRead(NamedTuple):
    """How one GPU of a tier is asked; `place` is that of its part, `names` has the readings of each call."""

    place: int
    gpu: Gpu
    reader: Reader
    calls: Sequence[Prepared]
    names: Sequence[tuple[str, ...]]


@dataclass
class TierLoop:
    """One tier while it is sampled; `due` is its next tick, `judged` the next whose cost the budget sees."""

    number: int
    due: int
    every: int
    """Ticks between two reads."""
    long_read: int
    """A read that takes longer is of no known moment, and the watchdog may have given it up."""
    parts: list[GpuShare]
    counted: TierCount
    apart: int = 0
    """Nanoseconds from the end of a read to the next, at least: a late read delays the one after it."""
    judged: int = 0
    failed: bool = False
    """Whether a call has failed, so that a GPU may be lost."""
    work: list[GpuRead] = field(default_factory=list)
    """Each GPU that has a reader."""
    left: list[GpuRead] = field(default_factory=list)
    """GPUs that the current read has yet to ask; all of them before it begins."""
    deadline: int = 0
    """The deadline of the tick in which the current read began; `stamp` is when it began."""
    stamp: int = 0
    cost: ReadCost | None = None
    """The cost of the current read, if the budget judges it."""
    took: list[int] = field(default_factory=list)
    """How long the last read of each GPU took, where they are asked one by one."""
    asked: list[Reader] = field(default_factory=list)
    """The readers without prepared calls."""
    raw: RawTier | None = None
    """What takes rows as bytes, if all readers are buffered."""
    times: MutableSequence[int] = field(default_factory=list)
    """When the last read of each GPU ended: its counters are of that moment, however long the others took.

    NO_MOMENT after a read that took long: at which moment of it a counter was read is not known.
    """

    def is_late(self, tick: int) -> bool:
        """Whether a read that was due has waited for a quarter of the time between two reads."""
        return tick > self.due + self.every // 4

    def plan_next(self, tick: int, soonest: int) -> None:
        """Say when the tier is due again, now that it was read in this tick."""
        self.due = max((self.due if tick < self.due + self.every else tick) + self.every, soonest)
        if len(self.left) < len(self.work):
            self.left = [*self.work]

    def arrange(self) -> None:
        """Prepare the reads, again after a GPU was lost or has come back, or a call fails or answers again."""
        left = {id(read.reader) for read in self.left}
        done = {id(read.reader) for read in self.work} - left
        self.work = [
            GpuRead(place, part.gpu, reader, reader.prepared or ((reader.ask, ()),), reader.calls)
            for place, part in enumerate(self.parts)
            if (reader := part.reader) is not None
        ]
        self.left = [read for read in self.work if id(read.reader) not in done]
        self.asked = [read.reader for read in self.work if not read.reader.prepared]
        readers = [part.reader for part in self.parts]
        buffered = [reader if isinstance(reader, BufferedReader) else None for reader in readers]
        before, self.raw, self.times = self.times, None, [0] * len(self.parts)
        self.took = self.took or [0] * len(self.parts)
        if all(a is b for a, b in zip(readers, buffered, strict=True)):
            self.raw = RawTier(buffered, [len(part.readings) for part in self.parts])
            self.times = self.raw.times
        for place, read_at in enumerate(before):
            self.times[place] = read_at
