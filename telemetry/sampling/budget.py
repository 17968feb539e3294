"""The rates that fit into the budget for calls into the driver (`--max-overhead`, for each GPU).

When they cost too much, the budget moves the readings of the dearest calls to 33 Hz, then to 1 Hz, and lowers the
rates of tiers if that is not enough. When there is room again, first the rates come back, then the readings; what
falls again soon waits longer. It uses the median read of ten seconds, so that an occasional stall of the driver
changes nothing. If the thread was preempted during a read, only its processor time counts.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gputel.telemetry.clock import SECOND
from gputel.telemetry.machine import Report
from gputel.telemetry.readings import ReadingRate
from gputel.telemetry.sampling.backoff import Patience
from gputel.telemetry.sampling.cost import MINUTE, Durations
from gputel.telemetry.sampling.plan import (
    FASTER,
    SLOWER,
    STAYS,
    WORTH_MOVING,
    PlannedTier,
    SamplingPlan,
    budget_of,
    with_moved,
)

WINDOW = 10 * SECOND
FEWEST_READS = 5
"""A tier with fewer reads in a window is judged in a later one, by all reads since the last time."""
FEW_PREEMPTIONS = 60
"""In a minute; with more of them, time inside the driver is not the driver's alone."""
ROOM = 0.8
"""A rate is raised again only if all tiers then take less than this share of the budget."""
SLOWEST_S = 10

CallKey = tuple[str, ...]
"""A call by the readings that it gives."""
Spending = Callable[[], resource.struct_rusage]


def thread_usage() -> resource.struct_rusage:
    """Resource usage of the calling thread; not converted, because every read asks for it."""
    return resource.getrusage(resource.RUSAGE_THREAD)  # Linux has it; other systems import this file, too


@dataclass
class ReadCost:
    """Time of one read of a tier inside the driver; a read may take several ticks."""

    calls: dict[CallKey, int] = field(default_factory=dict)
    """Nanoseconds of each call, over all GPUs."""
    inside_ns: int = 0
    is_preempted: bool = False

    def add(
        self,
        calls: Sequence[tuple[CallKey, int]],
        before: resource.struct_rusage,
        after: resource.struct_rusage,
    ) -> None:
        """Add calls between two looks at the thread's usage; of those that were preempted the processor time."""
        inside_ns = sum(ns for _, ns in calls)
        if after.ru_nivcsw != before.ru_nivcsw:
            self.is_preempted = True
            inside_ns = min(inside_ns, _processor_ns(after) - _processor_ns(before))
        self.inside_ns += inside_ns
        for call, ns in calls:
            self.calls[call] = self.calls.get(call, 0) + ns


