"""Journals: what the sampler appends while it records, readable at any moment and after a crash.

There is one file per tier, with one block per second, written in one call: `kill -9` costs what came since the
last whole second. The caller never waits: one thread encodes, another one (`PartWriter`) writes, and what they
cannot keep up with waits in bounded memory; beyond that, ticks are dropped, counted and reported.

A block ends with a second of wall time, so that no block and no part cuts a second in two.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gputel.telemetry.characters import parse_json
from gputel.telemetry.clock import SECOND
from gputel.telemetry.store import blocks
from gputel.telemetry.store.blocks import Fault, JournalBlock, Ticks
from gputel.telemetry.store.part_writer import EncodedSecond, PartWriter
from gputel.telemetry.store.second import Decode, RunningSecond, pack, unpack
from gputel.telemetry.store.tiers import Tier, count_by_table, tier_from_json

HEAD = 64 * 1024  # bytes that contain both schema blocks
GRACE_S = 0.05
"""How long a second waits for the tick that ends it: right after a tick is the best time to hold Python's lock."""
MAX_PENDING = 32 * 1024 * 1024
CLOSE_TIMEOUT_S = 60.0


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
    """Takes ticks and encodes them by the second, which its `PartWriter` writes into the journals of all tiers."""

    def __init__(self, parts: PartWriter) -> None:
        self.dropped = 0
        self._parts, self._clock, self._on_trouble = parts, parts.clock, parts.on_trouble
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._open = [RunningSecond(index, tier) for index, tier in enumerate(parts.tiers)]
        self._cut: deque[RunningSecond | Sequence[Tier]] = deque()
        """Ended seconds, and tiers that begin after them."""
        self._raw_bytes = 0
        self._to_report: Counter[Tier] = Counter()
        """Dropped ticks that no event names yet."""
        self._closing = False
        self._not_kept: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._guarded, name="gputel-journal", daemon=True)
        self._thread.start()

    @property
    def bytes_written(self) -> int:
        return self._parts.bytes_written

    @property
    def pending_bytes(self) -> int:
        """Bytes in memory that wait to be encoded or written."""
        return self._raw_bytes + self._parts.pending_bytes

    @property
    def not_kept(self) -> Counter[str]:
        """Rows by tier that the disk did not take, or too slowly."""
        return self._not_kept + self._parts.not_kept

    def append(self, tier: int, deadline_ns: int, stamp_ns: int, values: Sequence[int | None]) -> None:
        """Append one tick, in monotonic time; keeps the stamp to the microsecond. Never waits for the disk."""
        self.append_raw(tier, deadline_ns, stamp_ns, pack(values), unpack)

    def append_raw(self, tier: int, deadline_ns: int, stamp_ns: int, row: bytes, decode: Decode) -> None:
        """Append one tick as bytes, which `decode` turns into values when their second has ended."""
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

    def close(self, patience_s: float = CLOSE_TIMEOUT_S) -> None:
        """Write the rest, seal and sync. Gives up on a disk that hangs longer, and reports what was left behind."""
        latest = time.monotonic() + patience_s
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._wake.set()
        self._thread.join(patience_s)
        self._parts.close(max(0.0, latest - time.monotonic()))

    def _cut_ended(self, now: int, full: RunningSecond | None = None, everything: bool = False) -> None:
        """Hand ended seconds to the thread, all tiers at once, so that a part covers one span. Needs the lock."""
        for index, second in enumerate(self._open):
            if second.rows and (now >= second.ends or second is full or everything or self._closing):
                self._open[index] = RunningSecond(index, second.tier)
                if self._parts.dead or self.pending_bytes + second.size > MAX_PENDING:
                    self.dropped += second.rows
                    self._not_kept[second.tier.name] += second.rows
                    self._to_report[second.tier] += second.rows
                    continue
                self._raw_bytes += second.size
                self._cut.append(second)
        self._wake.set()

    def _guarded(self) -> None:
        """Run the thread; an unexpected error ends telemetry with an event, and nothing else."""
        try:
            self._run()
        except Exception as error:
            self._parts.fail(error)
            raise

    def _run(self) -> None:
        while not (self._closing and not self._cut and not any(second.rows for second in self._open)):
            self._wake.wait(self._until_next_second())
            self._wake.clear()
            with self._lock:
                self._cut_ended(self._clock.monotonic())
                cut = list(self._cut)
            self._wake.clear()
            if cut:
                self._parts.put([_encoded(one) if isinstance(one, RunningSecond) else one for one in cut])
            with self._lock:
                for one in cut:
                    self._cut.popleft()
                    self._raw_bytes -= one.size if isinstance(one, RunningSecond) else 0
            self._report_drops()

    def _until_next_second(self) -> float:
        return 0.0 if self._closing else 1.0 + GRACE_S - self._clock.stamp().wall % SECOND / SECOND

    def _report_drops(self) -> None:
        with self._lock:
            new, self._to_report = self._to_report, Counter()
        if new and not self._parts.dead:
            self._on_trouble("gap", f"the disk was too slow: {count_by_table(new)} were dropped")


def _encoded(second: RunningSecond) -> EncodedSecond:
    payload, flags = blocks.encode(second.ticks(), second.tier.period_ns)
    return EncodedSecond(second.index, payload, flags, second.rows, second.anchor, second.ends)


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
        self._tier = self._tier or tier_of(complete)
        if self._tier is None:
            return None
        columns, period_ns = len(self._tier.columns), self._tier.period_ns
        return self._tier, [blocks.decode(block, columns, period_ns) for block in complete if block.rows]
