"""Journals: what the sampler appends while it records, readable at any moment and after a crash.

There is one file per tier, with one block per second, written in one call: `kill -9` costs what came since the
last whole second. The caller never waits for the disk: a thread encodes and writes, and what it cannot keep up
with waits in bounded memory; beyond that, ticks are dropped, counted and reported.

A block ends with a second of wall time, so that no block and no part cuts a second in two.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gputel.telemetry.characters import parse_json
from gputel.telemetry.clock import SECOND, Clock, Stamp
from gputel.telemetry.store import blocks, parts
from gputel.telemetry.store.blocks import Fault, JournalBlock, Ticks
from gputel.telemetry.store.second import Decode, RunningSecond, pack, unpack
from gputel.telemetry.store.sync import Syncer
from gputel.telemetry.store.tiers import Tier, tier_from_json

HEAD = 64 * 1024  # bytes that contain both schema blocks
SEAL_AFTER_S = 600
SEAL_VALUES = 8_000_000
"""The most values in a part, which bounds the memory to compact or read it; at 1000 Hz parts are shorter."""
GRACE_S = 0.05
"""How long a second waits for the tick that ends it: right after a tick is the best time to hold Python's lock."""
MAX_PENDING = 32 * 1024 * 1024
CLOSE_TIMEOUT_S = 60.0
NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True)
class Journal:
    """The readable content of one file. `faults` are damaged bytes in its middle; `torn` counts those at its end.

    The end of the newest part is torn while it is written, and by a kill.
    """

    path: Path
    tier: Tier
    ticks: list[Ticks]
    faults: list[Fault]
    torn: int = 0


def read(path: Path) -> Journal | None:
    """Read a journal; None if it does not even have its schema yet."""
    data = path.read_bytes()
    scanned = list(blocks.scan(data))
    whole = [block for block in scanned if isinstance(block, JournalBlock)]
    tier = tier_of(whole)
    if tier is None:
        return None
    torn = len(data) - (whole[-1].offset + blocks.HEADER.size + len(whole[-1].payload))
    journal = Journal(path, tier, [], [block for block in scanned if isinstance(block, Fault)], torn)
    for block in scanned:
        if isinstance(block, JournalBlock) and block.rows:
            try:
                journal.ticks.append(blocks.decode(block, len(tier.columns), tier.period_ns))
            except ValueError:
                journal.faults.append(Fault(block.offset, len(block.payload)))
    return journal


def read_tier(path: Path) -> Tier | None:
    """The tier of a journal, from its first blocks; None of one that has just begun."""
    with path.open("rb") as file:
        tier = tier_of(block for block in blocks.scan(file.read(HEAD)) if isinstance(block, JournalBlock))
    if tier:
        return tier
    scanned = list(blocks.scan(path.read_bytes()))
    tier = tier_of(block for block in scanned if isinstance(block, JournalBlock))
    if tier is None and any(isinstance(block, Fault) or block.rows for block in scanned):
        raise ValueError("its description is damaged")
    return tier


def tier_of(journal_blocks: Iterable[JournalBlock]) -> Tier | None:
    """The tier in the first schema block."""
    schema = next((block for block in journal_blocks if block.flags & blocks.SCHEMA), None)
    return None if schema is None else tier_from_json(parse_json(blocks.inflate(schema)))


