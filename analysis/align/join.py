"""Spans of time x ticks of GPUs -> what each span cost: a row a span, the GPUs of the run taken together.

Power, energy and memory are summed over GPUs, utilisation and clocks averaged, temperature is that of the hottest.
Ticks may come as they were sampled or as whole seconds (`gpu_1s`), which is what recordings of days are read by.
What was not measured in a span is null; `measured` says of how much of it, and of how many GPUs, something was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis import columns
from gputel.analysis.align import counter
from gputel.analysis.align.held import Holds, Moments, Numbers, Windows, divided, until_next
from gputel.telemetry.clock import SECOND
from gputel.telemetry.sampling.news import SLOWED

MEASURES = tuple(column.name for column in columns.MEASURES)
AVERAGED = ("util", "sm_mhz", "sm_active", "tensor_active", "dram_active")
MOST_GPUS = 1024  # rows of one moment
WANTED = ("power_w", "energy_j", "temp_c", "mem_used_mib", "throttle", *AVERAGED)


@dataclass(frozen=True)
class Ticks:
    """Of one GPU: what held when, by the names of readings; `peaks` where a row stands for many ticks.

    `counted_at` is when the energy counter stood at its values.
    """

    holds: Holds
    values: dict[str, Numbers]
    counted_at: Moments
    peaks: dict[str, Numbers]

    def get(self, name: str) -> Numbers:
        return self.values.get(name, np.full(len(self.holds.times), np.nan))

    def peak(self, name: str) -> Numbers:
        return self.peaks.get(name, self.get(name))


def measured(spans: pl.DataFrame, gpu: pl.DataFrame | None) -> pl.DataFrame:
    """`spans` with MEASURES. Spans of a node are joined to that node's GPUs, spans without one to all."""
    if "node" not in spans.columns or gpu is None or "node" not in gpu.columns:
        return spans.with_columns(_measures(spans, gpu))
    parts = [
        own.with_columns(_measures(own, gpu.filter(pl.col("node").eq_missing(node))))
        for (node,), own in spans.group_by("node", maintain_order=True)
    ]
    return pl.concat(parts) if parts else spans.with_columns(_measures(spans, None))


