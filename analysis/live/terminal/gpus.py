"""The GPUs of a run on the screen: a row of strips each; of many nodes, a row for each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from rich.text import Text

from gputel.analysis.live.terminal import plots
from gputel.analysis.live.terminal.text import clean, fit, flow, line
from gputel.analysis.live.view import GpuView
from gputel.telemetry.file_names import natural_order

GPU_VALUE = 9
LEAST = 50  # columns below which GPUs have no strips
LEAST_OF_NODES = 44  # the same of nodes, whose figures stand below each other without strips too
LOW_POWER = 0.9  # of the mean of a node's GPUs, below which the lowest is named


class StripReading(NamedTuple):
    """A reading with the range of its strip. The GPU's own `limit`, if known, replaces `high`.

    `of_node` is what a row for a node shows of its GPUs.
    """

    name: str
    column: str
    unit: str
    high: float
    low: float = 0
    limit: str = ""
    times: float = 1
    of_node: Literal["mean", "max"] = "max"


READINGS = (
    StripReading("power", "power_w_mean", "W", 700, limit="power_w", of_node="mean"),
    StripReading("temp", "temp_c_max", "°C", 95, low=20),
    StripReading("util", "util_mean", "%", 100, of_node="mean"),
    StripReading("memory", "mem_used_mib_max", "GiB", 81_920, limit="memory_total_mib", times=1 / 1024),
)


def gpus(
    views: Sequence[GpuView], width: int, rows: int, steps: Mapping[str, int] | None = None
) -> list[Text]:
    """A row of strips per GPU if all fit, else one per node of several; else as many as fit in short form.

    `steps` is the last step that each node has printed.
    """
    if not views or rows < 1:
        return []
    nodes = {gpu.node: [each for each in views if each.node == gpu.node] for gpu in views}
    if rows > len(views) and width >= LEAST:
        return _table(views, width, "gpu")
    if len(nodes) == 1:
        return _in_short(views, width, rows, "GPUs")
    merged = [_merged(node, nodes[node]) for node in sorted(nodes, key=natural_order)]
    if rows > len(merged) and width >= LEAST_OF_NODES:
        return _table(merged, width, "node", _ends(nodes, steps or {}))
    return _in_short(merged, width, rows, "nodes")


def _in_short(views: Sequence[GpuView], width: int, rows: int, what: str) -> list[Text]:
    lines = flow([_brief(gpu) for gpu in views], width, " · ")
    if len(lines) > rows:
        lines = lines[:rows]
        shown = sum(text.plain.count("°C") for text in lines)
        lines[-1] = fit(line(fit(lines[-1], width - 12), f" +{len(views) - shown} {what}"), width)
    return lines


def _merged(node: str, views: Sequence[GpuView]) -> GpuView:
    """A node as one GPU: the mean of its GPUs' power and utilization, the highest temperature and memory."""
    last, strips = {}, {}
    for reading in READINGS:
        values = [view.last[reading.column] for view in views if reading.column in view.last]
        if values:
            last[reading.column] = sum(values) / len(values) if reading.of_node == "mean" else max(values)
        strips[reading.column] = _merged_strip(
            [view.strips.get(reading.column, []) for view in views], reading
        )
    newest = max(view.at for view in views)
    return replace(views[0], gpu="", node=node, at=newest, last=last, strips=strips)


def _merged_strip(strips: Sequence[list[float]], reading: StripReading) -> list[float]:
    """Second by second, up to the last one; NaN where no GPU has a value."""
    longest = max(map(len, strips))
    table = np.full((len(strips), longest), np.nan)
    for row, strip in zip(table, strips, strict=True):
        row[longest - len(strip) :] = strip
    known = table[:, ~np.isnan(table).all(axis=0)]
    merged = np.full(longest, np.nan)
    if known.size:
        how = np.nanmean if reading.of_node == "mean" else np.nanmax
        merged[~np.isnan(table).all(axis=0)] = how(known, axis=0)
    return [float(value) for value in merged]


