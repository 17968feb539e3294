"""A recording -> totals per GPU: power, energy by integral and counter, refresh rates, memory, throttling.

Sums use ticks for an hour and whole seconds beyond; refresh rates use at most four stretches of ten minutes. GPUs
are read one at a time, so ten days take seconds, and no more memory than an hour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gputel.analysis.align.samples import hold_seconds
from gputel.analysis.align.windows import SampleAndHold, gaps_between, until_next
from gputel.analysis.runs import sensors
from gputel.analysis.runs.recording import highest, total, weighted_mean
from gputel.analysis.runs.sensors import FEW_REFRESHES, Numbers, Refresh
from gputel.telemetry.clock import SECOND
from gputel.telemetry.run_folder import Segment
from gputel.telemetry.sampling.status import SLOWED_DOWN
from gputel.telemetry.store import frames
from gputel.telemetry.store.ticks import PartCache

READINGS = ("power_w", "energy_j", "mem_used_mib", "temp_c", "throttle", "util")
STRETCHES = 4
LATE_REFRESHES = 2
"""How old a reading of power may be: the mean over one refresh that stands for the next one."""
MOST_CHUNKS = 6
"""Chunks of ten minutes up to which ticks are integrated; the edges of longer runs do not count."""


@dataclass
class _Sums:
    """Running sums of one GPU."""

    joules: float = 0.0
    measured_s: float = 0.0
    counter_j: float = 0.0
    counted: bool = False
    counter: float | None = None
    counter_at: int | None = None
    unseen_j: float = 0.0  # growth of the counter while nothing was sampled
    edges: list[_Edge] = field(default_factory=list)  # both ends, if all ticks were read for the integral
    first_ns: int | None = None
    last_ns: int = 0
    peaks: dict[str, float] = field(default_factory=dict)
    throttle_s: dict[str, int] = field(default_factory=dict)
    util_s: float = 0.0  # utilization in percent times seconds
    util_read_s: float = 0.0


@dataclass(frozen=True)
class _Edge:
    """The first or the last tick of one GPU."""

    lacking_j: float = 0.0  # what the counter lacks there: it is up to one refresh behind
    power_w: float = math.nan
    held_s: float = 0.0  # how long the integral holds its power


@dataclass(frozen=True)
class GpuTotals:
    """Totals of one GPU over a recording; None if not measured, of a refresh rate also with too few changes."""

    gpu: str
    measured_s: float
    power_mean_w: float | None
    power_peak_w: float | None
    energy_counter_j: float | None
    energy_integral_j: float | None
    mem_peak_mib: float | None
    temp_peak_c: float | None
    refresh_hz: Mapping[str, float | None]
    covered: float | None  # share of the time from its first to its last sample in which power was measured
    unseen_j: float  # growth of the counter while no power was measured
    edges_j: float | None  # by which the two may differ at the edges, where power and counter are read late
    every_poll: Sequence[str]  # readings that changed at every poll: the sensor may be faster
    throttle_s: Mapping[str, int]
    node: str | None = None
    name: str | None = None
    power_limit_w: float | None = None
    mem_total_mib: float | None = None
    util_mean: float | None = None  # of the seconds in which it was read

    @property
    def energy_j(self) -> float | None:
        """Energy by the driver's counter, which misses nothing between samples, else by the integral."""
        return self.energy_integral_j if self.energy_counter_j is None else self.energy_counter_j

    @property
    def energy_difference(self) -> float | None:
        """The relative difference of the integral from the counter, while power was measured; None of too few."""
        if self.energy_counter_j is None or self.few_refreshes:
            return None
        return sensors.difference(self.energy_counter_j - self.unseen_j, self.energy_integral_j)

    @property
    def few_refreshes(self) -> bool:
        """Whether it was measured too briefly to compare integral and counter, each off by a refresh.

        What never changes does not tell how often it is refreshed: then ten seconds are enough.
        """
        rates = [hz for name in ("power_w", "energy_j") if (hz := self.refresh_hz.get(name))]
        return self.measured_s * min(rates, default=1.0) < FEW_REFRESHES

    @property
    def label(self) -> str:
        return self.gpu if self.node is None else f"{self.node}/{self.gpu}"

    def as_json(self) -> dict[str, Any]:
        computed = {name: getattr(self, name) for name in ("energy_difference", "few_refreshes")}
        return {"node": self.node, **asdict(self), **computed}


