"""Observations of made-up runs, and the alarms that they raise."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator

from gputel.analysis.alarms import rules
from gputel.analysis.alarms.observations import ClockTick, GpuSecond, Moment, Record
from gputel.analysis.alarms.watch import RuleEngine

AlarmState = tuple[str, str, int | None]


def alarms_of(moments: Iterable[Moment], *presets: str) -> list[AlarmState]:
    """Rule, on or off, step, in order."""
    watch = RuleEngine(rules.load(presets))
    return [(alarm.rule, alarm.state, alarm.step) for moment in moments for alarm in watch.see(moment)]


def training(
    steps: int, *, start: int = 0, every_s: float | None = None, rank: str | None = None, **values: float
) -> Iterator[Record]:
    """A loss that falls from 11 with some noise; `values` stand in every record."""
    chance = random.Random(start)
    for step in range(start, start + steps):
        loss = 3 * (step + 30) ** -0.1 + 8 * math.exp(-step / 60) + chance.gauss(0, 0.02)
        at = None if every_s is None else step * every_s
        yield Record(step, {"loss": loss, **values}, at, rank)


def records(values: Iterable[float], name: str = "loss", start: int = 0) -> list[Record]:
    return [Record(start + n, {name: value}) for n, value in enumerate(values)]


def noise(level: float, count: int, seed: int = 0) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(level, 0.02) for _ in range(count)]


def clocks(start: int, end: int, **facts: object) -> Iterator[ClockTick]:
    return (ClockTick(float(second), started_s=0.0, **facts) for second in range(start, end))  # type: ignore[arg-type]


def seconds(count: int, gpu: str = "0", **values: float) -> list[Moment]:
    return [GpuSecond(gpu, float(n), values) for n in range(count)]
