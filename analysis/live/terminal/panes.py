"""What is shown of one run: each pane is a function from a run and a width to lines of text.

The GPUs of a run: power, temperature, utilisation and memory of the last minutes as strips, or in few words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from rich.text import Text

from gputel.analysis import text
from gputel.analysis.live.log_state import Coming
from gputel.analysis.live.series import Points
from gputel.analysis.live.terminal import plots
from gputel.analysis.live.terminal.snapshots import RunSnapshot
from gputel.analysis.live.terminal.text import clean, clock, fitted, flowed, line, moment, stamped
from gputel.analysis.live.view import GpuView, View

STYLES = {"running": "green", "completed": "cyan", "failed": "bold red", "interrupted": "yellow"}
LABELS = {"tok_per_sec": "tok/s", "mfu": "MFU", "grad_norm": "grad norm", "dt_ms": "ms a step"}
FIRST = ("loss", "tok_per_sec", "mfu", "grad_norm")
ELSEWHERE = ("total_time_min", "eta_min")  # said by the line of the progress
STRIPS = ("tok_per_sec", "mfu", "grad_norm")
LABEL, VALUE = 10, 9  # columns of a strip's name and of its last value
VALIDATION = "magenta"
BAR = 20


def label(metric: str) -> str:
    return LABELS.get(metric, metric)


def heading(shown: RunSnapshot, width: int) -> list[Text]:
    view = shown.view
    status = line((view.status, STYLES.get(view.status, "dim")))
    phase = f"  {clean(view.phase)}" if view.phase else ""
    if view.attempt > 1:
        phase += f"  attempt {view.attempt}"
    left = line((f" {clean(view.name)} ", "bold reverse"), "  ", status, phase)
    found = len(shown.active)
    said = f"▲ {found} alarm{'s' * (found > 1)}" if found else "no alarms"
    right = Text(said, "bold red" if found else "green", end="")
    lines = [line(fitted(left, max(width - right.cell_len - 1, 10)), " ", right)]
    if view.caution:
        lines.append(line((clean(view.caution), "bold yellow")))
    if view.cause:
        lines.append(line((clean(view.cause), "red")))
    return [fitted(one, width) for one in lines]


def progress(view: View, now: datetime, width: int) -> list[Text]:
    """Where the run stands, how long it takes, and what it costs."""
    step = "-" if view.step is None else f"{view.step:,}"
    chips = [line(("step ", "dim"), step + (f"/{view.total_steps:,}" if view.total_steps else ""))]
    if view.step is not None and view.total_steps:
        share = min(view.step / view.total_steps, 1)
        full = round(share * BAR)
        chips.append(line(("━" * full, "green"), ("━" * (BAR - full), "dim"), f" {100 * share:.1f} %"))
    if view.epoch is not None:
        chips.append(line(("epoch ", "dim"), f"{view.epoch:g}"))
    if view.seconds_a_step is not None:
        chips.append(line(text.duration(view.seconds_a_step), (" a step", "dim")))
    if view.elapsed_s is not None:
        chips.append(line(("elapsed ", "dim"), text.duration(view.elapsed_s)))
    if view.eta_s is not None:
        chips.append(line(("ETA ", "dim"), text.duration(view.eta_s)))
    if view.silent_s is not None and view.status == "running":
        last = datetime.fromtimestamp(now.timestamp() - view.silent_s, now.tzinfo)
        is_today = last.astimezone().date() == now.astimezone().date()
        chips.append(line(("last record ", "dim"), clock(last) if is_today else moment(last, now)))
    return flowed([*chips, *_cost(view)], width)


def _cost(view: View) -> list[Text]:
    cost = view.cost
    if cost is None:
        return []
    allowed = "" if cost.budget is None else f" of {text.money(cost.budget)}"
    at_end = "" if cost.at_end is None else f", {text.money(cost.at_end)} at the end"
    return [
        line(
            ("cost ", "dim"),
            (f"{text.money(cost.spent)}{allowed}{at_end}", "bold red" if cost.is_over else ""),
        )
    ]


def figures(view: View, width: int, rows: int) -> list[Text]:
    """Last values, the ones that matter first."""
    evals = {name: float(points.mean[-1]) for name, points in view.evals.items() if len(points.mean)}
    last = {name: value for name, value in view.last.items() if name not in ELSEWHERE}
    loss = {name: last[name] for name in FIRST[:1] if name in last}
    found = {**loss, **evals, **{name: last[name] for name in FIRST if name in last}, **last}
    chips = [line((f"{clean(label(name))} ", "dim"), _value(value)) for name, value in found.items()]
    return flowed(chips, width)[:rows]


def _value(value: float) -> tuple[str, str]:
    return text.short(value, 5), "bold" if math.isfinite(value) else "bold red"


def metrics(runs: Sequence[RunSnapshot]) -> list[str]:
    """What can be drawn of any of them, the ones that matter first."""
    known = dict.fromkeys(name for shown in runs for name in (*shown.view.curves, *shown.view.evals))
    return [name for name in FIRST if name in known] + [name for name in known if name not in FIRST]


def points_of(view: View, metric: str) -> Points | None:
    found = view.curves.get(metric, view.evals.get(metric))
    return found if found is not None and len(found.step) else None


def curve(
    view: View, metric: str, width: int, rows: int, share: float = 1.0, *, log: bool = False
) -> list[Text]:
    """One metric over the steps, and with the loss that of the validation."""
    drawn = {metric: (points_of(view, metric), "cyan")}
    if metric == "loss":
        drawn |= {name: (view.evals[name], VALIDATION) for name in view.evals if name == "val_loss"}
    lines = {
        name: plots.PlotLine(points, style) for name, (points, style) in drawn.items() if points is not None
    }
    keys = [line(("● ", one.style), clean(label(name))) for name, one in lines.items()]
    return framed(keys, list(lines.values()), width, rows, share, log=log)


def framed(
    keys: Sequence[Text],
    lines: Sequence[plots.PlotLine],
    width: int,
    rows: int,
    share: float = 1.0,
    *,
    log: bool = False,
) -> list[Text]:
    """A plot below a line that says what it shows, and of which steps; its largest and least value on the left."""
    if rows < 3:
        return []
    seen = plots.window([one.points for one in lines], share, log=log)
    if seen is None:
        return [fitted(one, width) for one in [line(("nothing to draw yet", "dim")), *[line()] * (rows - 1)]]
    low, high = (text.short(math.exp(edge) if log else edge, 5) for edge in (seen.bottom, seen.top))
    margin = max(len(low), len(high))
    scale = ", log" if log else ""
    span = line((f"steps {seen.left:,.0f} to {seen.right:,.0f}{scale}", "dim"))
    key = flowed(list(keys), max(width - span.cell_len - margin - 3, 8))[:1] or [line()]
    head = line(" " * (margin + 1), fitted(key[0], max(width - margin - 2 - span.cell_len, 0)), " ", span)
    edges = {0: high, rows - 2: low}
    body = plots.plot(lines, seen, max(width - margin - 1, 1), rows - 1)
    drawn = [line((edges.get(at, "").rjust(margin), "dim"), " ", row) for at, row in enumerate(body)]
    return [fitted(one, width) for one in [head, *drawn]]


def strips(view: View, width: int, rows: int) -> list[Text]:
    """Speed and gradient as one line each."""
    room = max(width - LABEL - VALUE - 2, 1)
    return [fitted(_strip(view, name, room), width) for name in STRIPS if name in view.curves][:rows]


def _strip(view: View, name: str, room: int) -> Text:
    """What hardly changes is drawn as hardly changing."""
    values = view.curves[name].mean
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    drawn = plots.strip(values, room, min(low, 0.9 * high), high)
    last = text.short(view.last[name], 5) if name in view.last else "-"
    return line((label(name).ljust(LABEL), "dim"), (drawn, "cyan"), " ", last.rjust(VALUE))


def coming(view: View, now: datetime, width: int) -> list[Text]:
    chips = [_coming(one, now) for one in view.coming]
    return flowed([line(("next", "dim")), *chips], width) if chips else []


def _coming(one: Coming, now: datetime) -> Text:
    return line((one.kind, "bold"), f" {one.step:,}", (f" {moment(one.at, now)}" if one.at else "", "green"))


def alarms(shown: RunSnapshot, width: int, rows: int) -> list[Text]:
    """What is wrong now, then what began and what is over, latest first."""
    active = [line(("▲ ", "bold red"), (clean(alarm.line), "red")) for alarm in reversed(shown.active)]
    past = [alarm for alarm in reversed(shown.history) if alarm not in shown.active]
    before = [
        line(("✓ " if alarm.state == "off" else "△ ", "green"), (clean(alarm.line), "dim")) for alarm in past
    ]
    return [fitted(one, width) for one in (active + before)[:rows]]


def events(view: View, width: int, rows: int) -> list[Text]:
    """The latest last, so that it reads as the log does."""
    told = [event for event in view.events if event.get("kind") not in ("eval", "epoch", "alarm")]
    folded = [list(alike) for _, alike in groupby(told, key=lambda one: (one.get("kind"), one.get("text")))]
    return [fitted(_event(alike[-1], len(alike)), width) for alike in folded[-rows:]] if rows > 0 else []


def _event(event: Mapping[str, Any], count: int) -> Text:
    """The last of as many that say the same."""
    time, step = stamped(event.get("time")), event.get("step")
    when = f"{clock(time)} " if time else ""
    where = f"step {step:,}  " if isinstance(step, int) else ""
    kind, words = clean(event.get("kind")), clean(event.get("text") or "")
    times = f"×{count} " if count > 1 else ""
    return line((f"{when}{where}", "dim"), (f"{kind} {times}", "bold"), words)


GPU_VALUE = 9
LEAST = 50  # columns below which strips say nothing


class StripReading(NamedTuple):
    """`low` and `high` are the edges of its strip; the GPU's own `limit` goes before `high`."""

    name: str
    column: str
    unit: str
    high: float
    low: float = 0
    limit: str = ""
    times: float = 1


