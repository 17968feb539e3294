"""The faults of a soak, all from one seed."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any

STALLED_CALLS = (
    "FieldValues TemperatureV Utilization MemoryInfo_v2 ClockInfo PerformanceState EventReasons GpmSample "
    "EccErrors RemappedRows"
).split()
STALL_MS = (20, 400)
STEPS_MS = ((310, 690_000), (90, 420_000), (57, 95_000), (20, 510_000))
"""The true power of each GPU, again and again: milliseconds and mW."""


@dataclass(frozen=True)
class Fault:
    """What happens `at_s` seconds after the start."""

    at_s: float
    kind: str
    """stall, gone, restart, full, load, kill."""
    gpu: int = 0
    call: str = ""
    lasts_s: float = 0.0


@dataclass(frozen=True)
class SoakPlan:
    """What to record, and the faults in the order of time."""

    seed: int
    seconds: float
    gpus: int
    hz: float
    faults: tuple[Fault, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def of_kind(self, *kinds: str) -> list[Fault]:
        return [fault for fault in self.faults if fault.kind in kinds]


def plan_from_json(facts: dict[str, Any]) -> SoakPlan:
    return SoakPlan(**{**facts, "faults": tuple(Fault(**fault) for fault in facts["faults"])})


def make_plan(
    seed: int, seconds: float, *, gpus: int = 3, hz: float = 100.0, every_s: dict[str, float] | None = None
) -> SoakPlan:
    """Each kind of fault comes at random moments, on average once in its `every_s`."""
    chance = random.Random(seed)
    faults = []
    for kind, mean_s in {**EVERY_S, **(every_s or {})}.items():
        at = 3.0 + chance.expovariate(1 / mean_s)
        while at < seconds - 5:
            faults.append(_fault(chance, kind, at, gpus))
            at += faults[-1].lasts_s + 2 + chance.expovariate(1 / mean_s)
    return SoakPlan(seed, seconds, gpus, hz, tuple(sorted(faults, key=lambda fault: fault.at_s)))


EVERY_S = {"stall": 5.0, "gone": 300.0, "restart": 400.0, "full": 250.0, "kill": 180.0}


def _fault(chance: random.Random, kind: str, at: float, gpus: int) -> Fault:
    gpu = chance.randrange(gpus)
    if kind == "stall":
        return Fault(at, kind, gpu, chance.choice(STALLED_CALLS), chance.uniform(*STALL_MS) / 1000)
    lasts_s = {"gone": (1, 20), "full": (1, 10), "kill": (0.3, 1.5), "load": (2, 10)}.get(kind, (0, 0))
    return Fault(at, kind, gpu, lasts_s=chance.uniform(*lasts_s))