def gpu_totals(segments: Sequence[Segment], *, refresh: bool = True) -> list[GpuTotals]:
    """Returns the totals of each GPU of each node, summed over segments; rates of refresh take half of the time."""
    rows: dict[tuple[str | None, str], list[GpuTotals]] = {}
    for segment in segments:
        for row in folder_totals(segment.gpu, refresh=refresh):
            rows.setdefault((segment.node, row.gpu), []).append(row)
    return [replace(_together(parts), node=node) for (node, _), parts in rows.items()]


def folder_totals(folder: Path, *, refresh: bool = True) -> list[GpuTotals]:
    """Returns the totals of the GPUs of one segment."""
    read_hz = frames.read_hz(folder)
    gpus = [gpu for gpu, rates in read_hz.items() if not rates.keys().isdisjoint(READINGS)]
    cache = PartCache()
    summed = {gpu: sums for gpu in gpus if (sums := _summed(folder, gpu, cache))}
    totals = []
    for gpu, sums in summed.items():
        if refresh:
            rates, edges = _refresh_and_edges(folder, gpu, cache, read_hz[gpu])
        else:
            rates, edges = {}, sums.edges or _edges(folder, gpu, cache)
        totals.append(_row(gpu, sums, rates, *_outermost(edges)))
    return totals


def _row(gpu: str, sums: _Sums, refresh: dict[str, Refresh | None], first: _Edge, last: _Edge) -> GpuTotals:
    return GpuTotals(
        gpu=gpu,
        measured_s=sums.measured_s,
        power_mean_w=sums.joules / sums.measured_s if sums.measured_s else None,
        power_peak_w=sums.peaks.get("power_w"),
        energy_counter_j=sums.counter_j + last.lacking_j - first.lacking_j if sums.counted else None,
        energy_integral_j=sums.joules if sums.measured_s else None,
        mem_peak_mib=sums.peaks.get("mem_used_mib"),
        temp_peak_c=sums.peaks.get("temp_c"),
        covered=_covered(sums),
        unseen_j=sums.unseen_j,
        util_mean=sums.util_s / sums.util_read_s if sums.util_read_s else None,
        refresh_hz={name: rate.hz if rate else None for name, rate in refresh.items()},
        edges_j=_edges_j(refresh.get("power_w"), refresh.get("energy_j"), first, last),
        every_poll=[name for name, rate in refresh.items() if rate and rate.every_poll],
        throttle_s=sums.throttle_s,
    )


def _edges_j(power: Refresh | None, counter: Refresh | None, first: _Edge, last: _Edge) -> float | None:
    """Returns by how much the integral may be off; a counter that changes at every read is late by up to one."""
    if power is None or math.isnan(last.power_w):
        return None
    lag_s = 1 / counter.hz if counter and counter.every_poll else 0.0
    late = LATE_REFRESHES * abs(last.power_w - first.power_w) / power.hz
    return late + last.power_w * last.held_s + max(first.power_w, last.power_w) * lag_s


def _covered(sums: _Sums) -> float | None:
    if sums.first_ns is None or not sums.measured_s:
        return None
    return min(1.0, sums.measured_s * SECOND / max(1, sums.last_ns - sums.first_ns))


def _together(parts: Sequence[GpuTotals]) -> GpuTotals:
    """Adds segments; refresh rates are the last segment's, as the driver may have changed."""
    joules = total(part.energy_integral_j for part in parts)
    measured = math.fsum(part.measured_s for part in parts)
    reasons = {reason for part in parts for reason in part.throttle_s}
    return replace(
        parts[-1],
        power_peak_w=highest(part.power_peak_w for part in parts),
        mem_peak_mib=highest(part.mem_peak_mib for part in parts),
        temp_peak_c=highest(part.temp_peak_c for part in parts),
        measured_s=measured,
        power_mean_w=joules / measured if joules is not None and measured else None,
        energy_counter_j=total(part.energy_counter_j for part in parts),
        energy_integral_j=joules,
        covered=_mean_share(parts),
        unseen_j=math.fsum(part.unseen_j for part in parts),
        edges_j=total(part.edges_j for part in parts),
        util_mean=weighted_mean((part.util_mean, part.measured_s) for part in parts),
        throttle_s={
            reason: sum(part.throttle_s.get(reason, 0) for part in parts) for reason in sorted(reasons)
        },
    )