class Writer:
    """Writes the journals of all tiers.

    Calls `on_trouble(kind, text)` from its own thread: disk_full, disk_error, gap, compaction. Calls `compactor`
    with the folder after each sealed part; without one, journals stay as they are.
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
        """With `by_table`, the journals of each table are in its own folder within `folder`."""
        self.bytes_written = 0
        self.dropped = 0
        self._folder, self._clock, self._begun, self._by_table = folder, clock, tiers, by_table
        self._on_trouble, self._compactor, self._seal_after_ns = on_trouble, compactor, seal_after_s * SECOND
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._open = [RunningSecond(index, tier) for index, tier in enumerate(tiers)]
        self._cut: deque[RunningSecond | Sequence[Tier]] = deque()
        """Ended seconds, and tiers that begin after them."""
        self.pending_bytes = 0
        self._reported_drops = 0
        self._closing = self._dead = False
        self._full: set[int] = set()
        """Tiers whose last block the disk did not take."""
        self.not_kept: Counter[str] = Counter()
        """Rows by tier that the disk did not take, or too slowly."""
        self._lost_to_full = 0
        self._journals: list[_Journal] = []
        self._journals_lock = threading.Lock()
        self._seal_at: int | None = None
        self._values = 0
        self._syncer = Syncer(self._copies, on_trouble)
        self._begin(tiers)
        self._thread = threading.Thread(target=self._guarded, name="gputel-journal", daemon=True)
        self._thread.start()

    def append(self, tier: int, deadline_ns: int, stamp_ns: int, values: Sequence[int | None]) -> None:
        """Append one tick, in monotonic time; keeps the stamp to the microsecond. Never waits for the disk."""
        self.append_raw(tier, deadline_ns, stamp_ns, pack(values), unpack)

    def append_raw(self, tier: int, deadline_ns: int, stamp_ns: int, row: bytes, decode: Decode) -> None:
        """Append one tick as bytes, which `decode` turns into values when their second is written."""
        with self._lock:
            second = self._open[tier]
            if (
                stamp_ns >= second.ends
                or second.decode is not decode
                or len(second.newest) >= second.capacity
            ):
                second = self._turned(tier, deadline_ns, stamp_ns, decode)
            second.add((deadline_ns, stamp_ns, row))

    def _turned(self, tier: int, deadline: int, stamp: int, decode: Decode) -> RunningSecond:
        """The second of this tick, which begins, or whose rows are decoded in another way from here on."""
        second = self._open[tier]
        if second.rows and (stamp >= second.ends or second.rows >= second.capacity):
            self._cut_ended(stamp, full=second)
            second = self._open[tier]
        if not second.rows:
            second.begin(self._clock.stamp(), deadline, stamp)
        if second.decode is not decode:
            second.turn(decode)
        return second

    def rearrange(self, tiers: Sequence[Tier]) -> None:
        """Begin a part of other tiers, to which `append` refers from now on."""
        with self._lock:
            self._cut_ended(0, everything=True)
            self._cut.append(tiers)
            self._open = [RunningSecond(index, tier) for index, tier in enumerate(tiers)]
        self._wake.set()

    def close(self) -> None:
        """Write the rest, seal and sync. Waits a minute for a disk that hangs."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._wake.set()
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive() or not self._syncer.close(CLOSE_TIMEOUT_S):
            self._on_trouble("gap", f"the disk hangs: the last {len(self._cut)} blocks were not written")

    def _cut_ended(self, now: int, full: RunningSecond | None = None, everything: bool = False) -> None:
        """Hand ended seconds to the thread, all tiers at once, so that a part covers one span. Needs the lock."""
        for index, second in enumerate(self._open):
            if second.rows and (now >= second.ends or second is full or everything or self._closing):
                self._open[index] = RunningSecond(index, second.tier)
                if self._dead or self.pending_bytes + second.size > MAX_PENDING:
                    self.dropped += second.rows
                    self.not_kept[second.tier.name] += second.rows
                    continue
                self.pending_bytes += second.size
                self._cut.append(second)
        self._wake.set()

    def _guarded(self) -> None:
        """Run the thread; an unexpected error ends telemetry with an event, and nothing else."""
        try:
            self._run()
        except Exception as error:
            self._dead = True
            self._on_trouble("disk_error", f"telemetry stops here: {type(error).__name__}: {error}")
            raise

    def _run(self) -> None:
        while not (self._closing and not self._cut and not any(second.rows for second in self._open)):
            self._wake.wait(self._until_next_second())
            self._wake.clear()
            with self._lock:
                self._cut_ended(self._clock.monotonic())
            self._wake.clear()
            while self._cut:
                second = self._cut[0]
                if isinstance(second, RunningSecond):
                    self._write(second)
                else:
                    self._next_part(second)
                with self._lock:
                    self._cut.popleft()
                    self.pending_bytes -= second.size if isinstance(second, RunningSecond) else 0
            self._report_drops()
        self._seal()

    def _until_next_second(self) -> float:
        return 0.0 if self._closing else 1.0 + GRACE_S - self._clock.stamp().wall % SECOND / SECOND

    def _write(self, second: RunningSecond) -> None:
        if self._dead:
            return
        if self._seal_at is None:
            self._seal_at = second.anchor.monotonic + self._seal_after_ns
        if second.anchor.monotonic >= self._seal_at and not self._full:
            self._next_part(self._begun)
            self._seal_at = second.anchor.monotonic + self._seal_after_ns
        self._values += second.rows * len(second.tier.columns)
        if self._values >= SEAL_VALUES:
            self._seal_at = min(self._seal_at, second.ends)
        payload, flags = blocks.encode(second.ticks(), second.tier.period_ns)
        self._put(self._journals[second.index], payload, flags, second.rows, second.anchor)

    def _begin(self, tiers: Sequence[Tier]) -> None:
        """Begin a part; its number belongs to the process that creates its first file."""
        self._values, self._begun, self._seal_at = 0, tiers, None
        try:
            folders = [self._folder / tier.table if self._by_table else self._folder for tier in tiers]
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            with self._journals_lock:
                self._journals = _create(folders, tiers)
        except OSError as error:
            self._stop(error)
            return
        stamp = self._clock.stamp()
        for journal in self._journals:
            for _ in range(2):  # one damaged byte must not cost the whole file
                self._put(journal, journal.schema_text, blocks.SCHEMA, 0, stamp)

    def _next_part(self, tiers: Sequence[Tier]) -> None:
        if self._dead:
            return
        self._seal()
        if self._compactor is not None:
            self._syncer.seal([], self._compact)
        self._begin(tiers)

    def _put(self, journal: _Journal, payload: bytes, flags: int, rows: int, anchor: Stamp) -> None:
        if self._dead:
            return
        try:
            self.bytes_written += journal.put(payload, flags, rows, anchor)
        except OSError as error:
            if error.errno in NO_SPACE and not flags & blocks.SCHEMA:
                self._pause(journal, rows, error)
            else:
                self._stop(error)
        else:
            if rows and self._full:
                self._go_on(journal)

    def _pause(self, journal: _Journal, rows: int, error: OSError) -> None:
        """Give up a block for which the disk is too full; the next second's is tried again."""
        self.not_kept[journal.tier] += rows
        self._lost_to_full += rows
        if not self._full:
            text = f"telemetry pauses here, {self._folder}: {error.strerror}; what was written is kept"
            self._on_trouble("disk_full", text)
        self._full.add(journal.index)

    def _go_on(self, journal: _Journal) -> None:
        self._full.discard(journal.index)
        if not self._full:
            lost, self._lost_to_full = self._lost_to_full, 0
            self._on_trouble("gap", f"the disk has room again: {lost} ticks were not kept while it was full")

    def _stop(self, error: OSError) -> None:
        self._dead = True
        kind = "disk_full" if error.errno in NO_SPACE else "disk_error"
        self._on_trouble(
            kind, f"telemetry stops here, {self._folder}: {error.strerror}; what was written is kept"
        )

    def _seal(self) -> None:
        stamp = self._clock.stamp()
        for journal in self._journals:
            self._put(journal, b"", blocks.SEAL, 0, stamp)
        with self._journals_lock:
            sealed, self._journals = self._journals, []
        self._syncer.seal([journal.file for journal in sealed], lambda: None)

    def _compact(self) -> None:
        if self._compactor is None:
            return
        try:
            self._compactor(self._folder)
        except (OSError, RuntimeError) as error:
            self._on_trouble("compaction", str(error))

    def _copies(self) -> list[int]:
        with self._journals_lock:
            return [os.dup(journal.file) for journal in self._journals]

    def _report_drops(self) -> None:
        new = self.dropped - self._reported_drops
        if new and not self._dead:
            self._reported_drops = self.dropped
            self._on_trouble("gap", f"the disk was too slow: {new} ticks were dropped")


class _Journal:
    """One open file; cuts off what a failed write left of a block."""

    def __init__(self, path: Path, index: int, tier: Tier) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self.schema_text = json.dumps(tier.as_json()).encode()
        self.index, self.tier = index, tier.name
        self._schema = zlib.crc32(self.schema_text)
        self._sequence = self._good = 0

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
            os.ftruncate(self.file, self._good)
            raise
        self._sequence += 1
        self._good += len(data)
        return len(data)


def _create(folders: Sequence[Path], tiers: Sequence[Tier]) -> list[_Journal]:
    """Create the files of a new part; never touches those of another sampler, ended or not."""
    while True:
        number = max(parts.next_number(folder) for folder in folders)
        journals: list[_Journal] = []
        try:
            for index, (folder, tier) in enumerate(zip(folders, tiers, strict=True)):
                journals.append(_Journal(folder / parts.journal_name(tier.name, number), index, tier))
        except FileExistsError:
            for journal in journals:
                os.close(journal.file)
            continue
        return journals
