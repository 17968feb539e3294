"""The sampling plan: probes and times every reading of every GPU, and sorts those that exist into tiers of rates.

Takes a machine; returns tiers of columns, with the source and the cost of each reading. A GPU that does not
answer during probing keeps all its columns, because it may come back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from gputel.telemetry.clock import SECOND, Clock
from gputel.telemetry.machine import NOT_OPEN, Answer, Gpu, GpuLost, Machine, Reader
from gputel.telemetry.readings import READINGS, Reading, ReadingRate
from gputel.telemetry.sampling.watchdog import Turn
from gputel.telemetry.store.tiers import Tier, TierColumn

Calling = Callable[[Gpu], AbstractContextManager[None]]

PROBE_LIMIT = SECOND
"""How long a call may take while a GPU is probed: the first of its kind takes longer than those that follow."""
HANGS = "hangs"
PROBES = 5
BETWEEN_PROBES = SECOND // 250
"""As between two ticks: on a real driver a call takes three to five times as long as right after another one."""
SLOWER_THAN_FAST_NS = 100_000
SLOWER_THAN_MEDIUM_NS = 2_000_000
TOO_SLOW_NS = 100_000_000
LOSES_LEAST = ("mem_used_mib", "pstate", "mem_mhz", "power_limit_w", "util", "mem_util", "sm_mhz", "throttle")
"""If readings cost about the same, the first of these goes to a slower tier before the others."""
STAYS = frozenset({"power_w", "power_avg_w", "temp_c"})
"""Readings that are never moved to a slower tier."""
SLOWER = {ReadingRate.FAST: ReadingRate.MEDIUM, ReadingRate.MEDIUM: ReadingRate.SLOW}
FASTER = {slower: faster for faster, slower in SLOWER.items()}
WORTH_MOVING = 0.1
"""A reading is moved only if it costs this share of the budget; otherwise cheap readings would be lost in vain."""


@dataclass(frozen=True)
class Probe:
    """The result of probing one reading of one GPU. A lost GPU keeps all readings, without a latency."""

    gpu: Gpu
    reading: Reading
    answer: Answer
    latency_ns: int | None = None
    lost: bool = False
    moved: ReadingRate | None = None
    """The rate to which it was moved, because all readings at their own rates would exceed the budget."""

    @property
    def pace(self) -> ReadingRate | None:
        """The rate at which to sample; None for a reading that is missing or too slow."""
        cost, pace = self.latency_ns or 0, self.reading.pace
        if (self.answer.fault is not None and not self.lost) or cost > TOO_SLOW_NS:
            return None
        if self.moved is not None:
            return self.moved
        if pace is ReadingRate.GPM:  # a tier of its own: no reader asks for metrics and other readings
            return pace
        if cost > SLOWER_THAN_MEDIUM_NS:
            return ReadingRate.SLOW
        return ReadingRate.MEDIUM if cost > SLOWER_THAN_FAST_NS and pace is ReadingRate.FAST else pace

    @property
    def is_field(self) -> bool:
        """Whether it is read with other fields in one call."""
        return (self.answer.source or "").startswith("field")

    @property
    def call(self) -> str:
        """What is read together: readings of one call cost only once, and each field costs by itself."""
        source = self.answer.source or ""
        return source if self.is_field else source.split(" ")[0]

    def as_json(self) -> dict[str, object]:
        return {
            "tier": self.pace.tier if self.pace else None,
            "source": self.answer.source,
            "latency_us": None if self.latency_ns is None else round(self.latency_ns / 1000, 2),
            "fault": self.answer.fault or ("too slow" if self.pace is None else None),
        }


@dataclass(frozen=True)
class PlannedTier:
    """A tier that is due at every `every`-th tick; `parts` has each GPU's readings in the order of the columns."""

    tier: Tier
    every: int
    parts: tuple[tuple[Gpu, tuple[Reading, ...]], ...]