def _ends(nodes: Mapping[str, Sequence[GpuView]], steps: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """The last columns of nodes: the step, and the GPU that draws far less than the others of its node."""
    ends = {
        "step": {node: f"{steps[node]:,}" for node in nodes if node in steps},
        "lowest": {node: found for node, views in nodes.items() if (found := _lowest(views))},
    }
    return {name: column for name, column in ends.items() if column}


def _lowest(views: Sequence[GpuView]) -> str | None:
    powers = {view.gpu: view.last["power_w_mean"] for view in views if "power_w_mean" in view.last}
    gpu = min(powers, key=powers.__getitem__, default="")
    if not powers or powers[gpu] >= LOW_POWER * sum(powers.values()) / len(powers):
        return None
    return f"{gpu}: {powers[gpu]:.0f} W"


def _table(
    views: Sequence[GpuView], width: int, title: str, ends: Mapping[str, Mapping[str, str]] | None = None
) -> list[Text]:
    """Rows with the readings' strips, as far as there is room for them; `ends` are columns behind them, by node."""
    names = [_name(gpu) for gpu in views]
    margin = max(len(title), *(len(name) for name in names))
    widths = {end: 2 + max(len(end), *map(len, column.values())) for end, column in (ends or {}).items()}
    while widths and width - margin - sum(widths.values()) < len(READINGS) * (GPU_VALUE - 1):
        widths.popitem()
    column = (width - margin - sum(widths.values())) // len(READINGS)
    behind = "".join(end.rjust(widths[end]) for end in widths)
    lines = [line((f"{title.ljust(margin)}{_heads(title, column)}{behind}", "dim"))]
    for name, gpu in zip(names, views, strict=True):
        cells = [_cell(gpu, reading, column) for reading in READINGS]
        texts = [clean((ends or {})[end].get(gpu.node, "")).rjust(widths[end]) for end in widths]
        lines.append(line((name.ljust(margin), "bold"), *cells, *texts))
    return [fit(text, width) for text in lines]


def _heads(title: str, column: int) -> str:
    """The names of the readings; over nodes also what is taken of their GPUs, where there is room to say it."""
    names = [reading.name for reading in READINGS]
    hows = [f"{reading.of_node} {reading.name}" for reading in READINGS]
    shown = hows if title == "node" and column > max(map(len, hows)) else names
    return "".join(
        f" {name}".ljust(column) if column > GPU_VALUE + 1 else name.rjust(column) for name in shown
    )


def _cell(gpu: GpuView, reading: StripReading, width: int) -> Text:
    room, last = width - GPU_VALUE - 1, _last(gpu, reading)
    if room < 1:
        return line((last.rjust(width), "red" if _style(gpu, reading) == "red" else ""))
    drawn = plots.strip(gpu.strips.get(reading.column, []), room, reading.low, _high(gpu, reading))
    return line(" ", (drawn, _style(gpu, reading)), last.rjust(GPU_VALUE))


def _brief(gpu: GpuView) -> Text:
    return line((_name(gpu), "bold"), *(f" {_last(gpu, reading).replace(' ', '')}" for reading in READINGS))


def _last(gpu: GpuView, reading: StripReading) -> str:
    value = gpu.last.get(reading.column)
    return "-" if value is None else f"{value * reading.times:.0f} {reading.unit}"


def _high(gpu: GpuView, reading: StripReading) -> float:
    return gpu.limits.get(reading.limit, reading.high)


def _style(gpu: GpuView, reading: StripReading) -> str:
    """Red for a temperature near its limit; full memory and high utilization are fine."""
    value = gpu.last.get(reading.column, 0)
    return "red" if reading.unit == "°C" and value > 0.9 * reading.high else "green"


def _name(gpu: GpuView) -> str:
    return clean("/".join(filter(None, (gpu.node, gpu.gpu))))
