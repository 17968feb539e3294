"""Records the machine around the GPUs, in a thread of its own beside the one that samples them.

Takes the folder of a segment; writes the tables of `columns.py` into folders of it. Reads the fast sources ten
times a second, the slow ones once. If all of it costs more than the budget, expensive sources are read less often.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gputel.telemetry.clock import SECOND, Clock
from gputel.telemetry.errors import unexpected
from gputel.telemetry.host.columns import FAST, HZ, PROCESSES, SLOW
from gputel.telemetry.host.gpu_users import GpuUsage
from gputel.telemetry.host.kernel_files import HostSource, Values
from gputel.telemetry.host.process_names import ProcessNames
from gputel.telemetry.host.processes import ProcessTree, raise_file_limit
from gputel.telemetry.host.sources import arrange, open_sources
from gputel.telemetry.machine import Report, UserLook
from gputel.telemetry.store import compact
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import PROCESS, Tier, TierColumn

BUDGET = 0.005
"""Share of a core, for all reads together."""
ROOM = 0.7
"""Share of the budget: a source is read as often as before where all of it would take no more than this."""
PERIOD = round(SECOND / HZ[FAST])
CATCH_UP = SECOND
"""A thread that is later than this leaves out the ticks that it missed."""
JUDGE_EVERY = 10 * SECOND
MEASURE_EVERY = 16
"""The cost of one read in so many is measured."""
PROCESS_TIER = Tier(
    SLOW,
    HZ[SLOW],
    tuple(TierColumn(column.name, column.unit, column.per_unit) for column in PROCESSES),
    PROCESS,
)
RAREST = 60 * SECOND // PERIOD
"""Ticks between two reads of the dearest source, at most."""


@dataclass
class PacedLook:
    """Something that is read every so many ticks, and the CPU time of a read."""

    name: str = "processes"
    usual: int = round(SECOND / HZ[SLOW]) // PERIOD
    cost_ns: int = 0

    def __post_init__(self) -> None:
        self.every = self.usual

    @property
    def lowered(self) -> bool:
        return self.every > self.usual

    @property
    def share(self) -> float:
        """The share of a core that it takes."""
        return self.cost_ns / (self.every * PERIOD)

    def as_json(self) -> dict[str, object]:
        lowered = {"lowered": True} if self.lowered else {}
        return {"hz": SECOND / (self.every * PERIOD), "cpu_us": self.cost_ns / 1000, **lowered}


@dataclass
class PacedSource(PacedLook):
    """A source of the machine."""

    source: HostSource = field(kw_only=True)
    blank: Values = field(kw_only=True)
    reads: int = 0

    def read(self, tick: int) -> Values:
        """Its values; nulls in ticks that it leaves out."""
        if tick % self.every:
            return self.blank
        self.reads += 1
        if self.reads % MEASURE_EVERY != 1:
            return self.source.read()
        began = time.thread_time_ns()
        values = self.source.read()
        self.cost_ns = time.thread_time_ns() - began
        return values

    def as_json(self) -> dict[str, object]:
        fault = {"fault": self.source.fault} if self.source.fault else {}
        return {"table": self.source.table, **PacedLook.as_json(self), **fault}


@dataclass
class HostTier:
    """A tier of a table: rows of all its sources, every so many ticks."""

    tier: Tier
    every: int
    sources: list[PacedSource]


@dataclass
class ThreadShare:
    """The share of a core that a thread took after its first second, in which it opens and reads everything."""

    began: int | None = None
    startup: tuple[int, int] | None = None
    """When the first second was over, and the CPU time until then; so is `last`."""
    last: tuple[int, int] = (0, 0)

    def look(self, now: int, spent: int) -> None:
        """Count the CPU time that the thread has spent until `now`."""
        self.began = now if self.began is None else self.began
        if self.startup is None and now - self.began >= SECOND:
            self.startup = now, spent
        self.last = now, spent

    @property
    def value(self) -> float | None:
        """None before two seconds: one read too many would double a share of less."""
        if self.startup is None or (took := self.last[0] - self.startup[0]) < SECOND:
            return None
        return (self.last[1] - self.startup[1]) / took


class HostRecorder:
    """`start` and `close` it; `as_json` describes it for run.json."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        report: Report,
        *,
        root: Path = Path("/"),
        command: int | None = None,
        gpu_users: Mapping[str, UserLook] | None = None,
        budget: float = BUDGET,
    ) -> None:
        """`command` is the process whose tree is recorded; `gpu_users` has what the driver says of each GPU."""
        self._folder, self._clock, self._report, self._budget = folder, clock, report, budget
        self._tiers = [_paced(tier, sources) for tier, sources in arrange(open_sources(root, command))]
        self._paced = [paced for host_tier in self._tiers for paced in host_tier.sources]
        self._root, self._command = root, command
        self._gpu_users = {} if gpu_users is None else gpu_users
        self._tree: ProcessTree | None = None
        self._usage: GpuUsage | None = None
        self._names: ProcessNames | None = None
        self._looked = PacedLook()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name="host", daemon=True)
        self._store: Writer | None = None
        self._spent_ns = self._judged_ns = 0
        self._share = ThreadShare()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop and seal the tables."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(2.0)
        if self._store is not None and not self._thread.is_alive():
            self._store.close()
            for paced in self._paced:
                paced.source.close()
            if self._tree is not None:
                self._tree.close()
            if self._names is not None:
                self._names.close()

    def spent_ns(self) -> int:
        """CPU time of the thread so far."""
        return self._share.last[1]

    def as_json(self) -> dict[str, object]:
        looked = [] if self._tree is None else [self._looked]
        share = self._share.value
        fault = self._usage.faults() if self._usage is not None else None
        unread = {"GPU users": {"table": PROCESS, "fault": fault}} if fault else {}
        return {
            "sources": {paced.name: paced.as_json() for paced in [*self._paced, *looked]} | unread,
            "cpu_share": None if share is None else round(share, 6),
        }

    def _guarded(self) -> None:
        try:
            self.open()
            self._run()
        except Exception as error:
            fault = unexpected("host", error).fault
            self._report("gap", f"the host is not recorded from here on: {fault}")
            raise

    def open(self) -> None:
        """Create the tables; `start` does so in the thread."""
        if self._command is not None:
            raise_file_limit()
            self._names = ProcessNames(self._folder / PROCESS, self._root, self._clock)
            usage = GpuUsage(self._root, self._clock, self._command, self._names, self._gpu_users)
            self._tree, self._usage = ProcessTree(self._root, self._command, self._names, usage), usage
        parts = PartWriter(
            self._folder,
            self._stored(),
            self._clock,
            on_trouble=self._report,
            compactor=self._compact,
            by_table=True,
        )
        self._store = Writer(parts)

    def _stored(self) -> list[Tier]:
        tiers = [host_tier.tier for host_tier in self._tiers]
        return tiers if self._tree is None else [*tiers, PROCESS_TIER]

    def _compact(self, folder: Path) -> None:
        compact.start(*dict.fromkeys(folder / tier.table for tier in self._stored()))

    def _run(self) -> None:
        clock, tick = self._clock, 0
        deadline = self._judged_ns = clock.monotonic()
        self._spent_ns = time.thread_time_ns()
        while not self._stopping.is_set():
            self.tick(tick, deadline)
            now = clock.monotonic()
            self._share.look(now, time.thread_time_ns())
            if now - self._judged_ns >= JUDGE_EVERY:
                self.judge(now)
            missed = (now - deadline) // PERIOD if now - deadline > CATCH_UP else 0
            tick += 1 + missed
            deadline += (1 + missed) * PERIOD
            clock.sleep_until(deadline)
        # of every source: what ended the command may have been counted since the last read
        self.tick(0, deadline)

    def tick(self, tick: int, deadline: int) -> None:
        """Read what is due; each row is stamped when its first source is read."""
        assert self._store is not None
        for number, host_tier in enumerate(self._tiers):
            if tick % host_tier.every == 0:
                stamp = self._clock.monotonic()
                parts = [paced.read(tick) for paced in host_tier.sources]
                row = parts[0] if len(parts) == 1 else tuple(value for part in parts for value in part)
                self._store.append(number, deadline, stamp, row)
        if self._tree is not None and tick % self._looked.every == 0:
            began, stamp = time.thread_time_ns(), self._clock.monotonic()
            for row in self._tree.rows():
                self._store.append(len(self._tiers), deadline, stamp, row)
            self._looked.cost_ns = time.thread_time_ns() - began

    def judge(self, now: int) -> None:
        """Read the dearest source more rarely over the budget, and more often again where there is room."""
        spent = time.thread_time_ns()
        share = (spent - self._spent_ns) / (now - self._judged_ns)
        self._spent_ns, self._judged_ns = spent, now
        looks = [*self._paced, self._looked]
        took = f"the host's sources took {share:.2%} of a core"
        if share > self._budget:
            dearest = max(looks, key=lambda look: look.share)
            self._pace(dearest, min(RAREST, dearest.every * 2), f"{took}, more than {self._budget:.1%}")
        elif lowered := [look for look in looks if look.lowered]:
            cheapest = min(lowered, key=lambda look: look.share)
            if share + cheapest.share <= ROOM * self._budget:
                self._pace(cheapest, max(cheapest.usual, cheapest.every // 2), f"{took}: there is room again")

    def _pace(self, look: PacedLook, every: int, why: str) -> None:
        if every == look.every:
            return
        before, after = SECOND / (look.every * PERIOD), SECOND / (every * PERIOD)
        look.every = every
        text = f"{look.name} is read at {after:.3g} Hz instead of {before:.3g}: {why}"
        self._report("rate", text, tier=look.name, **{"from": before, "to": after, "why": why})


def _paced(tier: Tier, sources: Sequence[HostSource]) -> HostTier:
    every = round(SECOND / tier.hz) // PERIOD
    paced = [
        PacedSource(
            source.name, every, source=source, blank=(None,) * (len(source.columns) * len(source.subjects))
        )
        for source in sources
    ]
    return HostTier(tier, every, paced)
