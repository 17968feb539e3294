"""Turns views into the parts of the live page, and parts into server-sent events: the full state or the changes.

A message is a list of parts: `[run, kind, name, value]`, with null for a part that is gone, or for growing
columns `[run, kind, name, drop, keep, more]`: drop the first `drop` values, keep the next `keep`, append `more`.

The curves of all runs share a fixed number of points. Neighbors are merged from the start of a curve, so that a
growing curve changes only at its end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gputel.analysis.columns import MAIN
from gputel.analysis.documents.panels import metrics
from gputel.analysis.live.gpus import STRIPS
from gputel.analysis.live.series import Points
from gputel.analysis.live.view import longest_waits
from gputel.analysis.render import style
from gputel.analysis.text import EVENTS, moment
from gputel.telemetry import secrets
from gputel.telemetry.events import ALARM

if TYPE_CHECKING:
    from gputel.analysis.alarms.watch import Alarm
    from gputel.analysis.live.alarms import RunAlarms
    from gputel.analysis.live.view import GpuView, RunCost, View

Key: TypeAlias = tuple[int, str, str]
Columns: TypeAlias = npt.NDArray[np.float64]
Parts: TypeAlias = dict[Key, Any]

DIGITS = 9  # per number: more than any log prints
MOST_DROPPED = 16  # columns that move by more are sent as a whole
PAGE = -1  # run number of parts that concern all runs
MOST_METRICS = 12
MOST_POINTS = 48_000
FEWEST, MOST = 64, 1024  # points of a curve
MOST_EVENTS = 100
LIMITS = ("power_w", "memory_total_mib")


def full_state(parts: Parts, identity: str) -> bytes:
    """The message with all parts."""
    return _event("whole", identity, changes({}, parts))


def update(before: Parts, after: Parts, identity: str) -> bytes:
    """The message with the changes between two states."""
    return _event("news", identity, changes(before, after))


def changes(before: Parts, after: Parts) -> list[list[Any]]:
    """Parts that turn `before` into `after`."""
    changed: list[list[Any]] = [[*key, None] for key in before if key not in after]
    for key, value in after.items():
        if isinstance(value, np.ndarray):
            changed += [[*key, *grown] for grown in _grown(before.get(key), value)]
        elif key not in before or before[key] != value:
            changed.append([*key, value])
    return changed


def _grown(before: Columns | None, after: Columns) -> list[tuple[int, int, list[Any]]]:
    """`drop`, `keep` and `more` of columns; an empty list if they are unchanged."""
    drop, keep = (0, 0) if before is None else _kept(before, after)
    if before is not None and drop == 0 and keep == before.shape[1] == after.shape[1]:
        return []
    return [(drop, keep, _numbers(after[:, keep:]))]


def _kept(before: Columns, after: Columns) -> tuple[int, int]:
    """How many values at the start are gone, and how many are the same after that."""
    for drop in range(min(MOST_DROPPED, before.shape[1])):
        size = min(before.shape[1] - drop, after.shape[1])
        differ = _differ(before[:, drop : drop + size], after[:, :size])
        keep = int(differ.argmax()) if differ.any() else size
        if size and keep >= max(size - 1, size // 2):
            return drop, keep
    return 0, 0


def _differ(before: Columns, after: Columns) -> npt.NDArray[np.bool_]:
    differ: npt.NDArray[np.bool_] = ((before != after) & ~(np.isnan(before) & np.isnan(after))).any(axis=0)
    return differ


def _numbers(columns: Columns) -> list[list[float | None]]:
    """Numbers for JSON; NaN and inf become null."""
    with np.errstate(all="ignore"):
        powers = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(columns))))
        short = np.round(columns * powers) / powers
    short = np.where(np.isfinite(short), short, columns)
    return [[value if finite else None for value, finite in zip(row, finite, strict=True)]
            for row, finite in zip(short.tolist(), np.isfinite(columns).tolist(), strict=True)]  # fmt: skip


def _event(kind: str, identity: str, parts: list[list[Any]]) -> bytes:
    data = json.dumps(parts, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return f"id: {identity}\nevent: {kind}\ndata: {data}\n\n".encode("utf-8", "replace")


def page_parts(views: Sequence[tuple[View, RunAlarms]]) -> Parts:
    """The parts of the page, by run number, kind and name. A run's number is its place in `views`."""
    names = _drawable([view for view, _ in views])
    shown = names[:MOST_METRICS]
    curves = sum(name in side for view, _ in views for side in (view.curves, view.evals) for name in shown)
    most = _share(curves)
    parts: Parts = {
        (PAGE, "look", ""): {**style.FOR_PAGES, "events": EVENTS},
        (PAGE, "panels", ""): _panels(shown, {name for view, _ in views for name in view.curves}),
        (PAGE, "is_cut", ""): len(names) > MOST_METRICS,
    }
    for number, (view, alarms) in enumerate(views):
        parts[number, "facts", ""] = plain(_facts(view, alarms))
        parts[number, "events", ""] = _events(view.events, alarms.history)[-MOST_EVENTS:]
        parts[number, "alarms", ""] = [_alarm(alarm) for alarm in list(alarms.history)[-MOST_EVENTS:]]
        for name in shown:
            points = view.curves.get(name, view.evals.get(name))
            if points is not None:
                parts[number, "curve", name] = np.stack(thinned(points, most))
        if view.first_at is not None:
            step, _, _, seconds = thinned(view.moments, most)
            parts[number, "moments", ""] = np.stack((step, np.maximum.accumulate(seconds)))
        for gpu in view.gpus:
            parts[number, "gpu", f"{gpu.node}/{gpu.gpu}"] = plain(_gpu(gpu))
            parts[number, "strips", f"{gpu.node}/{gpu.gpu}"] = _strips(gpu)
    return parts


