"""Spans of time x GPU readings -> the cost of each span.

Power, energy and memory are summed over GPUs, utilization and clocks averaged; temperature is that of the hottest
GPU. A measure without readings in a span is null; `measured` is the share of the span, over all GPUs, with
readings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis import columns, progress
from gputel.analysis.align.samples import AVERAGED, Gpu, GpuTicks, Readings, of_table
from gputel.analysis.align.windows import Moments, Numbers, SampleAndHold, changed, divided, used
from gputel.analysis.runs.record_gaps import SURE
from gputel.analysis.runs.sensors import FEW_REFRESHES
from gputel.telemetry.sampling.status import SLOWED

if TYPE_CHECKING:
    pass

MEASURES = tuple(column.name for column in columns.MEASURES)
JOULES = pl.coalesce("energy_counter_j", "energy_j")  # the counter misses nothing between two samples
Power: TypeAlias = tuple[SampleAndHold, Numbers]

WHOLE = 0.99  # least measured share of a step for an energy per token


def measured(spans: pl.DataFrame, gpu: pl.DataFrame | Readings | None) -> pl.DataFrame:
    """Adds MEASURES to `spans`. Spans of a node use that node's GPUs, spans without a node use all."""
    readings = of_table(gpu) if isinstance(gpu, pl.DataFrame) else gpu
    return with_gpus(spans, readings, (0, 0))[0]