def _mean_share(parts: Sequence[GpuTotals]) -> float | None:
    """Averages the covered shares by time."""
    lengths = [part.measured_s / part.covered for part in parts if part.covered]
    return (
        math.fsum(part.measured_s for part in parts if part.covered) / math.fsum(lengths) if lengths else None
    )


def _summed(folder: Path, gpu: str, cache: PartCache) -> _Sums | None:
    """Sums the seconds of one GPU; None if nothing was sampled."""
    sums = None
    for seconds in frames.seconds_in_turn(folder, READINGS, ("mean", "max"), gpu, cache):
        if len(seconds):
            sums = sums or _Sums()
            _add(sums, seconds)
    if sums and frames.count_chunks(folder) <= MOST_CHUNKS:
        _integrate_ticks(sums, frames.ticks(folder, ("power_w", "energy_j"), gpu, cache))
    return sums


def _integrate_ticks(sums: _Sums, ticks: pl.DataFrame) -> None:
    """Replaces the integral over whole seconds by that over ticks, which ends where the readings end."""
    if ticks.is_empty() or "power_w" not in ticks.columns:
        return
    ordered = ticks.sort("time", maintain_order=True)
    times = ordered["time"].dt.epoch("ns").to_numpy()
    holds = until_next(times)
    power = ordered["power_w"].cast(pl.Float64).to_numpy()
    measured = ~np.isnan(power)
    widths = holds.widths / SECOND
    sums.joules, sums.measured_s = float((power * widths)[measured].sum()), float(widths[measured].sum())
    sums.first_ns, sums.last_ns = int(times[0]), int(holds.ends[-1])
    if "energy_j" in ordered.columns:
        sums.unseen_j = _unseen(ordered["energy_j"].cast(pl.Float64).to_numpy(), power, holds)
    sums.edges = _edges_of(ordered)


def _unseen(counter: Numbers, power: Numbers, holds: SampleAndHold) -> float:
    """Returns what the counter grew by across gaps and ticks without power, beyond what was integrated there.

    From the last change of the counter before a gap to the second one after it: a counter that is read rarely grows
    by more than the gap, and how old its first value after the gap is, is not known.
    """
    rows = np.flatnonzero(~np.isnan(counter))
    if not len(rows):
        return 0.0
    rows = rows[np.insert(np.diff(counter[rows]) != 0, 0, True)]  # repeated in between
    integrated = np.insert(np.cumsum(np.nan_to_num(power * holds.widths / SECOND)), 0, 0.0)
    lacks = np.isnan(power) | (holds.ends < np.append(holds.times[1:], holds.ends[-1]))
    lacking = np.insert(np.cumsum(lacks), 0, 0)
    first_after = np.insert(np.diff(lacking[rows]) > 0, 0, False)
    first_after[-1:] = False
    rows = rows[~first_after]
    grown = np.diff(counter[rows]) - np.diff(integrated[rows])
    torn = np.diff(lacking[rows]) > 0
    return float(grown[torn & (grown > 0)].sum())


def _add(sums: _Sums, seconds: pl.DataFrame) -> None:
    sampled_s = pl.Series(_sampled_s(seconds))
    if "power_w_mean" in seconds.columns:
        present = seconds["power_w_mean"].is_not_null()
        covered = sampled_s.filter(present)
        sums.joules += float((seconds["power_w_mean"].filter(present) * covered).sum())
        sums.measured_s += float(covered.sum())
    if "util_mean" in seconds.columns:
        read = seconds["util_mean"].is_not_null()
        sums.util_s += float((seconds["util_mean"] * sampled_s).sum())
        sums.util_read_s += float(sampled_s.filter(read).sum())
    times = seconds["time"].dt.epoch("ns")
    sums.first_ns = sums.first_ns if sums.first_ns is not None else int(times[0])
    sums.last_ns = int(times[-1]) + SECOND
    if "energy_j_last" in seconds.columns:
        _add_counter(sums, seconds)
    for name in ("power_w", "mem_used_mib", "temp_c"):
        peak: Any = seconds[f"{name}_max"].max() if f"{name}_max" in seconds.columns else None
        if peak is not None:
            sums.peaks[name] = max(peak, sums.peaks.get(name, peak))
    if "throttle_any" in seconds.columns:
        for bit, reason in SLOWED_DOWN.items():
            if within := round(sampled_s.filter((seconds["throttle_any"] & bit) != 0).sum()):
                sums.throttle_s[reason] = sums.throttle_s.get(reason, 0) + within