@dataclass(frozen=True)
class SamplingPlan:
    """The tiers, and what probing found."""

    hz: float
    max_overhead: float
    tiers: tuple[PlannedTier, ...]
    findings: tuple[Probe, ...]

    def as_json(self) -> dict[str, object]:
        tiers = [
            {"tier": planned.tier.name, "hz": planned.tier.hz, "columns": len(planned.tier.columns)}
            for planned in self.tiers
        ]
        readings: dict[str, dict[str, object]] = {}
        for finding in self.findings:
            readings.setdefault(finding.gpu.index, {})[finding.reading.name] = finding.as_json()
        return {"hz": self.hz, "max_overhead": self.max_overhead, "tiers": tiers, "readings": readings}


def make(
    machine: Machine,
    gpus: Sequence[Gpu],
    hz: float,
    clock: Clock,
    *,
    max_overhead: float | None = None,
) -> SamplingPlan:
    """Probe the GPUs and arrange their readings."""
    findings = [finding for gpu in gpus for finding in probe(machine, gpu, clock)]
    return arrange(findings, hz, max_overhead)


def probe(machine: Machine, gpu: Gpu, clock: Clock, calling: Calling | None = None) -> list[Probe]:
    """Probe every reading of one GPU, each call into the driver within `calling`."""
    calling = calling or (lambda _: nullcontext())
    try:
        return _probe(machine, gpu, clock, calling)
    except GpuLost as lost:
        return silent(gpu, str(lost))


def silent(gpu: Gpu, fault: str) -> list[Probe]:
    """What is planned for a GPU that does not answer: every reading, as it may come back."""
    return [Probe(gpu, reading, Answer(None, None, fault), lost=True) for reading in READINGS]


def _probe(machine: Machine, gpu: Gpu, clock: Clock, calling: Calling) -> list[Probe]:
    answers, readers = dict[Reading, Answer](), dict[Reading, Reader]()
    for reading in READINGS:
        with calling(gpu):
            answers[reading] = machine.probe(gpu, reading)
        if answers[reading].fault is None:
            with calling(gpu):
                readers[reading] = machine.reader(gpu, [reading])
    latencies: dict[Reading, list[int]] = {reading: [] for reading in readers}
    for _ in range(PROBES):
        clock.sleep_until(clock.monotonic() + BETWEEN_PROBES)
        for reading, reader in readers.items():
            with calling(gpu):
                before = clock.monotonic()
                reader.ask()
                latencies[reading].append(clock.monotonic() - before)
    return [
        Probe(gpu, reading, answer, _usual(latencies.get(reading))) for reading, answer in answers.items()
    ]