def with_gpus(
    spans: pl.DataFrame, readings: Readings | None, stretch: tuple[int, int]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Measures spans, and each GPU over one stretch of time (edges in ns), in a single pass over the readings."""
    parts, rows = [], []
    for node_spans, names in _by_node(spans, readings):
        starts, stops = (
            np.append(node_spans[name].dt.epoch("ns").to_numpy(), edge)
            for name, edge in zip(("start", "end"), stretch, strict=True)
        )
        alone, powers = _gone_through(readings, names, starts, stops) if readings else ({}, [])
        measures = _together([*alone.values()], _peak_of_all(powers, starts, stops), starts, stops)
        parts.append(node_spans.with_columns(_measures(measures).head(len(node_spans)).get_columns()))
        for gpu, values in alone.items():
            measures = _together([values], values["power_peak_w"], starts, stops)
            rows.append(_of_gpu(gpu, stretch).hstack(_measures(measures).tail(1)))
    numbers = [pl.col(name).cast(pl.Int64, strict=False) for name in ("node", "gpu")]  # 2 comes before 10
    table = pl.concat(rows).sort(*numbers, "node", "gpu") if rows else pl.DataFrame()
    several = readings is not None and readings.several_nodes
    return pl.concat(parts), table if several else table.select(pl.exclude("node"))


def _by_node(spans: pl.DataFrame, readings: Readings | None) -> Iterator[tuple[pl.DataFrame, Sequence[Gpu]]]:
    gpus = readings.gpus if readings else ()
    if "node" not in spans.columns or not (readings and readings.several_nodes):
        yield spans, gpus
        return
    for node in dict.fromkeys([*spans["node"], *(node for node, _ in gpus)]):
        yield spans.filter(pl.col("node").eq_missing(node)), [gpu for gpu in gpus if gpu[0] == node]


def _of_gpu(gpu: Gpu, stretch: tuple[int, int]) -> pl.DataFrame:
    edges = [pl.lit(edge).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC") for edge in stretch]
    return pl.select(
        pl.lit(gpu[0], pl.String).alias("node"),
        pl.lit(gpu[1], pl.String).alias("gpu"),
        start=edges[0],
        end=edges[1],
    )


def _measures(arrays: dict[str, Numbers]) -> pl.DataFrame:
    nothing = np.full(len(arrays["duration_s"]), np.nan)
    return pl.DataFrame([pl.Series(name, arrays.get(name, nothing)).fill_nan(None) for name in MEASURES])


def _gone_through(
    readings: Readings, gpus: Sequence[Gpu], starts: Moments, stops: Moments
) -> tuple[dict[Gpu, dict[str, Numbers]], list[Power]]:
    """Measures each GPU in each span; sums the power of GPUs that were sampled at the same moments."""
    by_gpu: dict[Gpu, dict[str, Numbers]] = {}
    powers: list[Power] = []
    for gpu in progress.each(gpus, "measuring GPUs"):
        if ticks := readings.ticks(gpu):
            by_gpu[gpu] = _alone(ticks, starts, stops)
            powers = _with(powers, (ticks.holds, ticks.peak("power_w")))
        del ticks  # before the next GPU's are read
    return by_gpu, powers


def _with(powers: list[Power], more: Power) -> list[Power]:
    """Adds power to the series that was sampled at the same moments, else appends it."""
    for place, (holds, power) in enumerate(powers):
        if np.array_equal(holds.times, more[0].times):
            return [*powers[:place], (holds, _added([power, more[1]])), *powers[place + 1 :]]
    return [*powers, more]


def _together(
    by_gpu: list[dict[str, Numbers]], peak: Numbers, starts: Moments, stops: Moments
) -> dict[str, Numbers]:
    seconds = (stops - starts) / 1e9
    if not by_gpu:
        return {"duration_s": seconds}
    joules, counted = _sum(by_gpu, "energy_j"), _sum(by_gpu, "energy_counter_j", whole=True)
    refreshes, share = _least(by_gpu, "refreshes"), divided(_sum(by_gpu, "seconds"), len(by_gpu) * seconds)
    comparable = (refreshes >= FEW_REFRESHES) & (share >= WHOLE)  # the counter goes on in a gap
    measures = {
        "duration_s": seconds,
        "measured": share,
        "power_mean_w": _sum_of_all(by_gpu, "power_mean_w"),
        "power_peak_w": peak,
        "energy_j": joules,
        "energy_sampling_j": _sum(by_gpu, "energy_sampling_j"),  # GPUs of one training jump together
        "energy_counter_j": counted,
        "energy_difference": np.where(comparable, divided(joules, counted) - 1, np.nan),
        "refreshes": refreshes,
        "temp_c": _most(by_gpu, "temp_c"),
        "temp_peak_c": _most(by_gpu, "temp_peak_c"),
        "mem_peak_mib": _sum_of_all(by_gpu, "mem_peak_mib"),
        "throttled_s": _most(by_gpu, "throttled_s"),
    }
    return {
        **measures,
        "util_error": _mean(by_gpu, "util_error"),  # GPUs of one training jump together
        "util_changes": _least(by_gpu, "util_changes"),
        **{name: _mean(by_gpu, name) for name in AVERAGED if any(name in values for values in by_gpu)},
    }


def _alone(gpu: GpuTicks, starts: Moments, stops: Moments) -> dict[str, Numbers]:
    windows = gpu.holds.over(starts, stops)
    power = gpu.get("power_w")
    joules, seconds = windows.integral(power)
    slowed = _slowed(gpu.get("throttle"))
    slow_s, known_s = windows.integral(slowed)
    counted = used(gpu.get("energy_j"), gpu.counted_at, power, gpu.holds, starts, stops)
    some, whole = seconds > 0, ~np.isnan(counted) & (seconds * 1e9 >= WHOLE * (stops - starts))
    return {
        "seconds": seconds,
        "power_mean_w": divided(np.where(whole, counted, joules), seconds),
        "power_peak_w": windows.peak(gpu.peak("power_w")),
        "energy_j": np.where(some, joules, np.nan),
        "energy_counter_j": counted,
        "energy_sampling_j": np.where(some & ~gpu.whole_seconds, windows.sampling_error(power), np.nan),
        "refreshes": np.where(some, windows.total(_changed(power)), np.nan),
        "temp_c": windows.mean(gpu.get("temp_c")),
        "temp_peak_c": windows.peak(gpu.peak("temp_c")),
        "mem_peak_mib": windows.peak(gpu.peak("mem_used_mib")),
        "throttled_s": np.where(known_s > 0, slow_s, np.nan),
        "util_error": SURE * windows.mean_error(gpu.get("util")),
        "util_changes": np.where(gpu.has("util") & some, windows.total(changed(gpu.get("util"))), np.nan),
        **{name: windows.mean(gpu.get(name)) for name in AVERAGED if gpu.has(name)},
    }


def _slowed(mask: Numbers) -> Numbers:
    known = ~np.isnan(mask)
    bits = np.where(known, mask, 0).astype(np.int64) & SLOWED
    return np.where(known, bits != 0, np.nan)


def _changed(power: Numbers) -> npt.NDArray[np.bool_]:
    """Marks ticks with a new value; a value after a tick without one does not count."""
    steps = np.diff(power, prepend=np.nan)
    changed: npt.NDArray[np.bool_] = ~np.isnan(steps) & (steps != 0)
    return changed


def _peak_of_all(powers: list[Power], starts: Moments, stops: Moments) -> Numbers:
    """Returns the peak of the GPUs' summed power, even if they were sampled at different moments."""
    if not powers:
        return np.full(len(starts), np.nan)
    holds, power = powers[0]
    if len(powers) > 1:
        moments, shown = _side_by_side([hold for hold, _ in powers], [series for _, series in powers])
        holds, power = SampleAndHold(moments, np.append(moments[1:], moments[-1:])), _added(shown)
    return holds.over(starts, stops).peak(power)


def _side_by_side(holds: list[SampleAndHold], values: list[Numbers]) -> tuple[Moments, list[Numbers]]:
    """Puts series on the union of their moments: the value that each held then, NaN in a gap."""
    broken = [hold.ends[np.append(hold.ends[:-1] != hold.times[1:], True)] for hold in holds]
    parts = [*(hold.times for hold in holds), *broken]
    moments = np.concatenate(parts)
    order = np.argsort(moments, kind="stable")  # linear, for it finds the parts in order
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])[order]
    moments = moments[order]
    shown = []
    for number, (hold, levels) in enumerate(zip(holds, values, strict=True)):
        place = np.cumsum(owner == number) - 1
        shown.append(np.where((place >= 0) & (moments < hold.ends[place]), levels[place], np.nan))
    return moments, shown


