"""The telemetry of a run that is being recorded -> its whole seconds as they come, a row a second and GPU.

Journals are read on from where they were left, block by block; what was there before the follower is read of the
last part only. A second whose tiers are not all written yet comes in two rows, each with what it knows.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gputel.telemetry.store import blocks, frames, journal, parts, wide
from gputel.telemetry.store import seconds as whole_seconds
from gputel.telemetry.store.parts import Part
from gputel.telemetry.tiers import Tier


class Journals:
    """One `gpu/` folder. `read` gives the seconds that are new."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._part = 0  # the one that is being written
        self._open: dict[Path, _Growing] = {}

    def read(self) -> pl.DataFrame | None:
        new = [found for part in self._current() if (found := self._open[part.path].read())]
        loaded = [(tier, frame) for tier, frame in new if frame.height]
        if not loaded:
            return None
        tiers = [tier for tier, _ in loaded]
        return frames.of_seconds(whole_seconds.of(loaded), tiers)

    def _current(self) -> list[Part]:
        """The journals of the last part, and of those that were before it until they are read to their end."""
        found = [part for part in parts.found(self.folder) if not part.compacted]
        last = max((part.first for part in found), default=0)
        self._part = self._part or last
        current = [part for part in found if part.first >= self._part]
        for part in current:
            self._open.setdefault(part.path, _Growing(part.path))
        if last > self._part:
            self._part = last
        self._open = {part.path: self._open[part.path] for part in current}
        return current


class _Growing:
    """One journal: whole blocks are taken off as they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._rest = b""
        self._tier: Tier | None = None

    def read(self) -> tuple[Tier, pl.DataFrame] | None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                new = file.read()
        except FileNotFoundError:  # compacted; what it held was read a moment ago
            return None
        self._position += len(new)
        data = self._rest + new
        found = [block for block in blocks.scan(data) if isinstance(block, blocks.Block)]
        end = found[-1].offset + blocks.HEADER.size + len(found[-1].payload) if found else 0
        self._rest = data[end:]
        self._tier = self._tier or journal.tier_of(found)
        if self._tier is None:
            return None
        held = [
            blocks.decode(block, len(self._tier.columns), self._tier.period_ns)
            for block in found
            if block.rows
        ]
        return self._tier, wide.from_journal(journal.Journal(self._path, self._tier, held, []))
