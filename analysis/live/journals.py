"""The telemetry of a run that is being recorded -> its whole seconds as they come, a row a second and GPU.

Journals are read on from where they were left, block by block; of what was there before the last minutes are read,
whether it was compacted or not. A second whose tiers are not all written yet comes in two rows, each with what it
knows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gputel.telemetry.store import blocks, frames, journal, parts, wide
from gputel.telemetry.store import seconds as whole_seconds
from gputel.telemetry.store.parts import Part
from gputel.telemetry.tiers import Tier

PAST_S = 600  # of what was there before
ATTEMPTS = 3  # a file may be compacted or merged between its listing and its reading


class Journals:
    """One `gpu/` folder. `read` gives the seconds that are new; at first the last ones that were there before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.has_begun = False
        self._part = 0  # the one that is being written
        self._open: dict[Path, _Growing] = {}

    def read(self) -> pl.DataFrame | None:
        written = self._current()
        new = {part: found for part in written if (found := self._open[part.path].read())}
        loaded = [(tier, frame) for tier, frame in new.values() if frame.height]
        tables = []
        if not self.has_begun:  # a journal that is gone by now, and was not read, has been compacted
            tables.append(self._before([part for part in written if part in new or part.path.exists()]))
            self.has_begun = True
        if loaded:
            tables.append(frames.of_seconds(whole_seconds.of(loaded), [tier for tier, _ in loaded]))
        tables = [table for table in tables if table.height]
        return pl.concat(tables, how="diagonal") if tables else None

    def _before(self, read: Sequence[Part]) -> pl.DataFrame:
        """The last minutes of the parts that were there before these."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                return frames.last_seconds(self.folder, PAST_S, min((p.first for p in read), default=None))
        return pl.DataFrame()

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