def thinned(points: Points, most: int) -> Points:
    """Merges points in groups of a power of two until `most` are left; keeps every extreme."""
    width = 1
    while math.ceil(len(points.step) / width) > most:
        width *= 2
    if width == 1:
        return points
    starts = np.arange(0, len(points.step), width)
    finite = np.isfinite(points.mean)
    count = np.add.reduceat(finite.astype(np.float64), starts)
    total = np.add.reduceat(np.where(finite, points.mean, 0.0), starts)
    return Points(
        points.step[np.minimum(starts + width, len(points.step)) - 1],
        np.fmin.reduceat(points.least, starts),
        np.divide(total, count, out=np.full(len(starts), np.nan), where=count > 0),
        np.fmax.reduceat(points.largest, starts),
    )


def plain(value: Any) -> Any:
    """A value for JSON: NaN and inf as text, secrets masked."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


@lru_cache(maxsize=4096)
def masked(text: str) -> str:
    """Text with anything that looks like a key or token replaced."""
    return secrets.mask(text)


def _share(curves: int) -> int:
    """Points per curve, a power of two, so that one more curve seldom changes all others."""
    share = MOST_POINTS // max(curves, 1)
    return min(max(1 << max(share.bit_length() - 1, 0), FEWEST), MOST)


def _drawable(views: Sequence[View]) -> list[str]:
    """Names of metrics with curves: known ones first, then others in the order in which they were printed."""
    names = dict.fromkeys(
        name
        for view in views
        for side in (view.curves, view.evals)
        for name in side
        if name not in metrics.SO_FAR
    )
    return [
        *(name for name in sorted(metrics.KNOWN, key=lambda name: name not in MAIN) if name in names),
        *(n for n in names if n not in metrics.KNOWN),
    ]


def _panels(shown: Sequence[str], printed: set[str]) -> list[dict[str, Any]]:
    """One panel per metric; a validation metric shares the panel of its training metric."""
    home = {name: name.removeprefix("val_") if name.removeprefix("val_") in shown else name for name in shown}
    panels = []
    for name in shown:
        if home[name] != name:
            continue
        panel = metrics.KNOWN.get(name) or metrics.MetricPanel(name, noisy=name in printed)
        series = [{"name": each, "style": _style(each, printed)} for each in shown if home[each] == name]
        facts = {"name": name, "title": panel.title, "unit": panel.unit, "series": series}
        panels.append({**facts, "noisy": panel.noisy, "steady": panel.steady})
    return panels


def _style(name: str, printed: set[str]) -> str:
    return metrics.KNOWN[name].style if name in metrics.KNOWN else "line" if name in printed else "dots"


def _facts(view: View, alarms: RunAlarms) -> dict[str, Any]:
    evals = {name: float(points.mean[-1]) for name, points in view.evals.items() if len(points.mean)}
    return {
        "name": view.name,
        "source": view.source,
        "status": view.status,
        "cause": view.cause,
        "caution": view.caution,
        "phase": view.phase,
        "attempt": view.attempt,
        "step": view.step,
        "total_steps": view.total_steps,
        "tokens_per_step": view.tokens_per_step,
        "start_s": view.first_at,
        "epoch": view.epoch,
        "last": {**evals, **{name: value for name, value in view.last.items() if name not in evals}},
        "seconds_a_step": view.seconds_a_step,
        "elapsed_s": _whole(view.elapsed_s),
        "eta_s": _whole(view.eta_s),
        "silent_s": _whole(view.silent_s) if view.status == "running" else None,
        "upcoming": [
            [event.kind, event.step, event.at and round(event.at.timestamp())] for event in view.upcoming
        ],
        "cost": _cost(view.cost) if view.cost else None,
        "ranks": [[rank, step, _whole(silent)] for rank, (step, silent) in view.ranks.items()],
        "machines": [
            [machine.node, plain(machine.host), [user.words for user in machine.gpu_users]]
            for machine in view.machines
        ],
        "step_parts": [
            [parts.whose, parts.step_ms / 1000, ", ".join(parts.parts)]
            for parts in longest_waits(view.step_parts)
        ],
        "records": view.records,
        "alarms": [alarm.line for alarm in alarms.active],
    }


def _cost(cost: RunCost) -> dict[str, Any]:
    return {
        "per_hour": cost.per_hour,
        "spent": round(cost.spent, 2),
        "at_end": cost.at_end and round(cost.at_end, 2),
        "budget": cost.budget,
        "is_over": cost.is_over,
        "caution": cost.caution,
    }


def _gpu(gpu: GpuView) -> dict[str, Any]:
    last = {name: gpu.last[name] for name in STRIPS if name in gpu.last}
    limits = {name: gpu.limits[name] for name in LIMITS if gpu.limits.get(name)}
    facts = {"gpu": gpu.gpu, "node": gpu.node, "host": gpu.host, "name": gpu.name}
    return {**facts, "at": round(gpu.at.timestamp()), "last": last, "limits": limits}


def _strips(gpu: GpuView) -> Columns:
    length = max((len(strip) for strip in gpu.strips.values()), default=0)
    missing = [math.nan] * length
    return np.array([gpu.strips.get(name, missing) for name in STRIPS], dtype=np.float64).reshape(
        len(STRIPS), length
    )


def _events(events: Sequence[Mapping[str, Any]], history: Iterable[Alarm]) -> list[list[Any]]:
    """Events of the log and the recorder; an alarm that this session has judged itself is not repeated."""
    judged = {(alarm.rule, alarm.key, alarm.state, alarm.step) for alarm in history}
    parts = []
    for event in events:
        if event.get("kind") != ALARM:
            parts.append(_event_part(event))
        elif (event.get("rule"), event.get("key"), event.get("state"), event.get("step")) not in judged:
            kind = "over" if event.get("state") == "off" else ALARM
            what = f"{event['what']}: " if event.get("what") else ""
            parts.append(_event_part({**event, "kind": kind, "text": f"{what}{event.get('text') or ''}"}))
    return parts


def _event_part(event: Mapping[str, Any]) -> list[Any]:
    """Kind, step, time and text of an event."""
    time = event.get("time")
    stamp = time if time is None or isinstance(time, str) else moment(time)
    step = event.get("step")
    text = masked(str(event.get("text") or ""))
    return [str(event.get("kind")), step if isinstance(step, int) else None, stamp, text]


def _alarm(alarm: Any) -> list[Any]:
    """An alarm in the form of an event."""
    kind = ALARM if alarm.state == "on" else "over"
    return [kind, alarm.step, alarm.at_s, masked(alarm.line)]


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None or not math.isfinite(seconds) else round(seconds)
