"""The sampling loop: at absolute deadlines, one row per tick and tier goes into the store.

A late tick fires late and is counted. A tick more than a quarter of a second late is missed: it is counted, and
nothing is filled in. A thread may be stuck in a call forever; when the call returns, `Turn` says whether the
thread may still write.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from gputel.telemetry.clock import SECOND, Clock
from gputel.telemetry.machine import NO_MOMENT, Gpu, GpuLost, Machine, Reader, Report, Values
from gputel.telemetry.readings import Reading
from gputel.telemetry.sampling import plan as planning
from gputel.telemetry.sampling.budget import Budget, SamplingCost

CATCH_UP = SECOND // 4
LOOK_AGAIN = SECOND
FORGOTTEN_AFTER_WAITS = 10
"""A call that stalls once a minute costs its GPU a second; one that hangs at each try is tried ever less often."""
PR_SET_TIMERSLACK = 29
SCHED_RESET_ON_FORK = 0x40000000
NICE = -10


class TickStore(Protocol):
    """Where the loop puts its rows."""

    def append(self, tier: int, deadline_ns: int, stamp_ns: int, values: Sequence[int | None]) -> None: ...

    def close(self) -> None: ...


DriverCall = tuple[int, Gpu, int]
"""A call into the driver that has not returned: generation, GPU, start. A plain tuple, the fastest to make."""


class Stale(Exception):  # noqa: N818 - ends a thread that lost its turn
    """Another thread samples now."""


@dataclass
class Turn:
    """Whose turn it is to sample: only the thread of the current generation may write."""

    generation: int = 0
    stopping: bool = False
    entered: DriverCall | None = None
    left_out: set[Gpu] = field(default_factory=set)
    """GPUs not sampled, because a thread is or was stuck in a call to them."""
    hangs: dict[Gpu, int] = field(default_factory=dict)
    """How many calls to each GPU have hung, one soon after the other."""
    forgotten_at: dict[Gpu, int] = field(default_factory=dict)
    """When the hangs of a GPU that has answered since then no longer count."""
    returned: dict[Gpu, int] = field(default_factory=dict)
    """GPUs of `left_out` whose call has returned, and when to try them again."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def calling(self, gpu: Gpu, generation: int, clock: Clock) -> Iterator[None]:
        """Enter a call into the driver, which the watchdog sees. Raises Stale if it gave up on the call."""
        self.entered = generation, gpu, clock.monotonic()
        try:
            yield
        finally:
            if self.generation != generation:
                self.come_back(gpu, clock.monotonic())
            self.entered = None

    def come_back(self, gpu: Gpu, now: int) -> NoReturn:
        """A call returned after the watchdog gave up on it: schedule the next try, later each time."""
        wait = min(60, 2 ** self.hangs.get(gpu, 1) // 2) * SECOND
        self.returned[gpu] = now + wait
        self.forgotten_at[gpu] = now + FORGOTTEN_AFTER_WAITS * wait
        raise Stale


@dataclass
class GpuShare:
    """One GPU's part of a tier's row; all None while it has no reader."""

    gpu: Gpu
    readings: tuple[Reading, ...]
    reader: Reader | None
    blank: tuple[None, ...]
    read_at: int = 0
    """When its last read ended: its counters are of that moment, however long the other GPUs took.

    NO_MOMENT after a read that took long: at which moment of it a counter was read is not known.
    """


@dataclass
class TierLoop:
    """One tier while it is sampled; `due` is its next tick."""

    number: int
    name: str
    due: int
    parts: list[GpuShare]


class Loop:
    """The sampling of one thread. Its successor is a Loop with the same plan, store, cost, budget and turn."""

    def __init__(
        self,
        machine: Machine,
        plan: planning.SamplingPlan,
        store: TickStore,
        clock: Clock,
        *,
        cost: SamplingCost,
        budget: Budget,
        turn: Turn,
        report: Report,
        show: Callable[[int, Values], None] | None = None,
    ) -> None:
        self._machine, self._plan, self._store, self._clock = machine, plan, store, clock
        self._cost, self._budget, self._turn = cost, budget, turn
        self._report, self._show = report, show
        self._generation = turn.generation
        self._period = round(SECOND / plan.hz)
        self._long_read = self._period // 4
        self._tick = 0
        self._looked = clock.monotonic()
        self._tier_loops = [self._tier_loop(number, planned) for number, planned in enumerate(plan.tiers)]

    def run(self, until: int | None = None) -> None:
        """Sample until `turn.stopping`, until the turn is lost, or until the monotonic time `until`."""
        try:
            now = self._clock.monotonic()
            self._budget.begin(now)
            if self._cost.last is not None:  # this thread takes over from one that is stuck
                self._cost.missed += (now - self._cost.last) // self._period
            deadline = now + self._period
            while not self._turn.stopping and (until is None or deadline <= until):
                if not self._sleep(deadline):
                    return
                self._cost.tick(deadline, self._clock.monotonic())
                self._fire(deadline)
                self._chores()
                deadline = self._next(deadline)
        except Stale:
            return

    def _sleep(self, deadline: int) -> bool:
        """Sleep in short naps, so that a slow rate does not delay the end; False if it is time to stop."""
        while deadline - self._clock.monotonic() > CATCH_UP:
            if self._turn.stopping:
                return False
            self._clock.sleep_until(self._clock.monotonic() + CATCH_UP)
        self._clock.sleep_until(deadline)
        return True

    def _next(self, deadline: int) -> int:
        behind = self._clock.monotonic() - deadline - self._period
        missed = behind // self._period if behind > CATCH_UP else 0
        self._cost.missed += missed
        self._tick += 1 + missed
        return deadline + (1 + missed) * self._period

    def _fire(self, deadline: int) -> None:
        for tier_loop in self._tier_loops:
            if self._tick >= tier_loop.due:
                tier_loop.due = self._tick + self._budget.every[tier_loop.number]
                self._read(tier_loop, deadline)

    def _read(self, tier_loop: TierLoop, deadline: int) -> None:
        monotonic, turn, generation = self._clock.monotonic, self._turn, self._generation
        stamp = now = monotonic()
        for part in tier_loop.parts:
            if part.reader is not None:
                turn.entered = generation, part.gpu, now
                began = now
                part.reader.ask()
                now = monotonic()
                part.read_at = now if now - began < self._long_read else NO_MOMENT
                if turn.generation != generation:
                    turn.come_back(part.gpu, now)
        turn.entered = None
        self._cost.inside_ns[tier_loop.name] += now - stamp
        self._budget.add(tier_loop.number, now - stamp)
        values = self._answers(tier_loop.parts)
        with turn.lock:
            if turn.generation != generation:
                raise Stale
            self._store.append(tier_loop.number, deadline, stamp, values)
        self._cost.rows[tier_loop.name] += 1
        if self._show is not None:
            self._show(tier_loop.number, values)

    def _answers(self, parts: Sequence[GpuShare]) -> list[int | None]:
        values: list[int | None] = []
        for part in parts:
            try:
                values += part.blank if part.reader is None else part.reader.answer(part.read_at)
            except GpuLost as lost:
                values += part.blank
                self._lose(part.gpu, lost)
        return values

    def _lose(self, gpu: Gpu, lost: GpuLost) -> None:
        for part in self._parts(gpu):
            part.reader = None
        self._report("gpu_lost", f"GPU {gpu.index} does not answer: {lost}", gpu=gpu.index)

    def _chores(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked < LOOK_AGAIN:
            return
        self._cost.look(now)
        self._budget.judge(now)
        self._look_at_counters()
        for gpu in self._absent():
            if gpu not in self._turn.left_out:
                self._readmit(gpu, "answers again")
            elif self._turn.returned.get(gpu, now + 1) <= now:
                self._readmit(gpu, "answers again after a call that hung")
        self._looked = self._clock.monotonic()

    def _look_at_counters(self) -> None:
        """Note how often each counter is refreshed, and report once those that give no rate."""
        parts = [part for tier_loop in self._tier_loops for part in tier_loop.parts]
        states, unknown = self._cost.counters, dict[str, list[tuple[str, str]]]()
        for gpu, reader in ((part.gpu.index, part.reader) for part in parts if part.reader):
            for name, state in reader.counters().items():
                before = states.get((gpu, name))
                states[gpu, name] = state
                if state.unknown and not (before and before.unknown):
                    unknown.setdefault(state.unknown, []).append((gpu, name))
        for why, rates in unknown.items():
            gpus, names = (list(dict.fromkeys(part)) for part in zip(*rates, strict=True))
            text = f"GPU {', '.join(gpus)}: no {', '.join(names)}: {why}"
            self._report("unknown_rate", text, gpus=gpus, readings=names, why=why)

    def _absent(self) -> set[Gpu]:
        return {part.gpu for tier_loop in self._tier_loops for part in tier_loop.parts if part.reader is None}

    def _readmit(self, gpu: Gpu, how: str) -> None:
        try:
            with self._turn.calling(gpu, self._generation, self._clock):
                self._machine.revive(gpu)
                readers = [self._machine.reader(gpu, part.readings) for part in self._parts(gpu)]
        except GpuLost:
            return
        for part, reader in zip(self._parts(gpu), readers, strict=True):
            part.reader = reader
        self._turn.left_out.discard(gpu)
        self._turn.returned.pop(gpu, None)
        self._report("gpu_back", f"GPU {gpu.index} {how}", gpu=gpu.index)

    def _parts(self, gpu: Gpu) -> list[GpuShare]:
        return [part for tier_loop in self._tier_loops for part in tier_loop.parts if part.gpu is gpu]

    def _tier_loop(self, number: int, planned: planning.PlannedTier) -> TierLoop:
        parts = [
            GpuShare(gpu, readings, self._reader(gpu, readings), (None,) * len(readings))
            for gpu, readings in planned.parts
        ]
        return TierLoop(number, planned.tier.name, number if planned.every > number else 0, parts)

    def _reader(self, gpu: Gpu, readings: Sequence[Reading]) -> Reader | None:
        """A reader; None for a GPU that is lost or hangs, which `_chores` tries again."""
        if gpu in self._turn.left_out:
            return None
        try:
            with self._turn.calling(gpu, self._generation, self._clock):
                return self._machine.reader(gpu, readings)
        except GpuLost:
            return None


def raise_priority() -> str:
    """Ask for timely wake-ups, for the calling thread alone; returns `SCHED_FIFO`, `nice -10` or `normal`."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_FIFO | SCHED_RESET_ON_FORK, os.sched_param(1))
        return "SCHED_FIFO"
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER | SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        return f"nice {NICE}"
    return "normal"
