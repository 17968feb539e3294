"""Readings of GPUs -> panels over time: power, temperature, utilization, clocks, memory; a curve per GPU.

Ticks go in as they were sampled or as whole seconds: of these the mean is drawn between the extremes of the second,
so that a peak of 10 ms is as high in the page of a week as in that of a minute. Of more than a few GPUs the mean of
all is shown between the lowest and the highest, each GPU when asked for, and a heat map of GPUs over time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gputel.analysis.align.windows import Gaps, gaps, gaps_between
from gputel.analysis.compare.axes import floats
from gputel.analysis.document import Curves, Heat, Level, Marker, Numbers, PlotAxis, Series
from gputel.telemetry.clock import SECOND
from gputel.telemetry.readings import BY_NAME

FEW_GPUS = 4  # each of which is shown; of more, their mean and a heat map
COLUMNS = 240  # of the heat map
MOST_GPUS = 16  # more are drawn as one curve a node: their mean between the lowest and the highest of them


@dataclass(frozen=True)
class GpuPanel:
    """`words` stand behind the GPU's name, for panels of several readings."""

    name: str
    title: str
    readings: tuple[tuple[str, str], ...]
    noisy: bool = False
    mapped: bool = False  # many GPUs also have a heat map


KINDS = (
    GpuPanel("power", "Power", (("power_w", ""),), noisy=True, mapped=True),
    GpuPanel("power-average", "Power, the driver's average", (("power_avg_w", ""),)),
    GpuPanel("temperature", "Temperature", (("temp_c", ""), ("temp_mem_c", "memory"))),
    GpuPanel("utilization", "Utilization", (("util", ""),), noisy=True, mapped=True),
    GpuPanel("sm-activity", "SM activity", (("sm_active", ""),), noisy=True),
    GpuPanel("tensor-activity", "Tensor core activity", (("tensor_active", ""),), noisy=True),
    GpuPanel("dram-activity", "Memory bandwidth utilization", (("dram_active", ""),), noisy=True),
    GpuPanel("clocks", "Clocks", (("sm_mhz", "SM"), ("mem_mhz", "memory"))),
    GpuPanel("memory", "Memory used", (("mem_used_mib", ""),)),
    GpuPanel("pcie", "PCIe", (("pcie_rx_mib_s", "received"), ("pcie_tx_mib_s", "sent")), noisy=True),
    GpuPanel("nvlink", "NVLink", (("nvlink_rx_mib_s", "received"), ("nvlink_tx_mib_s", "sent")), noisy=True),
)


def panels(
    readings: pl.DataFrame,
    axis: PlotAxis | None = None,
    marks: Sequence[Marker] = (),
    levels: dict[str, Level] | None = None,
    link: str = "recording",
) -> list[Curves | Heat]:
    """`readings` as `Recording.gpu`, `Recording.gpu_1s` or a table of readings has them; `levels` by panel.

    Without `axis` time counts from the first of them.
    """
    readings = readings.filter(pl.col("time").is_not_null())
    if readings.is_empty():
        return []
    axis = axis or PlotAxis("time", "time", "s", int(readings["time"].dt.epoch("ns").min()))  # type: ignore[arg-type]
    gpus = list(_gpus(readings, axis.start_ns or 0))
    limits = levels or {}
    found: list[Curves | Heat] = []
    for kind in KINDS:
        panel = _panel(kind, gpus, axis, marks)
        if panel:
            levels_here = (limits[panel.name],) if panel.name in limits else ()
            found.append(replace(panel, link=link, levels=levels_here))
            each = [gpu for gpu in gpus if not gpu.shown and _measured(gpu.rows, kind.readings[0][0])]
            found += [_heat(kind, each, axis, link)] if kind.mapped and each else []
    return found


@dataclass(frozen=True)
class _Gpu:
    """`breaks` are the rows before which nothing was measured for a while."""

    name: str
    tint: int
    x: Numbers
    rows: pl.DataFrame
    breaks: Numbers
    ticks: int
    shown: bool = True


def _gpus(readings: pl.DataFrame, start_ns: int) -> Iterator[_Gpu]:
    keys = [name for name in ("node", "gpu") if name in readings.columns]
    each = readings.partition_by(keys, as_dict=True, maintain_order=True)
    means = _by_node(readings) if len(each) > FEW_GPUS else {}
    parts = [*_sorted(means), *(_sorted(each) if len(each) <= MOST_GPUS else [])]
    for tint, (key, rows) in enumerate(parts):
        seconds = np.round((rows["time"].dt.epoch("ns").to_numpy() - start_ns) / 1e9, 3)
        breaks: Numbers = np.flatnonzero(_gaps(rows).after) + 1
        ticks = int(rows["ticks"].sum()) if "ticks" in rows.columns else rows.height
        x = np.insert(seconds, breaks, seconds[breaks])
        yield _Gpu(_name(key), tint, x, rows, breaks, ticks, shown=key in means or not means)


def _sorted(parts: dict[tuple[object, ...], pl.DataFrame]) -> list[tuple[tuple[object, ...], pl.DataFrame]]:
    return sorted(parts.items(), key=lambda part: _order(part[0]))


