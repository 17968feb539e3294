"""What alarms are judged by: a record, an evaluation, an event, a second of a GPU, a look at the clock.

Times are seconds of the wall clock, None where a log has no stamps: rules of silence then say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Record:
    step: int | None
    values: Mapping[str, float]
    at_s: float | None = None
    rank: str | None = None
    phase: str = "train"
    attempt: int = 1


@dataclass(frozen=True)
class Evaluation:
    step: int | None
    name: str
    value: float
    at_s: float | None = None


@dataclass(frozen=True)
class Happened:
    """An event of the log or of the recorder, and the end of the command (`exit`, with its code in the facts)."""

    kind: str
    text: str
    at_s: float | None = None
    step: int | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuSecond:
    """Means over a second; of a counter the last value, of a mask all bits. `memory_share` is of the GPU's own."""

    gpu: str
    at_s: float
    values: Mapping[str, float | None]


@dataclass(frozen=True)
class Clock:
    """Now, and what is true of the whole run: told about once a second, whether or not anything came."""

    at_s: float
    started_s: float | None = None
    world_size: int | None = None
    hours: float | None = None  # that the run will have taken at its end
    dollars: float | None = None
    disk_free_share: float | None = None
    disk_free_gib: float | None = None
    is_awaited: bool = True  # whether something is wrong if no record comes
    usual_s: float | None = None  # from record to record, by what they say


Moment: TypeAlias = Record | Evaluation | Happened | GpuSecond | Clock