@dataclass
class TierBudget:
    """The cost of reading one tier, and how often it is read."""

    planned: PlannedTier
    every: int
    """The ticks between two reads, now and at most so far."""
    highest: int
    reads: Durations = field(default_factory=Durations)
    calls: dict[CallKey, list[int]] = field(default_factory=dict)
    """Nanoseconds of each call in the reads of this window, over all GPUs."""
    median_ns: int = 0
    """The median time of a read."""
    costs: dict[CallKey, int] = field(default_factory=dict)
    """The median of each call."""

    def learn(self) -> None:
        """Take the medians of the window, if it has seen enough reads."""
        if self.reads.count < FEWEST_READS:
            return
        self.median_ns = self.reads.quantile(0.5) or 0
        self.costs = {call: sorted(ns)[(len(ns) - 1) // 2] for call, ns in self.calls.items()}
        self.reads, self.calls = Durations(), {}


class Budget:
    """How often each tier is read: `every` has a number of ticks per tier. Moves readings to a slower tier first.

    Shared by the threads that sample one after the other.
    """

    def __init__(self, plan: SamplingPlan, report: Report, spending: Spending = thread_usage) -> None:
        self._plan, self._report, self.spending = plan, report, spending
        self._limit = budget_of(plan.findings, plan.max_overhead)
        self._tiers = [_tier_budget(planned) for planned in plan.tiers]
        self._planned: dict[CallKey, ReadingRate] = {}
        """The planned rates of calls whose readings are in a slower tier now."""
        self._moved: dict[CallKey, dict[str, object]] = {}
        self._steps: dict[CallKey, tuple[float, float, float]] = {}
        """The calls that were moved in this judgement: from and to which rate, and the share of a core before."""
        self._since = 0
        self._minute: tuple[int, int, int] | None = None
        """Since when the mean is taken; the time inside the driver, and the preemptions, by then."""
        self._is_mean_over = False
        self._patience = Patience()

    @property
    def every(self) -> list[int]:
        return [tier.every for tier in self._tiers]

    def begin(self, now: int) -> None:
        """Start a window; called by each sampling thread before its first read."""
        self._since, self._minute = now, None

    def add(self, tier: int, cost: ReadCost) -> None:
        """Count one read of a tier."""
        judged = self._tiers[tier]
        if not cost.is_preempted:
            for call, ns in cost.calls.items():
                judged.calls.setdefault(call, []).append(ns)
        judged.reads.add(cost.inside_ns)

    def judge(self, now: int) -> SamplingPlan | None:
        """Move readings, or lower or raise rates, once per window; returns the plan if readings were moved."""
        if now - self._since < WINDOW:
            return None
        self._since, before = now, self._plan
        for tier in self._tiers:
            tier.learn()
        share = self._total()
        self._move_down()
        every = self._lowered()
        if every is not None:
            self._set(every)
        elif self._plan is before and (raised := self._raised()) != self.every:
            self._set(raised)
        elif self._plan is before:
            self._move_up()
        self._report_moves(share)
        return None if self._plan is before else self._plan

    def judge_mean(self, now: int, inside_ns: int) -> None:
        """Report calls that take more than the budget in a whole minute, though the median read does not.

        No rate is lowered for a few slow calls. A minute in which rates changed, or in which the thread was often
        preempted, is not judged.
        """
        state = now, inside_ns, self.spending().ru_nivcsw
        since, before, preempted = self._minute or state
        if self._minute and now - since < MINUTE:
            return
        is_first, self._minute = self._minute is None, state
        if is_first or state[2] - preempted > FEW_PREEMPTIONS:
            return
        share, median = (inside_ns - before) / (now - since), self._total()
        if share > self._limit >= median and not self._is_mean_over:
            text = (
                f"calls into the driver took {_percent(share)} of a core in the last minute, more than "
                f"{self._budget_words()}; the median read takes {_percent(median)}, so that rates stay as they are"
            )
            self._report("overhead", text, share=round(share, 4), median_share=round(median, 4))
        self._is_mean_over = share > (ROOM if self._is_mean_over else 1) * self._limit

    def lowered(self) -> list[dict[str, object]]:
        """Each tier, and each reading, that was ever read less often than planned, with both rates."""
        return [
            {
                "tier": tier.planned.tier.name,
                "hz": self._hz(tier.highest),
                "planned_hz": self._hz(tier.planned.every),
            }
            for tier in self._tiers
            if tier.highest > tier.planned.every
        ] + list(self._moved.values())

    def _move_down(self) -> None:
        """Move the dearest readings to slower tiers until the costs are within the budget."""
        while self._total() > self._limit and (moves := self._moves_down()):
            self._move(*max(moves.items(), key=lambda move: move[1])[0])

    def _moves_down(self) -> dict[tuple[CallKey, ReadingRate, ReadingRate], float]:
        """Each call that can go to a slower tier, from where to where, and the share of a core that it takes."""
        moves = dict[tuple[CallKey, ReadingRate, ReadingRate], float]()
        for source, target in SLOWER.items():
            tier, hz = self._tier(source), self._rate(source)
            if tier is None or self._rate(target) >= hz:
                continue
            shares = {call: ns * hz / SECOND for call, ns in tier.costs.items() if not STAYS & set(call)}
            worth = WORTH_MOVING * self._limit
            moves |= {(call, source, target): share for call, share in shares.items() if share >= worth}
        return moves

    def _move_up(self) -> None:
        """Move readings back, a tier at a time, for which there is room, the cheapest first."""
        waiting = [
            (tier.costs[call], call, source)
            for source in FASTER
            if (tier := self._tier(source)) is not None
            for call in self._planned.keys() & tier.costs.keys()
            if self._patience.may_rise(call, self._since)
        ]
        for ns, call, source in sorted(waiting, key=lambda move: move[0]):
            target = FASTER[source]
            more = ns * (self._rate(target) - self._rate(source)) / SECOND
            if self._total() + more <= ROOM * self._limit:
                self._move(call, source, target)

    def _move(self, call: CallKey, source: ReadingRate, target: ReadingRate) -> None:
        before = {tier.planned.tier.name: tier for tier in self._tiers}
        old_hz, ns = self._rate(source), before[source.tier].costs.pop(call)
        before[source.tier].median_ns -= ns
        self._plan = with_moved(self._plan, call, source, target)
        self._tiers = [
            replace(before.get(planned.tier.name) or _tier_budget(planned), planned=planned)
            for planned in self._plan.tiers
        ]
        for tier in self._tiers:
            if tier.planned.tier.name == target.tier:
                tier.median_ns += ns
                tier.costs[call] = tier.costs.get(call, 0) + ns
            tier.reads, tier.calls = Durations(), {}
        new_hz = self._rate(target)
        (self._patience.fall if new_hz < old_hz else self._patience.rise)(call, self._since)
        first_hz, _, own = self._steps.get(call, (old_hz, new_hz, ns * old_hz / SECOND))
        self._steps[call] = first_hz, new_hz, own
        if SLOWER.get(source) is target:
            self._planned.setdefault(call, source)
            planned_hz = self._moved.get(call, {}).get("planned_hz", old_hz)
            self._moved[call] = {"readings": list(call), "hz": new_hz, "planned_hz": planned_hz}
        elif self._planned[call] is target:
            del self._planned[call]

    def _tier(self, rate: ReadingRate) -> TierBudget | None:
        return next((tier for tier in self._tiers if tier.planned.tier.name == rate.tier), None)

    def _rate(self, rate: ReadingRate) -> float:
        """The rate of this tier now, or what it would have."""
        tier = self._tier(rate)
        every = max(1, round(self._plan.hz / (rate.value or self._plan.hz)))
        return self._hz(every if tier is None else tier.every)

    def _total(self) -> float:
        return sum(self._shares(self.every))

    def _lowered(self) -> list[int] | None:
        """Rates within the budget; None if they already are, or if no tier can be lowered."""
        every, slowest = list(self.every), max(1, round(SLOWEST_S * self._plan.hz))
        while (tier := tier_to_lower(every, self._shares(every), self._limit, slowest)) is not None:
            every[tier] *= 2
        return every if every != self.every else None

    def _raised(self) -> list[int]:
        """Rates one step higher for each tier that has room for it, the fastest first."""
        every = list(self.every)
        for number in sorted(range(len(every)), key=lambda number: self._tiers[number].planned.every):
            if not self._patience.may_rise(self._tiers[number].planned.tier.name, self._since):
                continue
            trial = list(every)
            trial[number] = max(self._tiers[number].planned.every, every[number] // 2)
            if sum(self._shares(trial)) <= ROOM * self._limit:
                every = trial
        return every

    def _shares(self, every: Sequence[int]) -> list[float]:
        """The share of a core that each tier would cost at these rates."""
        return [
            tier.median_ns / SECOND * self._hz(ticks) for tier, ticks in zip(self._tiers, every, strict=True)
        ]

    def _set(self, every: list[int]) -> None:
        share = self._total()
        for tier, ticks in zip(self._tiers, every, strict=True):
            before, tier.every = tier.every, ticks
            tier.highest = max(tier.highest, ticks)
            if before != ticks:
                change = self._patience.fall if ticks > before else self._patience.rise
                change(tier.planned.tier.name, self._since)
                self._minute = None
                self._report_rate(tier.planned.tier.name, self._hz(before), self._hz(ticks), share)

    def _report_rate(self, tier: str, old_hz: float, new_hz: float, share: float) -> None:
        why = self._why(share, new_hz < old_hz)
        text = f"tier {tier} is now sampled at {new_hz:g} Hz instead of {old_hz:g} Hz: {why}"
        self._report("rate", text, tier=tier, why=why, **{"from": old_hz, "to": new_hz})

    def _report_moves(self, share: float) -> None:
        """One event for all calls that went from one rate to another; `share` is what all took before."""
        steps, self._steps = self._steps, {}
        self._minute = None if steps else self._minute
        for old_hz, new_hz in dict.fromkeys((old_hz, new_hz) for old_hz, new_hz, _ in steps.values()):
            moved = {call: own for call, (*rates, own) in steps.items() if rates == [old_hz, new_hz]}
            readings = [name for call in moved for name in call]
            why = self._why(share, new_hz < old_hz)
            if new_hz < old_hz:
                why += f"; {_percent(sum(moved.values()))} are the calls for these"
            text = f"now sampled at {new_hz:g} Hz instead of {old_hz:g} Hz: {', '.join(readings)}; {why}"
            self._report("rate", text, readings=readings, why=why, **{"from": old_hz, "to": new_hz})

    def _why(self, share: float, lower: bool) -> str:
        limit = "more than" if lower else "which leaves room within"
        return f"calls into the driver take {_percent(share)} of a core, {limit} {self._budget_words()}"

    def _budget_words(self) -> str:
        gpus = round(self._limit / self._plan.max_overhead)
        return f"the {100 * self._limit:g} % of --max-overhead" + (f" for {gpus} GPUs" if gpus > 1 else "")

    def _hz(self, every: int) -> float:
        return float(f"{self._plan.hz / every:.3g}")


def _tier_budget(planned: PlannedTier) -> TierBudget:
    return TierBudget(planned, planned.every, planned.every)


def _percent(share: float) -> str:
    percent = 100 * min(share, 1)
    return f"{percent:.{percent < 10:d}f} %"


def _processor_ns(spent: resource.struct_rusage) -> int:
    return round((spent.ru_utime + spent.ru_stime) * SECOND)


def tier_to_lower(every: Sequence[int], costs: Sequence[float], budget: float, slowest: int) -> int | None:
    """The tier to read half as often if costs (shares of a core) exceed the budget: the slowest that matters.

    `slowest` is the most ticks allowed between two reads. None if nothing needs to, or can, be lowered.
    """
    if sum(costs) <= budget:
        return None
    costly = [i for i, cost in enumerate(costs) if cost >= WORTH_MOVING * budget and every[i] * 2 <= slowest]
    return max(costly, key=lambda i: (every[i], i), default=None)
