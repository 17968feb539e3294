"""Reads a run folder while it is recorded: new segments, output with recorded timestamps, seconds of its GPUs.

A segment's index says when each read of the output ended. Output that the index does not cover yet waits for it,
at most a second: after a crash some lines may stay without a timestamp.

GPU journals are read on block by block, with a row per second and GPU; of earlier telemetry only the last ten
minutes are read. A second whose tiers are not all written yet comes as two rows, each with the columns of its
tiers.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.live.files import FileHandle, FilePosition, GrowingFile
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.own_files import FOREIGN, is_foreign
from gputel.telemetry.process import output_index
from gputel.telemetry.run_folder import Segment
from gputel.telemetry.store import frames, journal, parts, ticks
from gputel.telemetry.store.journal import GrowingJournal
from gputel.telemetry.store.live_seconds import LiveSeconds
from gputel.telemetry.store.parts import Part
from gputel.telemetry.store.seconds import one_second_rows, readable
from gputel.telemetry.store.tiers import Tier

Ints = npt.NDArray[np.int64]

PATIENCE_S = 1.0  # for the index to cover new output
PAST_S = 600  # seconds of earlier telemetry that are read
ATTEMPTS = 3  # a file may be compacted or merged between its listing and its reading
_UNKNOWN = -1


class _SegmentFile(GrowingFile):
    """A file of a segment; what leads out of its folder is not opened."""

    def _open(self) -> FileHandle | None:
        if is_foreign(self.path):
            self.trouble = FOREIGN
            return None
        return super()._open()


class Output:
    """The output of one segment as a source; `dated` gives rows the timestamps of their lines."""

    def __init__(
        self, segment: Segment, place: FilePosition | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.trouble: str | None = None
        self.descriptors: list[int] = []
        self.is_over = False
        self._file = _SegmentFile(segment.output, place)
        self._index = segment.index
        self._now = now
        self._position = 0
        self._indexed = 0  # records read from the index
        self._ends: Ints = np.empty(0, dtype=np.int64)
        self._walls: Ints = np.empty(0, dtype=np.int64)
        self._latest = _UNKNOWN
        self._moments: Ints = np.empty(0, dtype=np.int64)  # timestamps of lines from line `_first` on
        self._first = 1
        self._waiting_since: float | None = None

    @property
    def place(self) -> FilePosition | None:
        return self._file.place

    @property
    def position(self) -> int:
        return self._file.position

    @property
    def repeats(self) -> int:
        return self._file.repeats

    @property
    def repeated(self) -> bool:
        return self._file.repeated

    @property
    def written(self) -> float | None:
        return self._file.written

    def read(self, most: int) -> bytes:
        self._read_index()
        covered = int(self._ends[-1]) - self._position if len(self._ends) else 0
        if covered <= 0 and (not self._indexed or self._is_patience_over()):
            covered = most
        data = self._file.read(min(most, covered)) if covered > 0 else b""
        if data:
            self._waiting_since = None
            self._date(data)
        return data

    def dated(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows with the times at which their lines were recorded; unchanged if there is no index."""
        if not self._indexed or not frame.height:
            return frame
        at = np.clip(frame["line"].to_numpy() - self._first, 0, len(self._moments))
        moments = np.append(self._moments, self._latest)[at]
        times = pl.Series("time", moments).set(pl.Series(moments == _UNKNOWN), None)
        return frame.with_columns(times.cast(pl.Datetime("ns", "UTC")))

    def forget(self, before: int) -> None:
        """Drops timestamps of lines before this one."""
        if before - self._first > len(self._moments) // 2:
            self._moments = self._moments[before - self._first :]
            self._first = before

    def close(self) -> None:
        self._file.close()

    def _read_index(self) -> None:
        """Reads new records of the index and drops those whose lines already have a time."""
        if is_foreign(self._index):
            return
        try:
            with self._index.open("rb") as file:
                file.seek(self._indexed * output_index.RECORD.size)
                data = file.read()
        except FileNotFoundError:
            return
        count = len(data) // output_index.RECORD.size
        if count:
            new = np.frombuffer(data[: count * output_index.RECORD.size], dtype="<i8").reshape(count, 2)
            ahead = self._ends > self._position
            self._walls = np.concatenate([self._walls[ahead], np.where(new[:, 0] == 0, _UNKNOWN, new[:, 0])])
            self._ends = np.concatenate([self._ends[ahead], new[:, 1]])
            self._indexed += count

    def _is_patience_over(self) -> bool:
        if not self._file.left and self._file.place:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = self._now()
        return self._waiting_since is not None and self._now() - self._waiting_since >= PATIENCE_S

    def _date(self, data: bytes) -> None:
        """Gives each completed line the time of the read that brought its last byte."""
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + (self._position + 1)
        at = np.searchsorted(self._ends, ends)
        walls = np.append(self._walls, _UNKNOWN)
        self._latest = int(
            walls[min(int(np.searchsorted(self._ends, self._position + len(data))), len(walls) - 1)]
        )
        self._moments = np.concatenate([self._moments, walls[np.minimum(at, len(self._walls))]])
        self._position += len(data)


