"""The disk's side of the journals: writes encoded seconds into the files of one part after the other.

It has a thread of its own, so that a disk that hangs holds up neither sampling nor encoding. Seconds wait for it
encoded, in a fiftieth of the memory of what the driver answered. On a full disk telemetry pauses, even where a part
cannot begin, and goes on when there is room.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from gputel.telemetry.clock import SECOND, Clock, Stamp
from gputel.telemetry.store import blocks, parts
from gputel.telemetry.store.tiers import Tier, count_by_table
from gputel.telemetry.whole_files import NO_ROOM

SYNC_EVERY_S = 5.0
SEAL_AFTER_S = 600
SEAL_VALUES = 8_000_000
"""The most values in a part, which bounds the memory to compact or read it; at 1000 Hz parts are shorter."""


class EncodedSecond(NamedTuple):
    """A second of one tier as the payload of a block, and when it ends (monotonic ns)."""

    tier: int
    payload: bytes
    flags: int
    rows: int
    anchor: Stamp
    ends: int


class PartWriter:
    """Writes the journals of all tiers; with `by_table`, those of each table into a folder of its own.

    Calls `on_trouble(kind, text)` from threads of its own: disk_full, disk_error, gap, compaction. Calls
    `compactor` with the folder after each sealed part; without one, journals stay as they are.
    """

    def __init__(
        self,
        folder: Path,
        tiers: Sequence[Tier],
        clock: Clock,
        *,
        on_trouble: Callable[[str, str], None],
        compactor: Callable[[Path], None] | None,
        seal_after_s: int = SEAL_AFTER_S,
        by_table: bool = False,
    ) -> None:
        self.bytes_written = 0
        self.pending_bytes = 0
        self.dead = False
        self.not_kept: Counter[str] = Counter()
        """Rows by tier that the disk did not take."""
        self.tiers, self.clock, self.on_trouble = tiers, clock, on_trouble
        self._folder, self._by_table = folder, by_table
        self._compactor, self._seal_after_ns = compactor, seal_after_s * SECOND
        self._tasks: queue.SimpleQueue[Sequence[EncodedSecond | Sequence[Tier]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._paused = False
        self._full: set[int] = set()
        """Tiers whose last block the disk did not take."""
        self._lost_to_full: Counter[Tier] = Counter()
        self._journals: list[_Journal] = []
        """The journals of the current part; none while the disk is too full to begin it."""
        self._seal_at: int | None = None
        self._values = 0
        self._syncer = Syncer(self._copies, on_trouble)
        self._begin(tiers)
        self._thread = threading.Thread(target=self._guarded, name="gputel-disk", daemon=True)
        self._thread.start()

    def put(self, tasks: Sequence[EncodedSecond | Sequence[Tier]]) -> None:
        """Write these seconds, and begin a part where other tiers are among them. Never waits for the disk."""
        with self._lock:
            self.pending_bytes += _size(tasks)
            self._waiting += len(tasks)
        self._tasks.put(tasks)

    def close(self, patience_s: float) -> None:
        """Write the rest, seal and sync; gives up on a disk that hangs longer than `patience_s`."""
        latest = time.monotonic() + patience_s
        self._tasks.put(None)
        self._thread.join(patience_s)
        if self._thread.is_alive() or not self._syncer.close(max(0.0, latest - time.monotonic())):
            self.on_trouble("gap", f"the disk hangs: the last {self._waiting} blocks were not written")

    def fail(self, error: Exception) -> None:
        """End telemetry with an event, and nothing else."""
        self.dead = True
        self.on_trouble("disk_error", f"telemetry stops here: {type(error).__name__}: {error}")

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.fail(error)
            raise

    def _run(self) -> None:
        while (tasks := self._tasks.get()) is not None:
            for task in tasks:
                if isinstance(task, EncodedSecond):
                    self._write(task)
                else:
                    self._next_part(task)
                with self._lock:
                    self.pending_bytes -= _size([task])
                    self._waiting -= 1
        self._seal()

    def _write(self, second: EncodedSecond) -> None:
        if self._seal_at is not None and second.anchor.monotonic >= self._seal_at and not self._full:
            self._next_part(self.tiers)
        if self.dead or not (self._journals or self._begin(self.tiers)):
            self._give_up(second.tier, second.rows)
            return
        if self._seal_at is None:
            self._seal_at = second.anchor.monotonic + self._seal_after_ns
        self._values += second.rows * len(self.tiers[second.tier].columns)
        if self._values >= SEAL_VALUES:
            self._seal_at = min(self._seal_at, second.ends)
        self._put(self._journals[second.tier], second.payload, second.flags, second.rows, second.anchor)

    def _begin(self, tiers: Sequence[Tier]) -> bool:
        """Begin a part, whose number belongs to the process that creates its first file; False if it cannot."""
        self._values, self.tiers, self._seal_at = 0, tiers, None
        try:
            folders = [self._folder / tier.table if self._by_table else self._folder for tier in tiers]
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            begun = _create(folders, tiers, self.clock.stamp())
        except OSError as error:
            self._refused(error)
            return False
        with self._lock:
            self._journals = begun
        self.bytes_written += sum(journal.size for journal in begun)
        self._full.clear()
        self._go_on()
        return True

    def _next_part(self, tiers: Sequence[Tier]) -> None:
        if self.dead:
            return
        self._seal()
        if self._compactor is not None:
            self._syncer.seal([], self._compact)
        self._begin(tiers)

    def _put(self, journal: _Journal, payload: bytes, flags: int, rows: int, anchor: Stamp) -> None:
        if self.dead:
            return
        try:
            self.bytes_written += journal.put(payload, flags, rows, anchor)
        except OSError as error:
            self._give_up(journal.index, rows)
            self._full.add(journal.index)
            self._refused(error)
        else:
            if rows:
                self._full.discard(journal.index)
                self._go_on()

    def _give_up(self, tier: int, rows: int) -> None:
        self.not_kept[self.tiers[tier].name] += rows
        self._lost_to_full[self.tiers[tier]] += rows

    def _refused(self, error: OSError) -> None:
        """Pause where the disk is full: the next second is tried again. Any other refusal ends telemetry."""
        kept = f", {self._folder}: {error.strerror}; what was written is kept"
        if error.errno not in NO_ROOM:
            self.dead = True
            self.on_trouble("disk_error", f"telemetry stops here{kept}")
        elif not self._paused:
            self._paused = True
            self.on_trouble("disk_full", f"telemetry pauses here{kept}")

    def _go_on(self) -> None:
        if self._paused and not self._full:
            lost, self._lost_to_full, self._paused = self._lost_to_full, Counter(), False
            text = f"{count_by_table(lost)} were not kept while it was full"
            self.on_trouble("gap", f"the disk has room again: {text}")

    def _seal(self) -> None:
        stamp = self.clock.stamp()
        for journal in self._journals:
            self._put(journal, b"", blocks.SEAL, 0, stamp)
        with self._lock:
            sealed, self._journals = self._journals, []
        self._syncer.seal([journal.file for journal in sealed], lambda: None)

    def _compact(self) -> None:
        if self._compactor is None:
            return
        try:
            self._compactor(self._folder)
        except (OSError, RuntimeError) as error:
            self.on_trouble("compaction", str(error))

    def _copies(self) -> list[int]:
        with self._lock:
            return [os.dup(journal.file) for journal in self._journals]


class _Journal:
    """One open file; cuts off what a failed write left of a block."""

    def __init__(self, path: Path, index: int, tier: Tier) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self.path, self.index = path, index
        self._text = json.dumps(tier.as_json()).encode()
        self._schema = zlib.crc32(self._text)
        self._sequence = self.size = 0

    def describe(self, anchor: Stamp) -> None:
        """Write the tier's description, twice: one damaged byte must not cost the whole file."""
        payload, flags = blocks.deflated(self._text, blocks.SCHEMA)
        for _ in range(2):
            self.put(payload, flags, 0, anchor)

    def put(self, payload: bytes, flags: int, rows: int, anchor: Stamp) -> int:
        data = blocks.pack(
            payload,
            flags=flags,
            tier=self.index,
            sequence=self._sequence,
            schema=self._schema,
            rows=rows,
            anchor=anchor,
        )
        try:
            if os.write(self.file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self.file, self.size)
            raise
        self._sequence += 1
        self.size += len(data)
        return len(data)

    def withdraw(self) -> None:
        """Remove a file of a part that could not begin."""
        os.close(self.file)
        self.path.unlink(missing_ok=True)