def _gaps(rows: pl.DataFrame) -> Gaps:
    """The gaps between ticks, or between rows that stand for a second or more."""
    times = rows["time"].dt.epoch("ns").to_numpy()
    if "ticks" not in rows.columns:
        return gaps(times)
    apart = np.diff(times)
    polls = rows["polls" if "polls" in rows.columns else "ticks"].fill_null(0).to_numpy()
    return gaps_between(times, polls, int(apart.min()) if len(apart) else SECOND)


def _order(key: tuple[object, ...]) -> list[tuple[int, str]]:
    return [(len(str(part)), str(part)) for part in key]


def _name(key: tuple[object, ...]) -> str:
    parts = [str(part) for part in key]
    if len(parts) == 1:
        return parts[0] if " " in parts[0] else f"GPU {parts[0]}"
    return f"node {parts[0]} GPU {parts[1]}"


def _by_node(readings: pl.DataFrame) -> dict[tuple[object, ...], pl.DataFrame]:
    """Whole seconds of all GPUs of a node together; `polls` are the ticks of one of them."""
    node = pl.col("node") if "node" in readings.columns else pl.lit("all")
    names = [name for kind in KINDS for name, _ in kind.readings]
    means = [name for name in names if _has(readings, name)]
    ticks = pl.col("ticks").sum() if "ticks" in readings.columns else pl.len()
    seconds = readings.group_by(
        node.alias("node"), pl.col("time").dt.truncate("1s"), maintain_order=True
    ).agg(
        ticks.alias("ticks"),
        (ticks / pl.col("gpu").n_unique()).alias("polls"),
        *(pl.col(_column(readings, name, "mean")).mean().alias(f"{name}_mean") for name in means),
        *(pl.col(_column(readings, name, "min")).min().alias(f"{name}_min") for name in means),
        *(pl.col(_column(readings, name, "max")).max().alias(f"{name}_max") for name in means),
    )
    gpus = readings.group_by(node.alias("node")).agg(pl.col("gpu").n_unique())
    count = dict(gpus.iter_rows())
    parts = seconds.sort("time", maintain_order=True).partition_by("node", as_dict=True)
    where = "node {}, " if "node" in readings.columns else ""
    return {(f"{where.format(key[0])}mean of {count[key[0]]} GPUs",): rows for key, rows in parts.items()}


def _panel(kind: GpuPanel, gpus: Sequence[_Gpu], axis: PlotAxis, marks: Sequence[Marker]) -> Curves | None:
    series = [
        _series(gpu, reading, words if len(kind.readings) > 1 else "", place)
        for gpu in gpus
        for place, (reading, words) in enumerate(kind.readings)
        if _measured(gpu.rows, reading)
    ]
    if not series:
        return None
    unit = BY_NAME[kind.readings[0][0]].unit
    return Curves(
        kind.name, kind.title, (axis,), PlotAxis(kind.name, kind.title, unit), tuple(series), tuple(marks),
        noisy=kind.noisy,
    )  # fmt: skip


def _series(gpu: _Gpu, reading: str, words: str, place: int) -> Series:
    whole_seconds = "ticks" in gpu.rows.columns
    return Series(
        name=f"{gpu.name} {words}".strip(),
        x={"time": gpu.x},
        y=_values(gpu, reading, "mean"),
        low=_values(gpu, reading, "min") if whole_seconds else None,
        high=_values(gpu, reading, "max") if whole_seconds else None,
        tint=gpu.tint,
        style="dashed" if place else "line",
        measured=gpu.ticks,
        shown=gpu.shown,
    )


def _heat(kind: GpuPanel, gpus: Sequence[_Gpu], axis: PlotAxis, link: str) -> Heat:
    """A row a GPU, the first on top; a column is the mean of a stretch of time; without readings it is empty."""
    x = np.concatenate([gpu.x for gpu in gpus])
    edges = np.linspace(x.min(), max(x.max(), x.min() + 1), COLUMNS + 1)
    values = np.full((len(gpus), COLUMNS), np.nan)
    for row, gpu in enumerate(reversed(gpus)):
        y = _values(gpu, kind.readings[0][0], "mean")
        known = np.isfinite(y)
        counts, sums = (np.histogram(gpu.x[known], edges, weights=weights)[0] for weights in (None, y[known]))
        values[row] = np.divide(sums, counts, out=values[row], where=counts > 0)
    unit = BY_NAME[kind.readings[0][0]].unit
    return Heat(
        f"{kind.name}-by-gpu", f"{kind.title} by GPU", axis, PlotAxis("gpu", "GPU"),
        PlotAxis(kind.name, kind.title, unit), edges, np.arange(len(gpus) + 1.0), values,
        link=link, names=tuple(gpu.name for gpu in reversed(gpus)),
    )  # fmt: skip


def _values(gpu: _Gpu, reading: str, statistic: str) -> Numbers:
    column = gpu.rows[_column(gpu.rows, reading, statistic)]
    return np.insert(floats(column), gpu.breaks, np.nan)


def _measured(rows: pl.DataFrame, reading: str) -> bool:
    return _has(rows, reading) and rows[_column(rows, reading, "mean")].count() > 0


def _has(rows: pl.DataFrame, reading: str) -> bool:
    return _column(rows, reading, "mean") in rows.columns


def _column(rows: pl.DataFrame, reading: str, statistic: str) -> str:
    """The columns of a reading: one of ticks, three of whole seconds."""
    return f"{reading}_{statistic}" if "ticks" in rows.columns else reading
