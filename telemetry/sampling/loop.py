"""The sampling loop: at absolute deadlines, one row per tick and tier goes into the store.

A late tick fires late and is counted. A tick more than a quarter of a second late is missed: it is counted, and
nothing is filled in. When a call returns that was stuck, `Turn` says whether the thread may still write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Protocol

from gputel.telemetry.clock import SECOND, Clock
from gputel.telemetry.machine import NO_MOMENT, BufferedReader, Gpu, GpuLost, Machine, Reader, Report, Values
from gputel.telemetry.readings import Reading, ReadingRate
from gputel.telemetry.sampling import plan as planning
from gputel.telemetry.sampling import watchdog
from gputel.telemetry.sampling.budget import Budget, CallKey, ReadCost
from gputel.telemetry.sampling.cost import SamplingCost
from gputel.telemetry.sampling.gpu_users import UserLooks
from gputel.telemetry.sampling.rows import RawTier
from gputel.telemetry.sampling.tier_loop import GpuRead, GpuShare, TierLoop
from gputel.telemetry.sampling.watchdog import Stale, Turn
from gputel.telemetry.store.second import Decode
from gputel.telemetry.store.tiers import Tier

CATCH_UP = SECOND // 4
LOOK_AGAIN = SECOND
APART = SECOND // 10
"""Between two samples of activity: of closer ones the driver computes nothing."""
JUDGED_HZ = 2
"""How many reads of a tier the budget sees in a second: asking for the thread's usage costs more than a read."""