def _usual(latencies: Sequence[int] | None) -> int | None:
    """The median: a training that starts meanwhile preempts some of the calls."""
    return sorted(latencies)[PROBES // 2] if latencies else None


def arrange(findings: Sequence[Probe], hz: float, max_overhead: float | None = None) -> SamplingPlan:
    """Arrange readings into tiers. Over budget, those of the dearest call go to a slower tier, then the next."""
    max_overhead = max_overhead or usual_overhead(hz)
    limit = budget_of(findings, max_overhead)
    shares = _shares(findings, hz)
    while sum(shares.values()) > limit and (moved := _to_move(findings, shares, WORTH_MOVING * limit)):
        findings = [_moved(finding) if finding.call == moved else finding for finding in findings]
        shares = _shares(findings, hz)
    return _planned(findings, hz, max_overhead)


def usual_overhead(hz: float) -> float:
    """Returns the share of a core that is spent where none was asked for: a higher rate may cost more."""
    return 0.05 * max(1.0, hz / 100)


def budget_of(findings: Sequence[Probe], max_overhead: float) -> float:
    """The share of a core that calls into the driver may take: `max_overhead` for each GPU."""
    return max_overhead * len({finding.gpu for finding in findings})


def with_moved(
    plan: SamplingPlan, readings: Collection[str], source: ReadingRate, target: ReadingRate
) -> SamplingPlan:
    """The plan with these readings at another rate, on the GPUs that have them at `source`."""
    findings = [
        replace(f, moved=target) if f.reading.name in readings and f.pace is source else f
        for f in plan.findings
    ]
    return _planned(findings, plan.hz, plan.max_overhead)


def _planned(findings: Sequence[Probe], hz: float, max_overhead: float) -> SamplingPlan:
    planned = [_tier(pace, findings, hz) for pace in ReadingRate]
    return SamplingPlan(
        hz, max_overhead, tuple(tier for tier in planned if tier.tier.columns), tuple(findings)
    )


def _shares(findings: Sequence[Probe], hz: float) -> dict[str, float]:
    """The share of a core that each call takes over all GPUs; a field counts with what it adds to a call."""
    costs: dict[tuple[str, Gpu], float] = {}
    for finding in findings:
        if finding.pace is not None and finding.latency_ns is not None:
            key = finding.call, finding.gpu
            cost = finding.latency_ns * min(hz, finding.pace.value or hz) / SECOND
            costs[key] = max(costs.get(key, 0), cost)
    shares: dict[str, float] = {}
    for (call, _), cost in costs.items():
        shares[call] = shares.get(call, 0) + cost
    return shares


def _to_move(findings: Sequence[Probe], shares: Mapping[str, float], worth: float) -> str | None:
    """The dearest call that can go to a slower tier and is worth it; of equals the one that loses least."""
    stays = {finding.call for finding in findings if finding.reading.name in STAYS}
    movable = {
        finding.call: finding.reading.name
        for finding in findings
        if finding.pace in SLOWER and finding.call not in stays and shares.get(finding.call, 0) >= worth
    }
    return max(movable, key=lambda call: (_magnitude(shares[call]), -_loss(movable[call])), default=None)


def _magnitude(share: float) -> int:
    return math.frexp(share)[1]


def _loss(reading: str) -> int:
    return LOSES_LEAST.index(reading) if reading in LOSES_LEAST else len(LOSES_LEAST)


def _moved(finding: Probe) -> Probe:
    return replace(finding, moved=SLOWER[finding.pace]) if finding.pace in SLOWER else finding


def _tier(pace: ReadingRate, findings: Sequence[Probe], hz: float) -> PlannedTier:
    paced = [finding for finding in findings if finding.pace is pace]
    parts: dict[Gpu, list[Reading]] = {finding.gpu: [] for finding in paced}
    # the order in memory: no tick has to change it
    for finding in sorted(paced, key=lambda f: not f.is_field):
        parts[finding.gpu].append(finding.reading)
    columns = tuple(
        TierColumn(reading.name, reading.unit, reading.per_unit, gpu.index)
        for gpu, readings in parts.items()
        for reading in readings
    )
    every = 1 if pace.value is None else max(1, round(hz / pace.value))
    return PlannedTier(
        Tier(pace.tier, hz / every, columns), every, tuple((gpu, tuple(rs)) for gpu, rs in parts.items())
    )


class Prober:
    """Probes the GPUs one after the other; one that hangs costs the others a second.

    The watchdog gives up a thread that is stuck in a call; its successor shares these findings and goes on with the
    next GPU. When the call returns, the loop takes the GPU in.
    """

    def __init__(self, machine: Machine, gpus: Sequence[Gpu], clock: Clock, turn: Turn) -> None:
        self.machine, self.gpus = machine, gpus
        self._clock, self._turn = clock, turn
        self._findings: dict[Gpu, list[Probe]] = {}

    def findings(self) -> list[Probe]:
        """Probe the GPUs that are left. Raises Stale in a thread that lost its turn."""
        generation = self._turn.generation
        for gpu in self.gpus:
            if gpu in self._turn.left_out:
                self._findings[gpu] = silent(gpu, HANGS)
            elif gpu not in self._findings:
                self._findings[gpu] = probe(
                    self.machine,
                    gpu,
                    self._clock,
                    lambda gpu: self._turn.calling(gpu, generation, self._clock),
                )
        return [finding for gpu in self.gpus for finding in self._findings[gpu]]

    def lost(self) -> dict[Gpu, str]:
        """Why GPUs were lost while they were probed; without those that hang or are not open, which have events."""
        faults = {gpu: self._findings[gpu][0] for gpu in self.gpus}
        return {
            gpu: finding.answer.fault
            for gpu, finding in faults.items()
            if finding.lost and finding.answer.fault not in (None, HANGS, NOT_OPEN)
        }