def _sampled_s(seconds: pl.DataFrame) -> Numbers:
    """Returns how long each second's value held: less at the ends of the sampling and of gaps."""
    ticks = seconds["ticks"].fill_null(0).to_numpy()
    return hold_seconds(seconds["time"].dt.epoch("ns").to_numpy(), ticks).widths / SECOND


def _add_counter(sums: _Sums, seconds: pl.DataFrame) -> None:
    """Adds growth of the counter, gaps included; growth before a reset of the driver may be lost."""
    rows = seconds.filter(pl.col("energy_j_last").is_not_null())
    last, times = rows["energy_j_last"].to_numpy(), rows["time"].dt.epoch("ns").to_numpy()
    if len(last) == 0:
        return
    if sums.counter is None:
        sums.counter = last[0] - (rows["energy_j"][0] or 0.0)
    steps = np.diff(np.insert(last, 0, sums.counter))
    sums.counter_j += float(steps[steps >= 0].sum())
    sums.unseen_j += _unseen_between_seconds(sums.counter_at, rows, steps)
    sums.counter, sums.counter_at, sums.counted = float(last[-1]), int(times[-1]), True


def _unseen_between_seconds(before: int | None, rows: pl.DataFrame, steps: Numbers) -> float:
    """Returns the growth across gaps between whole seconds, without that of the second after each."""
    times, within = rows["time"].dt.epoch("ns").to_numpy(), rows["energy_j"].fill_null(0).to_numpy()
    if before is None:
        steps, within = steps[1:], within[1:]
    else:
        times = np.insert(times, 0, before)
    grown = (steps - within)[gaps_between(times, rows["ticks"].fill_null(0).to_numpy(), SECOND).after]
    return float(grown[grown > 0].sum())


def _refresh_and_edges(
    folder: Path, gpu: str, cache: PartCache, read_hz: Mapping[str, float]
) -> tuple[dict[str, Refresh | None], list[_Edge]]:
    """Returns the refresh of each reading, and the edges of the chunks that tell it."""
    refresh: dict[str, Refresh | None] = {}
    edges: list[_Edge] = []
    for chunk in frames.chunks(folder, most=STRETCHES, gpu=gpu, cache=cache):
        if len(chunk):
            determined = {name for name, rate in refresh.items() if rate}
            refresh.update(sensors.refresh_of_one(chunk, determined, read_hz))
            edges += _edges_of(chunk)
    return refresh, edges


def _edges(folder: Path, gpu: str, cache: PartCache) -> list[_Edge]:
    """Returns the edges of a few chunks, the first and the last among them."""
    chunks = frames.chunks(folder, ("power_w", "energy_j"), most=STRETCHES, gpu=gpu, cache=cache)
    return [edge for chunk in chunks if len(chunk) for edge in _edges_of(chunk)]


def _outermost(edges: Sequence[_Edge]) -> tuple[_Edge, _Edge]:
    return (edges[0], edges[-1]) if edges else (_Edge(), _Edge())


def _edges_of(ticks: pl.DataFrame) -> list[_Edge]:
    """Returns the first and the last tick."""
    if not {"power_w", "energy_j"} <= set(ticks.columns):
        return [_Edge(), _Edge()]
    times = ticks["time"].dt.epoch("ns").to_numpy()
    counter, power = (ticks[name].cast(pl.Float64).to_numpy() for name in ("energy_j", "power_w"))
    watts, widths = power[~np.isnan(power)], until_next(times).widths / SECOND
    edges = []
    for edge in (0, -1):
        true = sensors.counter_at(times, counter, power, int(times[edge]))
        lacking = 0.0 if true is None or np.isnan(counter[edge]) else true - float(counter[edge])
        edges.append(_Edge(lacking, float(watts[edge]) if len(watts) else math.nan, float(widths[edge])))
    return edges