def by_gpu(gpu: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """A row a GPU of what it did in one stretch of time, with the columns of `measured`; edges in ns."""
    keys = _keys(gpu)
    span = pl.DataFrame({"start": [start], "end": [end]}).cast(pl.Datetime("ns"))
    span = span.with_columns(pl.all().dt.replace_time_zone("UTC"))
    parts = [
        own.select(pl.col(keys).first()).hstack(span).hstack(_measures(span, own)) for own in _apart(gpu)
    ]
    return pl.concat(parts).sort(keys) if parts else pl.DataFrame()


def _measures(spans: pl.DataFrame, gpu: pl.DataFrame | None) -> list[pl.Series]:
    starts, stops = (spans[name].dt.epoch("ns").to_numpy() for name in ("start", "end"))
    seconds = (stops - starts) / 1e9
    found: dict[str, Numbers] = {"duration_s": seconds}
    if gpu is not None and len(gpu) and len(spans):
        found.update(_together([*each(gpu)], starts, stops))
    nothing = np.full(len(spans), np.nan)
    return [pl.Series(name, found.get(name, nothing)).fill_nan(None) for name in MEASURES]


def each(gpu: pl.DataFrame) -> Iterator[Ticks]:
    """The ticks of each GPU by itself, in the order of time."""
    told = gpu.filter(pl.col("time").is_not_null()) if gpu["time"].null_count() else gpu
    turns = _turns(told)
    if turns and "ticks" not in told.columns and told["time"].is_sorted():
        yield from (_of_ticks(told, place, turns) for place in range(turns))
        return
    for own in _apart(told):
        ordered = own if own["time"].is_sorted() else own.sort("time", maintain_order=True)
        yield _of_seconds(ordered) if "ticks" in own.columns else _of_ticks(ordered)


def _turns(gpu: pl.DataFrame) -> int:
    """How many GPUs take turns, row by row, as they do where all are sampled at once; 0 where they do not."""
    keys = _keys(gpu)
    count = int(gpu.head(MOST_GPUS).select(pl.struct(keys).n_unique()).item())
    if count == 0 or len(gpu) % count:
        return 0
    rest = len(gpu) - count
    return count if all(gpu[k].slice(count).eq_missing(gpu[k].head(rest)).all() for k in keys) else 0


def _keys(gpu: pl.DataFrame) -> list[str]:
    return [name for name in ("node", "gpu") if name in gpu.columns]


def _apart(gpu: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """A frame a GPU, one at a time."""
    turns = _turns(gpu)
    if turns:
        yield from (gpu.gather_every(turns, place) for place in range(turns))
    else:
        yield from gpu.partition_by(_keys(gpu), maintain_order=True)


def _of_ticks(rows: pl.DataFrame, place: int = 0, turns: int = 1) -> Ticks:
    """Of the GPU whose turn is `place`."""
    times = np.ascontiguousarray(rows["time"].dt.epoch("ns").to_numpy()[place::turns])
    values = {
        name: rows[name].to_numpy()[place::turns].astype(np.float64) for name in _wanted(rows.columns)
    }  # of a null, NaN
    return Ticks(until_next(times), values, times, {})


def _of_seconds(own: pl.DataFrame) -> Ticks:
    """A second stands for its mean; the first and the last of a stretch for as much as was sampled of it."""
    times = own["time"].dt.epoch("ns").to_numpy()
    ticks = own["ticks"].fill_null(0).to_numpy()
    share = np.minimum(ticks / max(float(np.quantile(ticks, 0.9, method="higher")), 1.0), 1.0)
    follows = np.diff(times) == SECOND
    begins, ends = ~np.insert(follows, 0, False), ~np.append(follows, False)
    lacking = ((1 - share) * SECOND).astype(np.int64)
    holds = Holds(times + lacking * begins, times + SECOND - lacking * (ends & ~begins))
    means = {name: _floats(own, f"{name}_mean") for name in _wanted(own.columns, "_mean")}
    means |= {name: _floats(own, f"{name}_any") for name in _wanted(own.columns, "_any")}
    means |= {name: _floats(own, f"{name}_last") for name in ("energy_j",) if f"{name}_last" in own.columns}
    peaks = {name: _floats(own, f"{name}_max") for name in _wanted(own.columns, "_max")}
    return Ticks(holds, means, holds.ends, peaks)


def _wanted(columns: Sequence[str], ending: str = "") -> list[str]:
    return [name for name in WANTED if f"{name}{ending}" in columns]


def _floats(own: pl.DataFrame, name: str) -> Numbers:
    numbers: Numbers = own[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return numbers


def _together(gpus: list[Ticks], starts: Moments, stops: Moments) -> dict[str, Numbers]:
    windows = [gpu.holds.over(starts, stops) for gpu in gpus]
    alone = [_alone(gpu, window, starts, stops) for gpu, window in zip(gpus, windows, strict=True)]
    joules, counted = _sum(alone, "energy_j"), _sum(alone, "energy_counter_j", whole=True)
    found = {
        "measured": divided(_sum(alone, "seconds"), len(gpus) * (stops - starts) / 1e9),
        "power_mean_w": _sum(alone, "power_mean_w"),
        "power_peak_w": _peak_of_all(gpus, windows, starts, stops),
        "energy_j": joules,
        "energy_counter_j": counted,
        "energy_difference": divided(joules, counted) - 1,
        "refreshes": _least(alone, "refreshes"),
        "temp_c": _most(alone, "temp_c"),
        "temp_peak_c": _most(alone, "temp_peak_c"),
        "mem_peak_mib": _sum(alone, "mem_peak_mib"),
        "throttled_s": _most(alone, "throttled_s"),
    }
    return {**found, **{name: _mean(alone, name) for name in AVERAGED if any(name in one for one in alone)}}


def _alone(gpu: Ticks, windows: Windows, starts: Moments, stops: Moments) -> dict[str, Numbers]:
    """What one GPU did in each span."""
    power = gpu.get("power_w")
    joules, seconds = windows.integral(power)
    slowed = _slowed(gpu.get("throttle"))
    slow_s, told_s = windows.integral(slowed)
    some = seconds > 0
    return {
        "seconds": seconds,
        "power_mean_w": divided(joules, seconds),
        "energy_j": np.where(some, joules, np.nan),
        "energy_counter_j": counter.used(
            gpu.get("energy_j"), gpu.counted_at, power, gpu.holds, starts, stops
        ),
        "refreshes": np.where(some, windows.count(_changed(power)), np.nan),
        "temp_c": windows.mean(gpu.get("temp_c")),
        "temp_peak_c": windows.peak(gpu.peak("temp_c")),
        "mem_peak_mib": windows.peak(gpu.peak("mem_used_mib")),
        "throttled_s": np.where(told_s > 0, slow_s, np.nan),
        **{name: windows.mean(gpu.get(name)) for name in AVERAGED if name in gpu.values},
    }


def _slowed(mask: Numbers) -> Numbers:
    known = ~np.isnan(mask)
    bits = np.where(known, mask, 0).astype(np.int64) & SLOWED
    return np.where(known, bits != 0, np.nan)


def _changed(power: Numbers) -> npt.NDArray[np.bool_]:
    """The ticks that brought another value; what follows a tick without one is no news."""
    steps = np.diff(power, prepend=np.nan)
    changed: npt.NDArray[np.bool_] = ~np.isnan(steps) & (steps != 0)
    return changed


def _peak_of_all(gpus: list[Ticks], windows: list[Windows], starts: Moments, stops: Moments) -> Numbers:
    """The most that all GPUs drew at one time; they may have been sampled at different ones."""
    powers = [gpu.peak("power_w") for gpu in gpus]
    if len(gpus) == 1:
        return windows[0].peak(powers[0])
    if all(np.array_equal(gpu.holds.times, gpus[0].holds.times) for gpu in gpus):
        return windows[0].peak(_added(powers))
    moments, shown = _side_by_side([gpu.holds for gpu in gpus], powers)
    return Holds(moments, np.append(moments[1:], moments[-1:])).over(starts, stops).peak(_added(shown))


def _side_by_side(holds: list[Holds], values: list[Numbers]) -> tuple[Moments, list[Numbers]]:
    """Every moment at which any of them changes, and what each showed then; NaN in a hole."""
    broken = [one.ends[np.append(one.ends[:-1] != one.times[1:], True)] for one in holds]
    parts = [*(one.times for one in holds), *broken]
    moments = np.concatenate(parts)
    order = np.argsort(moments, kind="stable")  # linear, for it finds the parts in order
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])[order]
    moments = moments[order]
    shown = []
    for number, (one, own) in enumerate(zip(holds, values, strict=True)):
        place = np.cumsum(owner == number) - 1
        shown.append(np.where((place >= 0) & (moments < one.ends[place]), own[place], np.nan))
    return moments, shown


def _added(arrays: Sequence[Numbers]) -> Numbers:
    """The sum of what is known; NaN where nothing is."""
    known = np.any([~np.isnan(one) for one in arrays], axis=0)
    total: Numbers = np.where(known, np.sum([np.nan_to_num(one) for one in arrays], axis=0), np.nan)
    return total


def _sum(alone: list[dict[str, Numbers]], name: str, *, whole: bool = False) -> Numbers:
    """`whole`: NaN where any GPU has none, for a counter of some GPUs cannot be set beside an integral of all."""
    arrays = [one[name] for one in alone]
    return np.sum(arrays, axis=0) if whole else _added(arrays)


def _mean(alone: list[dict[str, Numbers]], name: str) -> Numbers:
    arrays = [one[name] for one in alone if name in one]
    return divided(_added(arrays), np.sum([~np.isnan(one) for one in arrays], axis=0).astype(np.float64))


def _most(alone: list[dict[str, Numbers]], name: str) -> Numbers:
    found: Numbers = np.fmax.reduce([one[name] for one in alone])
    return found


def _least(alone: list[dict[str, Numbers]], name: str) -> Numbers:
    found: Numbers = np.fmin.reduce([one[name] for one in alone])
    return found