class EventsFile:
    """events.jsonl of one segment: `read` returns new events, and whether they were shown before."""

    def __init__(self, segment: Segment, place: FilePosition | None = None) -> None:
        self._file = _SegmentFile(segment.path / events.NAME, place)
        self._rest = b""

    @property
    def place(self) -> FilePosition | None:
        return self._file.place

    def read(self) -> tuple[list[dict[str, Any]], bool]:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        return [event for line in lines if (event := events.parse(line)) is not None], self._file.repeated

    def close(self) -> None:
        self._file.close()


def descriptions(folder: Path) -> tuple[tuple[Segment, ...], list[dict[str, Any]]]:
    """The present segments of a run, each with its run.json, {} if that cannot be read."""
    segments = run_folder.open_folder(folder).segments
    return segments, [run_folder.readable_facts(segment.path, warn=False) for segment in segments]


def live_seconds(segment: Segment) -> LiveSeconds:
    """Whole seconds of a segment's GPUs from the last minutes on; what has been compacted is left out."""
    return LiveSeconds(segment.gpu, run_folder.now_ns(segment.path) // SECOND - PAST_S)


class LiveJournals:
    """Telemetry of one `gpu/` folder. The first `read` returns the last minutes, later ones new seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.has_begun = False
        self._part = 0  # number of the part being written
        self._open: dict[Path, GrowingTicks] = {}

    def read(self) -> pl.DataFrame | None:
        written = self._current()
        new = {part: rows for part in written if (rows := self._open[part.path].read())}
        loaded = [(tier, frame) for tier, frame in new.values() if frame.height]
        tables = []
        if not self.has_begun:  # a journal that is gone by now, and was not read, has been compacted
            tables.append(self._before([part for part in written if part in new or part.path.exists()]))
            self.has_begun = True
        if loaded:
            tables.append(readable(one_second_rows(loaded, last=True)))
        tables = [table for table in tables if table.height]
        return pl.concat(tables, how="diagonal") if tables else None

    def _before(self, read: Sequence[Part]) -> pl.DataFrame:
        """The last minutes of the parts before the ones that are read live."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                return frames.last_seconds(self.folder, PAST_S, min((p.first for p in read), default=None))
        return pl.DataFrame()

    def _current(self) -> list[Part]:
        """The journals of the last part, and earlier ones until they are read to their end."""
        journals = [part for part in parts.every_file(self.folder) if not part.compacted]
        last = max((part.first for part in journals), default=0)
        self._part = self._part or last
        current = [part for part in journals if part.first >= self._part]
        for part in current:
            self._open.setdefault(part.path, GrowingTicks(part.path))
        if last > self._part:
            self._part = last
        self._open = {part.path: self._open[part.path] for part in current}
        return current


class GrowingTicks:
    """One journal file as frames: each `read` takes the blocks completed since the last one."""

    def __init__(self, path: Path) -> None:
        self._journal = GrowingJournal(path)

    def read(self) -> tuple[Tier, pl.DataFrame] | None:
        new = self._journal.read()
        if new is None:
            return None
        tier, samples = new
        return tier, ticks.from_journal(journal.Journal(self._journal.path, tier, samples, []))
