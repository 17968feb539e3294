"""A recording of the fake driver against its truth: every value, every null, and every tick that is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gputel.telemetry.readings import BY_NAME, ReadingRate
from gputel.telemetry.store import parts, ticks
from tests.soak.truth import FINEST, LACKING, MS, RATES_KIB_S, SECOND, GpuTruth, Moments, Numbers

Span = tuple[int, int]
"""Begin and end, in nanoseconds of the driver's clock."""

LONGEST_CALL = SECOND
"""A call that takes longer has lost its turn, and its row with it, even where the watchdog was held up, too."""
WARM_UP = 2 * SECOND
"""Rates are known from the second change of their counter on."""
RATE_TOLERANCE = 0.2
LONGEST_ACTIVITY = 300 * MS
ACTIVITY_STEPS = 26
"""At so many moments each of its two samples may have been taken."""
JITTER = 50_000
"""Between the three clocks of a stamp, which are not read at one moment."""


@dataclass
class Soaked:
    """What a check finds."""

    ticks: int = 0
    values: int = 0
    nulls: int = 0
    wrong: list[str] = field(default_factory=list)
    excused_s: float = 0.0
    """Without ticks because of the driver, the disk or a kill."""
    not_scheduled: int = 0
    """Ticks missed in the other gaps."""
    hz: float = 0.0
    """The rate in the time that driver, disk and machine allowed."""

    def count(self, name: str, gpu: str, bad: Any, at: Moments, got: Numbers) -> None:
        """Note up to three bad values of one reading."""
        places = np.flatnonzero(bad)
        self.wrong += [f"{name} of GPU {gpu} at {at[n] / SECOND:.4f} s: {got[n]}" for n in places[:3]]
        if len(places) > 3:
            self.wrong.append(f"{name} of GPU {gpu}: {len(places)} in all")


@dataclass(frozen=True)
class Excuses:
    """When the driver, the disk or a kill allowed no ticks, or no values of a GPU."""

    ticks: Sequence[Span]
    gpus: Mapping[str, Sequence[Span]]
    unsettled: Sequence[Span]
    """When rates and activity may be unknown: a process or a thread of the sampler has just begun."""
    stalled: Sequence[Span]
    """When activity may be unknown: two samples were too close to each other, or one failed."""


def check(folder: Path, to_driver_ns: int, hz: float, excuses: Excuses) -> Soaked:
    """Check a gpu/ folder; `to_driver_ns` is the driver's clock less the recorder's monotonic one."""
    result = Soaked()
    tiers = list(_frames(folder, to_driver_ns))
    ticks_of_fast = pl.concat([frame.select("at", "due") for name, frame in tiers if name == "fast"])
    fast = ticks_of_fast["at"].unique().sort().to_numpy()
    _check_ticks(result, ticks_of_fast["due"].unique().sort().to_numpy(), hz, excuses)
    for name, frame in tiers:
        ticks_of_tier = frame["due"].n_unique()
        for (gpu,), rows in frame.group_by("gpu"):
            if len(rows) != ticks_of_tier:
                result.wrong.append(f"{name}: GPU {gpu} has {len(rows)} rows in {ticks_of_tier} ticks")
            _check_gpu(
                result, str(gpu), rows.sort("at"), _until(name, rows["at"].sort().to_numpy(), fast), excuses
            )
    return result


