"""The GPUs of a run: power, temperature, utilisation and memory of the last minutes as strips, or in few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from gputel.analysis.live.terminal import plots
from gputel.analysis.live.terminal.wording import clean, fitted, flowed, line
from gputel.analysis.live.view import Gpu

VALUE = 9
LEAST = 50  # columns below which strips say nothing


class Reading(NamedTuple):
    """`low` and `high` are the edges of its strip; the GPU's own `limit` goes before `high`."""

    name: str
    column: str
    unit: str
    high: float
    low: float = 0
    limit: str = ""
    times: float = 1


READINGS = (
    Reading("power", "power_w_mean", "W", 700, limit="power_w"),
    Reading("temp", "temp_c_max", "°C", 95, low=20),
    Reading("util", "util_mean", "%", 100),
    Reading("memory", "mem_used_mib_max", "GiB", 81_920, limit="memory_total_mib", times=1 / 1024),
)


def gpus(found: Sequence[Gpu], width: int, rows: int) -> list[Text]:
    """A line each where there is room for all of them, else as many as fit in few words."""
    if not found or rows < 1:
        return []
    if rows > len(found) and width >= LEAST:
        return _table(found, width)
    lines = flowed([_brief(gpu) for gpu in found], width, " · ")
    if len(lines) > rows:
        lines = lines[:rows]
        shown = sum(text.plain.count("°C") for text in lines)
        lines[-1] = fitted(line(fitted(lines[-1], width - 12), f" +{len(found) - shown} GPUs"), width)
    return lines


def _table(found: Sequence[Gpu], width: int) -> list[Text]:
    names = [_name(gpu) for gpu in found]
    margin = max(3, *(len(name) for name in names))
    column = (width - margin) // len(READINGS)
    heads = "".join(f" {reading.name}".ljust(column) for reading in READINGS)
    lines = [line((f"{'gpu'.ljust(margin)}{heads}", "dim"))]
    for name, gpu in zip(names, found, strict=True):
        cells = [_cell(gpu, reading, column) for reading in READINGS]
        lines.append(line((name.ljust(margin), "bold"), *cells))
    return [fitted(text, width) for text in lines]


def _cell(gpu: Gpu, reading: Reading, width: int) -> Text:
    room = width - VALUE - 1
    drawn = plots.strip(gpu.strips.get(reading.column, []), room, reading.low, _high(gpu, reading))
    return line(" ", (drawn, _style(gpu, reading)), _said(gpu, reading).rjust(VALUE))


def _brief(gpu: Gpu) -> Text:
    return line((_name(gpu), "bold"), *(f" {_said(gpu, reading).replace(' ', '')}" for reading in READINGS))


def _said(gpu: Gpu, reading: Reading) -> str:
    value = gpu.last.get(reading.column)
    return "-" if value is None else f"{value * reading.times:.0f} {reading.unit}"


def _high(gpu: Gpu, reading: Reading) -> float:
    return gpu.limits.get(reading.limit, reading.high)


def _style(gpu: Gpu, reading: Reading) -> str:
    """A temperature near its edge is no good news; a full memory and a busy GPU are."""
    value = gpu.last.get(reading.column, 0)
    return "red" if reading.unit == "°C" and value > 0.9 * reading.high else "green"


def _name(gpu: Gpu) -> str:
    return clean(f"{gpu.node}/{gpu.gpu}" if gpu.node else gpu.gpu)