class TickStore(Protocol):
    """Where the loop puts its rows."""

    def append(self, tier: int, deadline_ns: int, stamp_ns: int, values: Sequence[int | None]) -> None: ...

    def append_raw(self, tier: int, deadline_ns: int, stamp_ns: int, row: bytes, decode: Decode) -> None: ...

    def rearrange(self, tiers: Sequence[Tier]) -> None: ...

    def close(self) -> None: ...


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
        latest: MutableMapping[int, tuple[Values | bytes, RawTier | None]] | None = None,
        rearranged: Callable[[planning.SamplingPlan], None] | None = None,
        users: UserLooks | None = None,
    ) -> None:
        self._machine, self._plan, self._store, self._clock = machine, plan, store, clock
        self._cost, self._budget, self._turn = cost, budget, turn
        self._report, self._latest = report, {} if latest is None else latest
        self._rearranged, self._users = rearranged, users
        self._generation = turn.generation
        self._period = round(SECOND / plan.hz)
        self._tick = 0
        self._looked = clock.monotonic()
        self._judge_every = max(1, round(plan.hz / JUDGED_HZ))
        self._tier_loops = [self._tier_loop(number, planned) for number, planned in enumerate(plan.tiers)]
        self._arrange()

    def run(self, until: int | None = None) -> None:
        """Sample until `turn.stopping`, until the turn is lost, or until the monotonic time `until`."""
        monotonic, turn = self._clock.monotonic, self._turn
        try:
            now = monotonic()
            self._budget.begin(now)
            if self._cost.last is not None:  # this thread takes over from one that is stuck
                self._cost.missed += (now - self._cost.last) // self._period
            deadline = now + self._period
            while not turn.stopping and (until is None or deadline <= until):
                if self._period > CATCH_UP and not self._nap(deadline):
                    return
                self._clock.sleep_until(deadline)
                now = self._fire(deadline, monotonic())
                if now - self._looked >= LOOK_AGAIN:
                    self._chores(now)
                    now = self._looked = monotonic()
                deadline = self._next(deadline, now)
        except Stale:
            return
        finally:
            self._cost.count_delays()

    def _nap(self, deadline: int) -> bool:
        """Sleep in short naps, so that a slow rate does not delay the end; False if it is time to stop."""
        while deadline - self._clock.monotonic() > CATCH_UP:
            if self._turn.stopping:
                return False
            self._clock.sleep_until(self._clock.monotonic() + CATCH_UP)
        return True

    def _next(self, deadline: int, now: int) -> int:
        behind = now - deadline - self._period
        missed = behind // self._period if behind > CATCH_UP else 0
        self._cost.missed += missed
        self._tick += 1 + missed
        return deadline + (1 + missed) * self._period

    def _fire(self, deadline: int, now: int) -> int:
        """Read each tier that is due; returns when the last read ended."""
        self._cost.tick(deadline, now)
        for tier_loop in self._tier_loops:
            if self._tick >= tier_loop.due:
                now = self._read(tier_loop, deadline, now)
        return now

    def _read(self, tier_loop: TierLoop, deadline: int, began: int) -> int:
        """Ask the GPUs of a tier that are left, and take the row once all were asked; returns when that ended."""
        reads_all = tier_loop.every == 1
        if reads_all or len(tier_loop.left) == len(tier_loop.work):
            tier_loop.deadline, tier_loop.stamp = deadline, began
            tier_loop.cost = ReadCost() if self._tick >= tier_loop.judged else None
        if reads_all:
            now = self._ask(tier_loop, tier_loop.work, began)
        else:
            now = self._ask_in_turn(tier_loop, deadline + self._period, began)
        tier_loop.counted.inside_ns += now - began
        if reads_all or not tier_loop.left:
            self._take(tier_loop)
            soonest = -(-(now + tier_loop.apart - deadline) // self._period) if tier_loop.apart else 0
            tier_loop.plan_next(self._tick, self._tick + soonest)
        return now

    def _ask_in_turn(self, tier_loop: TierLoop, until: int, now: int) -> int:
        """Ask one GPU after the other, as long as the next one is likely to answer before the next tick.

        One that takes longer than half a period is asked in the first half. A read that is late does not wait.
        """
        may_wait = not tier_loop.is_late(self._tick)
        while tier_loop.left:
            place = tier_loop.left[0].place
            if may_wait and now + min(tier_loop.took[place], self._period // 2) > until:
                break
            began, now = now, self._ask(tier_loop, tier_loop.left[:1], now)
            tier_loop.took[place] = now - began
            del tier_loop.left[0]
        return now

    def _take(self, tier_loop: TierLoop) -> None:
        """Put what the GPUs have answered into the store."""
        turn = self._turn
        if tier_loop.cost is not None:
            self._budget.add(tier_loop.number, tier_loop.cost)
            tier_loop.judged = self._tick + self._judge_every
        if tier_loop.failed:
            self._check(tier_loop)
        raw, deadline, stamp = tier_loop.raw, tier_loop.deadline, tier_loop.stamp
        row = self._answers(tier_loop) if raw is None else raw.take()
        with turn.lock:
            if turn.generation != self._generation:
                raise Stale
            if raw is not None and isinstance(row, bytes):
                self._store.append_raw(tier_loop.number, deadline, stamp, row, raw.decode)
            else:
                self._store.append(tier_loop.number, deadline, stamp, row)
        tier_loop.counted.rows += 1
        self._latest[tier_loop.number] = row, raw

    def _ask(self, tier_loop: TierLoop, reads: Sequence[GpuRead], now: int) -> int:
        """Ask GPUs of a tier from `now` on; returns when that ended."""
        if tier_loop.cost is not None:
            return self._ask_and_time(tier_loop, tier_loop.cost, reads, now)
        monotonic, turn, generation = self._clock.monotonic, self._turn, self._generation
        times, long_read = tier_loop.times, tier_loop.long_read
        for place, gpu, reader, calls, _ in reads:
            turn.entered = generation, gpu, now
            for function, arguments in calls:
                if function(*arguments):
                    reader.ask()
                    tier_loop.failed = True
                    break
            began, now = now, monotonic()
            times[place] = now
            if now - began >= long_read:
                self._took_long(tier_loop, place, gpu, now)
        turn.entered = None
        for reader in tier_loop.asked:
            if reader.failed:
                tier_loop.failed = True
        return now

    def _took_long(self, tier_loop: TierLoop, place: int, gpu: Gpu, now: int) -> None:
        """Note a read of which the watchdog may have given up the call. Raises Stale if it has."""
        tier_loop.times[place] = NO_MOMENT
        if self._turn.generation != self._generation:
            self._turn.come_back(gpu, now)

    def _ask_and_time(self, tier_loop: TierLoop, cost: ReadCost, reads: Sequence[GpuRead], now: int) -> int:
        """Ask as `_ask` does, and add what each call takes to the cost of the read."""
        monotonic, turn, generation = self._clock.monotonic, self._turn, self._generation
        spent, costs = self._budget.spending(), list[tuple[CallKey, int]]()
        for place, gpu, reader, _, names in reads:
            turn.entered, began = (generation, gpu, now), now
            costs += zip(names, reader.timed(monotonic), strict=True)
            now = tier_loop.times[place] = monotonic()
            if now - began >= tier_loop.long_read:
                self._took_long(tier_loop, place, gpu, now)
            tier_loop.failed |= reader.failed
        turn.entered = None
        cost.add(costs, spent, self._budget.spending())
        return now

    def _check(self, tier_loop: TierLoop) -> None:
        """Lose the GPUs that no longer answer."""
        tier_loop.failed = False
        for part in tier_loop.parts:
            if isinstance(part.reader, BufferedReader) and part.reader.failed:
                try:
                    part.reader.check()
                except GpuLost as lost:
                    self._lose(part.gpu, lost)
        tier_loop.arrange()

    def _answers(self, tier_loop: TierLoop) -> list[int | None]:
        values: list[int | None] = []
        for part, read_at in zip(tier_loop.parts, tier_loop.times, strict=True):
            try:
                values += part.blank if part.reader is None else part.reader.answer(read_at)
            except GpuLost as lost:
                values += part.blank
                self._lose(part.gpu, lost)
        return values

    def _lose(self, gpu: Gpu, lost: GpuLost) -> None:
        for part in self._parts(gpu):
            part.reader = None
        self._arrange()
        report_lost(self._report, gpu, str(lost))

    def _rearrange(self, plan: planning.SamplingPlan) -> None:
        """Sample by another plan from here on; GPUs that are lost stay so."""
        lost, self._plan = self._absent(), plan
        self._store.rearrange([planned.tier for planned in plan.tiers])
        self._latest.clear()
        if self._rearranged is not None:
            self._rearranged(plan)
        self._tier_loops = [
            self._tier_loop(number, planned, lost) for number, planned in enumerate(plan.tiers)
        ]
        self._arrange()

    def _arrange(self) -> None:
        for tier_loop in self._tier_loops:
            tier_loop.arrange()

    def _chores(self, now: int) -> None:
        self._cost.look(now)
        if (plan := self._budget.judge(now)) is not None:
            self._rearrange(plan)
        self._budget.judge_mean(now, sum(tier.inside_ns for tier in self._cost.tiers.values()))
        for tier_loop, every in zip(self._tier_loops, self._budget.every, strict=True):
            tier_loop.every = every
        self.look_at_counters()
        self._look_at_faults()
        for gpu in self._absent():
            if gpu not in self._turn.left_out:
                self._readmit(gpu, "answers again")
            elif self._turn.returned.get(gpu, now + 1) <= now:
                self._readmit(gpu, "answers again after a call that hung")
        for tier_loop in self._tier_loops:
            if any(read.reader.failed for read in tier_loop.work):  # known since its rows were decoded
                self._check(tier_loop)
            if any(reader.prepared for reader in tier_loop.asked):
                tier_loop.arrange()
        if self._users is not None and (asked := self._users.due(now, self._absent())) is not None:
            with self._turn.calling(asked, self._generation, self._clock):
                self._users.ask(asked)

    def look_at_counters(self) -> None:
        """Note how often each counter is refreshed, and report once those that give no rate."""
        states, unknown = self._cost.counters, dict[str, list[tuple[str, str]]]()
        for gpu, reader in self._readers():
            for name, state in reader.counters().items():
                before = states.get((gpu, name))
                states[gpu, name] = state
                if state.unknown and not (before and before.unknown):
                    unknown.setdefault(state.unknown, []).append((gpu, name))
        self._report_missing("unknown_rate", unknown)

    def _look_at_faults(self) -> None:
        """Report once each error that the driver answers to a reading which it gave when it was probed."""
        known, new = self._cost.faults, dict[str, list[tuple[str, str]]]()
        for gpu, reader in self._readers():
            for name, fault in reader.faults().items():
                if (gpu, name, fault) not in known:
                    known.add((gpu, name, fault))
                    new.setdefault(f"the driver answers {fault}", []).append((gpu, name))
        self._report_missing("no_reading", new)

    def _report_missing(self, kind: str, reasons: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        """Write an event for each reason, with the GPUs and readings that it keeps from the tables."""
        for why, missing in reasons.items():
            gpus, names = (list(dict.fromkeys(part)) for part in zip(*missing, strict=True))
            text = f"GPU {', '.join(gpus)}: no {', '.join(names)}: {why}"
            self._report(kind, text, gpus=gpus, readings=names, why=why)

    def _readers(self) -> list[tuple[str, Reader]]:
        """Each reader with the index of its GPU."""
        parts = [part for tier_loop in self._tier_loops for part in tier_loop.parts]
        return [(part.gpu.index, part.reader) for part in parts if part.reader is not None]

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
        self._arrange()
        self._turn.left_out.discard(gpu)
        self._turn.returned.pop(gpu, None)
        self._report("gpu_back", f"GPU {gpu.index} {how}", gpu=gpu.index)

    def _parts(self, gpu: Gpu) -> list[GpuShare]:
        return [part for tier_loop in self._tier_loops for part in tier_loop.parts if part.gpu is gpu]

    def _tier_loop(self, number: int, planned: planning.PlannedTier, lost: Collection[Gpu] = ()) -> TierLoop:
        parts = [
            GpuShare(
                gpu, readings, None if gpu in lost else self._reader(gpu, readings), (None,) * len(readings)
            )
            for gpu, readings in planned.parts
        ]
        due = self._tick + (number if planned.every > number else 0)
        name, every = planned.tier.name, self._budget.every[number]
        long_read = min(self._period * planned.every // 4, watchdog.LIMIT)
        apart = APART if name == ReadingRate.GPM.tier else 0
        return TierLoop(number, due, every, long_read, parts, self._cost.tiers[name], apart)

    def _reader(self, gpu: Gpu, readings: Sequence[Reading]) -> Reader | None:
        """A reader; None for a GPU that is lost or hangs, which `_chores` tries again."""
        if gpu in self._turn.left_out:
            return None
        try:
            with self._turn.calling(gpu, self._generation, self._clock):
                return self._machine.reader(gpu, readings)
        except GpuLost:
            return None


def report_lost(report: Report, gpu: Gpu, why: str) -> None:
    """Write the event of a GPU that no longer answers."""
    report("gpu_lost", f"GPU {gpu.index} does not answer: {why}", gpu=gpu.index)