READINGS = (
    StripReading("power", "power_w_mean", "W", 700, limit="power_w"),
    StripReading("temp", "temp_c_max", "°C", 95, low=20),
    StripReading("util", "util_mean", "%", 100),
    StripReading("memory", "mem_used_mib_max", "GiB", 81_920, limit="memory_total_mib", times=1 / 1024),
)


def gpus(found: Sequence[GpuView], width: int, rows: int) -> list[Text]:
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


def _table(found: Sequence[GpuView], width: int) -> list[Text]:
    names = [_name(gpu) for gpu in found]
    margin = max(3, *(len(name) for name in names))
    column = (width - margin) // len(READINGS)
    heads = "".join(f" {reading.name}".ljust(column) for reading in READINGS)
    lines = [line((f"{'gpu'.ljust(margin)}{heads}", "dim"))]
    for name, gpu in zip(names, found, strict=True):
        cells = [_cell(gpu, reading, column) for reading in READINGS]
        lines.append(line((name.ljust(margin), "bold"), *cells))
    return [fitted(text, width) for text in lines]


def _cell(gpu: GpuView, reading: StripReading, width: int) -> Text:
    room = width - GPU_VALUE - 1
    drawn = plots.strip(gpu.strips.get(reading.column, []), room, reading.low, _high(gpu, reading))
    return line(" ", (drawn, _style(gpu, reading)), _said(gpu, reading).rjust(GPU_VALUE))


def _brief(gpu: GpuView) -> Text:
    return line((_name(gpu), "bold"), *(f" {_said(gpu, reading).replace(' ', '')}" for reading in READINGS))


def _said(gpu: GpuView, reading: StripReading) -> str:
    value = gpu.last.get(reading.column)
    return "-" if value is None else f"{value * reading.times:.0f} {reading.unit}"


def _high(gpu: GpuView, reading: StripReading) -> float:
    return gpu.limits.get(reading.limit, reading.high)


def _style(gpu: GpuView, reading: StripReading) -> str:
    """A temperature near its edge is no good news; a full memory and a busy GPU are."""
    value = gpu.last.get(reading.column, 0)
    return "red" if reading.unit == "°C" and value > 0.9 * reading.high else "green"


def _name(gpu: GpuView) -> str:
    return clean(f"{gpu.node}/{gpu.gpu}" if gpu.node else gpu.gpu)