def _create(folders: Sequence[Path], tiers: Sequence[Tier], anchor: Stamp) -> list[_Journal]:
    """Create the files of a new part, or none; never touches those of another sampler, ended or not."""
    while True:
        number = max(parts.next_number(folder) for folder in folders)
        journals: list[_Journal] = []
        try:
            for index, (folder, tier) in enumerate(zip(folders, tiers, strict=True)):
                journals.append(_Journal(folder / parts.journal_name(tier.name, number), index, tier))
                journals[-1].describe(anchor)
        except OSError as error:
            for journal in journals:
                journal.withdraw()
            if isinstance(error, FileExistsError):
                continue
            raise
        return journals


def _size(tasks: Sequence[EncodedSecond | Sequence[Tier]]) -> int:
    """Bytes that these tasks hold in memory."""
    return sum(len(task.payload) for task in tasks if isinstance(task, EncodedSecond))


class Syncer:
    """Makes files durable in a thread of its own, so that no writer waits: a sync may take half a minute.

    Only a power failure needs this: a kill loses nothing that a write call took. Syncs open files every few
    seconds, and sealed files once more before it closes them.

    `open_files` returns copies of the descriptors being written, which are closed here.
    """

    def __init__(
        self, open_files: Callable[[], Sequence[int]], on_trouble: Callable[[str, str], None]
    ) -> None:
        self._open_files = open_files
        self._on_trouble = on_trouble
        self._sealed: list[tuple[Sequence[int], Callable[[], None]]] = []
        self._wake = threading.Event()
        self._closing = False
        self._reported = False
        self._thread = threading.Thread(target=self._run, name="gputel-sync", daemon=True)
        self._thread.start()

    def seal(self, files: Sequence[int], sealed: Callable[[], None]) -> None:
        """Sync and close these files, then call `sealed`."""
        self._sealed.append((files, sealed))
        self._wake.set()

    def close(self, timeout_s: float) -> bool:
        """Finish; True if everything is on the disk, False if the disk takes longer than `timeout_s`."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(SYNC_EVERY_S)
            self._wake.clear()
            self._sync(self._open_files())
            self._finish_sealed()
        self._finish_sealed()

    def _finish_sealed(self) -> None:
        while self._sealed:
            files, sealed = self._sealed.pop(0)
            self._sync(files)
            sealed()

    def _sync(self, files: Sequence[int]) -> None:
        for file in files:
            try:
                getattr(os, "fdatasync", os.fsync)(file)
            except OSError as error:
                self._report(error)
            with contextlib.suppress(OSError):
                os.close(file)

    def _report(self, error: OSError) -> None:
        if not self._reported:
            self._reported = True
            self._on_trouble("disk_error", f"telemetry may not survive a power failure: {error.strerror}")