def _added(arrays: Sequence[Numbers]) -> Numbers:
    """Sums the known values; NaN where all are unknown."""
    known = np.any([~np.isnan(array) for array in arrays], axis=0)
    total: Numbers = np.where(known, np.sum([np.nan_to_num(array) for array in arrays], axis=0), np.nan)
    return total


def _sum(by_gpu: list[dict[str, Numbers]], name: str, *, whole: bool = False) -> Numbers:
    """Sums over GPUs. `whole`: NaN if any GPU has no value, as a counter of some cannot be compared with all."""
    arrays = [values[name] for values in by_gpu]
    return np.sum(arrays, axis=0) if whole else _added(arrays)


def _sum_of_all(by_gpu: list[dict[str, Numbers]], name: str) -> Numbers:
    """Sums over GPUs; NaN while a GPU that has values elsewhere lacks them, as a sum would be too low."""
    measured = [values[name] for values in by_gpu if not np.isnan(values[name]).all()]
    return np.sum(measured, axis=0) if measured else np.full(len(by_gpu[0]["seconds"]), np.nan)


def _mean(by_gpu: list[dict[str, Numbers]], name: str) -> Numbers:
    arrays = [values[name] for values in by_gpu if name in values]
    return divided(
        _added(arrays), np.sum([~np.isnan(values) for values in arrays], axis=0).astype(np.float64)
    )


def _most(by_gpu: list[dict[str, Numbers]], name: str) -> Numbers:
    highest: Numbers = np.fmax.reduce([values[name] for values in by_gpu])
    return highest


def _least(by_gpu: list[dict[str, Numbers]], name: str) -> Numbers:
    lowest: Numbers = np.fmin.reduce([values[name] for values in by_gpu])
    return lowest