def _frames(folder: Path, to_driver_ns: int) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each tier, in several frames where readings had moved to another one, as after a start on a busy machine."""
    by_tier: dict[tuple[str, ...], list[pl.DataFrame]] = {}
    for part in parts.current(folder):
        tier = ticks.tier_of(part) if part.tier != parts.SECONDS else None
        if tier is not None:
            at = (ticks.STAMP + to_driver_ns).alias("at")
            due = (ticks.STAMP - pl.col("late_us") * 1000 + to_driver_ns).alias("due")
            by_tier.setdefault((part.tier, *tier.readings), []).append(
                ticks.read(part, tier).select(
                    at, due, "gpu", *(pl.col(name).cast(pl.Float64) for name in tier.readings)
                )
            )
    for (name, *_), frames in by_tier.items():
        yield name, pl.concat(frames)


def _check_ticks(result: Soaked, due: Moments, hz: float, excuses: Excuses) -> None:
    """The gaps between deadlines: excused, or because the thread was not scheduled. A late tick is no gap."""
    result.ticks = len(due)
    period = SECOND / hz
    gone = excused_ns = 0.0
    for place in np.flatnonzero(np.diff(due) > 1.5 * period):
        begin, end = int(due[place]), int(due[place + 1])
        if any(start <= end and stop >= begin for start, stop in excuses.ticks):
            gone += 1
            excused_ns += end - begin
        else:
            result.not_scheduled += round((end - begin) / period) - 1
    result.excused_s = excused_ns / SECOND
    allowed_s = (int(due[-1]) - int(due[0]) - excused_ns) / SECOND
    result.hz = (len(due) - 1 - gone + result.not_scheduled) / allowed_s


def _until(tier: str, at: Moments, fast: Moments) -> Moments:
    """When a row was read at the latest: before the next tick, or over several where its tier may wait."""
    hz = ReadingRate[tier.upper()].value
    latest = at + (round(SECOND / hz / 4) if hz else 0)
    places = np.searchsorted(fast, latest, "right")
    until = np.where(places < len(fast), fast[np.minimum(places, len(fast) - 1)], latest + LONGEST_CALL)
    return np.asarray(np.minimum(until, latest + LONGEST_CALL))


def _check_gpu(result: Soaked, gpu: str, rows: pl.DataFrame, until: Moments, excuses: Excuses) -> None:
    at = rows["at"].to_numpy()
    lost = _within(at, excuses.gpus.get(gpu, ()))
    back = [(begin, end + WARM_UP) for begin, end in excuses.gpus.get(gpu, ())]
    unsettled = lost | _within(at, [*excuses.unsettled, *back])
    stalled = unsettled | _within(at, excuses.stalled)
    for name in rows.columns[3:]:
        got = rows[name].to_numpy().astype(np.float64) * BY_NAME[name].per_unit
        absent = np.isnan(got)
        result.nulls += int(absent.sum())
        result.values += int((~absent).sum())
        if name in LACKING:
            result.count(name, gpu, ~absent, at, got)
            continue
        excused = unsettled if name in RATES_KIB_S else stalled if name.endswith("_active") else lost
        result.count(f"null {name}", gpu, absent & ~excused, at, got)
        result.count(name, gpu, ~absent & ~_is_true(name, int(gpu), got, at, until), at, got)


def _within(at: Moments, spans: Sequence[Span]) -> Any:
    inside = np.zeros(len(at), np.bool_)
    for begin, end in spans:
        inside |= (at >= begin) & (at <= end)
    return inside


def _is_true(name: str, gpu: int, got: Numbers, at: Moments, until: Moments) -> Any:
    """Whether each value is what the driver would have said at one moment from `at` to `until`."""
    if name in RATES_KIB_S:
        return np.abs(got - RATES_KIB_S[name]) <= RATE_TOLERANCE * RATES_KIB_S[name]
    truth = GpuTruth(gpu)
    if name.endswith("_active"):
        return _is_activity(name, truth, got, at, until)
    true = np.zeros(len(at), np.bool_)
    for late in range(-JITTER, LONGEST_CALL + FINEST, FINEST):
        rest = np.flatnonzero(~true & (at + late <= until + FINEST))
        if not len(rest):
            break
        for moment in (at[rest] + max(late, 0), np.minimum(at[rest] + late, until[rest])):
            true[rest] |= np.abs(got[rest] - truth.values(name, moment)) <= _tolerance(name)
    return true


def _tolerance(name: str) -> float:
    """Half a unit of the driver, and one where a sum of floats is rounded."""
    return 1.5 if name in ("power_w", "power_avg_w", "energy_j") else 0.5 if name != "mem_used_mib" else 1000


def _is_activity(name: str, truth: GpuTruth, got: Numbers, at: Moments, until: Moments) -> Any:
    """The driver computes it between two samples, each taken between `at` and `until` of its tick.

    After a sample that was not kept, the begin is not known.
    """
    scale = {"sm_active": 100, "tensor_active": 50, "dram_active": 40}[name] * 100
    true = np.abs(at - np.roll(at, 1)) > LONGEST_ACTIVITY
    for begins, ends in product(np.linspace(0, 1, ACTIVITY_STEPS), repeat=2):
        rest = np.flatnonzero(~true)
        begin = at[rest - 1] + (begins * (until - at)[rest - 1]).astype(np.int64)
        end = at[rest] + (ends * (until - at)[rest]).astype(np.int64)
        with np.errstate(divide="ignore", invalid="ignore"):
            true[rest] = np.abs(got[rest] - scale * truth.busy_between(begin, end)) <= scale * 0.02
    return true
