"""The parts of one run's screen: each is a function from a run and a width to lines of text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import numpy as np
from rich.text import Text

from gputel.analysis import text
from gputel.analysis.live.log_state import UpcomingEvent
from gputel.analysis.live.series import Points
from gputel.analysis.live.terminal import plots
from gputel.analysis.live.terminal.snapshots import RunSnapshot
from gputel.analysis.live.terminal.text import clean, clock, event_time, fit, flow, line, moment
from gputel.analysis.live.view import MOST_RANKS, MachineView, StepPartsView, View, longest_waits

STYLES = {"running": "green", "completed": "cyan", "failed": "bold red", "interrupted": "yellow"}
LABELS = {"tok_per_sec": "tok/s", "mfu": "MFU", "grad_norm": "grad norm", "dt_ms": "ms/step"}
FIRST = ("loss", "tok_per_sec", "mfu", "grad_norm")
ELSEWHERE = ("total_time_min", "eta_min")  # shown by `progress`
STRIPS = ("tok_per_sec", "mfu", "grad_norm")
LABEL, VALUE = 10, 9  # columns of a strip's name and of its last value
VALIDATION = "magenta"
BAR = 20
MOST_MACHINES = 4  # that have a line each
OF_MACHINES = (
    ("CPU", "cpu_busy", "%", 1.0),
    ("memory", "mem_used_mib", "GiB", 1 / text.MIB_PER_GIB),
    ("waited for core", "psi_cpu_some", "%", 1.0),
    ("for disk", "psi_io_some", "%", 1.0),
    ("for memory", "psi_memory_some", "%", 1.0),
)
"""What many machines are told apart by: names, columns, units, and how much of the unit 1 is."""


def label(metric: str) -> str:
    return LABELS.get(metric, metric)


def heading(shown: RunSnapshot, width: int) -> list[Text]:
    view = shown.view
    status = line((view.status, STYLES.get(view.status, "dim")))
    phase = f"  {clean(view.phase)}" if view.phase else ""
    if view.attempt > 1:
        phase += f"  attempt {view.attempt}"
    left = line((f" {clean(view.name)} ", "bold reverse"), "  ", status, phase)
    count = len(shown.active)
    alarms = f"▲ {text.counted(count, 'alarm')}" if count else "no alarms"
    right = Text(alarms, "bold red" if count else "green", end="")
    lines = [line(fit(left, max(width - right.cell_len - 1, 10)), " ", right)]
    if view.caution:
        lines.append(line((clean(view.caution), "bold yellow")))
    if view.cause:
        lines.append(line((clean(view.cause), "red")))
    return [fit(each, width) for each in lines]


def progress(view: View, now: datetime, width: int) -> list[Text]:
    """Step, time and cost."""
    step = "-" if view.step is None else f"{view.step:,}"
    chips = [line(("step ", "dim"), step + (f"/{view.total_steps:,}" if view.total_steps else ""))]
    if view.step is not None and view.total_steps:
        share = 1.0 if view.status == "completed" else min(view.step / view.total_steps, 1)
        full = round(share * BAR)
        chips.append(line(("━" * full, "green"), ("━" * (BAR - full), "dim"), f" {100 * share:.1f} %"))
    if view.epoch is not None:
        chips.append(line(("epoch ", "dim"), f"{view.epoch:g}"))
    if view.seconds_a_step is not None:
        chips.append(line(text.duration(view.seconds_a_step), ("/step", "dim")))
    if view.elapsed_s is not None:
        chips.append(line(("elapsed ", "dim"), text.duration(view.elapsed_s)))
    if view.eta_s is not None:
        chips.append(line(("ETA ", "dim"), text.duration(view.eta_s)))
    if view.silent_s is not None and view.status == "running":
        last = datetime.fromtimestamp(now.timestamp() - view.silent_s, now.tzinfo)
        is_today = last.astimezone().date() == now.astimezone().date()
        chips.append(line(("last record ", "dim"), clock(last) if is_today else moment(last, now)))
    return flow([*chips, *_cost(view)], width)


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
            (f" ({cost.caution})" if cost.caution else "", "yellow"),
        )
    ]


def figures(view: View, width: int, rows: int) -> list[Text]:
    """Last values, the most important first."""
    evals = {name: float(points.mean[-1]) for name, points in view.evals.items() if len(points.mean)}
    last = {name: value for name, value in view.last.items() if name not in ELSEWHERE}
    loss = {name: last[name] for name in FIRST[:1] if name in last}
    values = {**loss, **evals, **{name: last[name] for name in FIRST if name in last}, **last}
    chips = [line((f"{clean(label(name))} ", "dim"), _value(value)) for name, value in values.items()]
    return flow(chips, width)[:rows]


def _value(value: float) -> tuple[str, str]:
    return text.short(value, 5), "bold" if math.isfinite(value) else "bold red"


def metrics(runs: Sequence[RunSnapshot]) -> list[str]:
    """Metrics that can be drawn of at least one run, the most important first."""
    names = dict.fromkeys(name for shown in runs for name in (*shown.view.curves, *shown.view.evals))
    return [name for name in FIRST if name in names] + [name for name in names if name not in FIRST]


def points_of(view: View, metric: str) -> Points | None:
    """The curve of a metric; None if it has no points."""
    points = view.curves.get(metric, view.evals.get(metric))
    return points if points is not None and len(points.step) else None


def curve(
    view: View, metric: str, width: int, rows: int, share: float = 1.0, *, log: bool = False
) -> list[Text]:
    """One metric over the steps; the loss together with the validation loss."""
    drawn = {metric: (points_of(view, metric), "cyan")}
    if metric == "loss":
        drawn |= {name: (view.evals[name], VALIDATION) for name in view.evals if name == "val_loss"}
    lines = {
        name: plots.PlotLine(points, style) for name, (points, style) in drawn.items() if points is not None
    }
    keys = [line(("● ", each.style), clean(label(name))) for name, each in lines.items()]
    return frame(keys, list(lines.values()), width, rows, share, log=log)


def frame(
    keys: Sequence[Text],
    lines: Sequence[plots.PlotLine],
    width: int,
    rows: int,
    share: float = 1.0,
    *,
    log: bool = False,
) -> list[Text]:
    """A plot with a legend and its steps above, and the ends of the value axis on the left."""
    if rows < 3:
        return []
    seen = plots.window([each.points for each in lines], share, log=log)
    if seen is None:
        empty = [line(("nothing to draw yet", "dim")), *[line()] * (rows - 1)]
        return [fit(each, width) for each in empty]
    low, high = (text.short(math.exp(edge) if log else edge, 5) for edge in (seen.bottom, seen.top))
    margin = max(len(low), len(high))
    scale = ", log scale" if log else ""
    span = line((f"steps {seen.left:,.0f} to {seen.right:,.0f}{scale}", "dim"))
    key = flow(list(keys), max(width - span.cell_len - margin - 3, 8))[:1] or [line()]
    head = line(" " * (margin + 1), fit(key[0], max(width - margin - 2 - span.cell_len, 0)), " ", span)
    edges = {0: high, rows - 2: low}
    body = plots.plot(lines, seen, max(width - margin - 1, 1), rows - 1)
    drawn = [line((edges.get(y, "").rjust(margin), "dim"), " ", row) for y, row in enumerate(body)]
    return [fit(each, width) for each in [head, *drawn]]


def strips(view: View, width: int, rows: int) -> list[Text]:
    """Throughput, MFU and gradient norm, one line each."""
    room = max(width - LABEL - VALUE - 2, 1)
    return [fit(_strip(view, name, room), width) for name in STRIPS if name in view.curves][:rows]


def _strip(view: View, name: str, room: int) -> Text:
    """A strip in which a value that hardly changes is drawn flat."""
    values = view.curves[name].mean
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    drawn = plots.strip(values, room, min(low, 0.9 * high), high)
    last = text.short(view.last[name], 5) if name in view.last else "-"
    return line((label(name).ljust(LABEL), "dim"), (drawn, "cyan"), " ", last.rjust(VALUE))


def upcoming(view: View, now: datetime, width: int) -> list[Text]:
    """The next checkpoint, evaluation, epoch end and the end of the run, with their times."""
    chips = [_upcoming(event, now) for event in view.upcoming]
    return flow([line(("next", "dim")), *chips], width) if chips else []


def _upcoming(event: UpcomingEvent, now: datetime) -> Text:
    time = f" {moment(event.at, now)}" if event.at else ""
    return line((event.kind, "bold"), f" {event.step:,}", (time, "green"))


def alarms(shown: RunSnapshot, width: int, rows: int) -> list[Text]:
    """Active alarms, then those raised and cleared before, latest first."""
    active = [line(("▲ ", "bold red"), (clean(alarm.line), "red")) for alarm in reversed(shown.active)]
    past = [alarm for alarm in reversed(shown.history) if alarm not in shown.active]
    before = [
        line(("✓ " if alarm.state == "off" else "△ ", "green"), (clean(alarm.line), "dim")) for alarm in past
    ]
    return [fit(each, width) for each in (active + before)[:rows]]


def events(view: View, width: int, rows: int) -> list[Text]:
    """Events in the order of the log; equal neighbors share a line."""
    shown = [event for event in view.events if event.get("kind") not in ("eval", "epoch", "alarm")]
    alike = groupby(shown, key=lambda event: (event.get("kind"), event.get("text")))
    folded = [list(group) for _, group in alike]
    return [fit(_event(group[-1], len(group)), width) for group in folded[-rows:]] if rows > 0 else []


def _event(event: Mapping[str, Any], count: int) -> Text:
    """The last of `count` equal events."""
    time, step = event_time(event.get("time")), event.get("step")
    when = f"{clock(time)} " if time else ""
    where = f"step {step:,}  " if isinstance(step, int) else ""
    kind, words = clean(text.event(str(event.get("kind")))), clean(event.get("text") or "")
    times = f"×{count} " if count > 1 else ""
    return line((f"{when}{where}", "dim"), (f"{kind} {times}", "bold"), words)


def machines(views: Sequence[MachineView], width: int, rows: int) -> list[Text]:
    """A line for each machine: CPU, memory, and the time in which some task waited; and who uses its GPUs.

    Of many machines it is one line, so that alarms stay on the screen.
    """
    if len(views) > MOST_MACHINES:
        return [fit(_range_of(views), width)][: max(rows, 0)]
    lines = [fit(_machine(machine), width) for machine in views if machine.host]
    users = [line((user.words, "dim")) for machine in views for user in machine.gpu_users]
    return [*lines, *flow(users, width, " · ")][: max(rows, 0)]


def step_parts(views: Sequence[StepPartsView], width: int, rows: int) -> list[Text]:
    """What a step of the last minute consists of: by rank, of many those that wait longest for data."""
    shown = longest_waits(views, min(rows, MOST_RANKS))
    lines = []
    for view in shown:
        whose = f" of {view.whose}" if view.whose else ""
        more = f" (of {len(views)} ranks)" if len(views) > len(shown) else ""
        head = line(("step", "bold"), f"{whose}{more} {text.duration(view.step_ms / 1000)}")
        lines += flow([head, *(line(part) for part in view.parts)], width, " · ")
    return lines[: max(rows, 0)]


def _range_of(views: Sequence[MachineView]) -> Text:
    """The lowest and the highest of all machines, and which has the highest."""
    parts = []
    for name, column, unit, scale in OF_MACHINES:
        values = {view.node: scale * view.host[column] for view in views if column in view.host}
        if values:
            most = max(values, key=values.__getitem__)
            parts.append(f"{name} {min(values.values()):.0f} to {values[most]:.0f} {unit} ({most})")
    return line((f"{len(views)} machines", "bold"), f" {' · '.join(parts)}")


def _machine(machine: MachineView) -> Text:
    host, parts = machine.host, list[str]()
    if "cpu_busy" in host:
        parts.append(f"CPU {host['cpu_busy']:.0f} %")
    if "mem_used_mib" in host and "mem_total_mib" in host:
        used, total = (text.mebibytes(host[name]) for name in ("mem_used_mib", "mem_total_mib"))
        parts.append(f"memory {used} of {total}")
    waits = (("psi_cpu_some", "core"), ("psi_io_some", "disk"), ("psi_memory_some", "memory"))
    waited = [f"{name} {host[column]:.0f} %" for column, name in waits if column in host]
    parts += [f"waited for {', '.join(waited)}"] if waited else []
    name = f"machine {machine.node}" if machine.node else "machine"
    return line((name, "bold"), f" {' · '.join(parts)}")
