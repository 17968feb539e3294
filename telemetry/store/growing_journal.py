"""A journal that is being written: each `read` decodes the blocks that were completed since the last one."""

from __future__ import annotations

from pathlib import Path

from gputel.telemetry.store import blocks, journal
from gputel.telemetry.store.blocks import Ticks
from gputel.telemetry.store.tiers import Tier


class GrowingJournal:
    """One file; a block of it is a second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0
        self._rest = b""
        self._tier: Tier | None = None

    def read(self) -> tuple[Tier, list[Ticks]] | None:
        """The tier and its new seconds; None before its description is there, and once the file is compacted."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._position)
                new = file.read()
        except FileNotFoundError:
            return None
        self._position += len(new)
        data = self._rest + new
        complete = [block for block in blocks.scan(data) if isinstance(block, blocks.JournalBlock)]
        end = complete[-1].offset + blocks.HEADER.size + len(complete[-1].payload) if complete else 0
        self._rest = data[end:]
        self._tier = self._tier or journal.tier_of(complete)
        if self._tier is None:
            return None
        columns, period_ns = len(self._tier.columns), self._tier.period_ns
        return self._tier, [blocks.decode(block, columns, period_ns) for block in complete if block.rows]
